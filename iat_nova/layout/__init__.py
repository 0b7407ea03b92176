# SPDX-License-Identifier: Apache-2.0
"""Where the ways lie, pure: no files, no clocks, no threads."""
