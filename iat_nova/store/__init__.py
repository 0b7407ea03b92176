# SPDX-License-Identifier: Apache-2.0
"""The state directory: the history, the agent's heartbeat, an operator's pause."""
