# SPDX-License-Identifier: Apache-2.0
"""Runs of a scenario, their results, and which results are kept."""
