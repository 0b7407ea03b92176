# SPDX-License-Identifier: Apache-2.0
"""iat-nova: I/O-aware last-level cache management for OpenStack compute hosts."""
