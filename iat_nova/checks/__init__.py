# SPDX-License-Identifier: Apache-2.0
"""An operator's checks: an agent's findings on this host, and the behaviour of the hardware."""
