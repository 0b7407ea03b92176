# SPDX-License-Identifier: Apache-2.0
"""From way counts to masks. Pure functions: no files, no clocks, no threads."""
