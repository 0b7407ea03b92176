# SPDX-License-Identifier: Apache-2.0
"""Counters of CPUs, LLC slices and tenants, through perf, registers or resctrl."""
