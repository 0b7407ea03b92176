# SPDX-License-Identifier: Apache-2.0
"""Who decides: the paper's machine, a host without the agent, plug-ins."""
