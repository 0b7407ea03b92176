# SPDX-License-Identifier: Apache-2.0
"""What to do, pure: no files, no clocks, no threads."""
