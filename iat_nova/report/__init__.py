# SPDX-License-Identifier: Apache-2.0
"""What people see: way maps, live screen, HTML report."""
