# SPDX-License-Identifier: Apache-2.0
"""Strategies to compare with: a host without the agent, the paper A4, and ablations."""
