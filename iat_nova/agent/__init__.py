# SPDX-License-Identifier: Apache-2.0
"""The agent: its loop, what the loop holds on to, and how the parts are joined."""
