# SPDX-License-Identifier: Apache-2.0
"""DDIO's ways, DDIO's switch for single root ports, and the effect of both."""
