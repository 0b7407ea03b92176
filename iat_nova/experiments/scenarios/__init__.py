# SPDX-License-Identifier: Apache-2.0
"""Scenarios: YAML files, their parts, and the profiles of workloads."""
