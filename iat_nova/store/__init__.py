# SPDX-License-Identifier: Apache-2.0
"""The state directory: history, heartbeat of the agent, and requests of operators."""
