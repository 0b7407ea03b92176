# SPDX-License-Identifier: Apache-2.0
"""The commands that measure the agent."""
