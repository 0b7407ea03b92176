# SPDX-License-Identifier: Apache-2.0
"""Strategies: the paper's state machine, a pollute buffer, A4, a host without the agent.

Plug-ins add others.
"""
