# SPDX-License-Identifier: Apache-2.0
"""Helpers of all parts: clocks, lists of CPUs, files, bounded texts."""
