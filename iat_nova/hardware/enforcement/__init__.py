# SPDX-License-Identifier: Apache-2.0
"""Writing layouts to the hardware, and restoring the original settings."""
