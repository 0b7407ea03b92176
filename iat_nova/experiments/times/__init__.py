# SPDX-License-Identifier: Apache-2.0
"""The cost of an iteration of the loop, on hardware in memory or on this host's hardware."""
