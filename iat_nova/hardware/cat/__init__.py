# SPDX-License-Identifier: Apache-2.0
"""Cache allocation: classes of service and their masks, through resctrl or libpqos."""
