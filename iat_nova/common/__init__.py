# SPDX-License-Identifier: Apache-2.0
"""Shared parts without an owner: clocks, lists of CPUs, files, bounded texts."""
