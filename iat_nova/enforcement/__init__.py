# SPDX-License-Identifier: Apache-2.0
"""From a layout to the hardware, and back to how the host was found."""
