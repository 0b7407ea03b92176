# SPDX-License-Identifier: Apache-2.0
"""The paper's strategy IAT and its comparison policies. Pure: no files, no clocks, no threads."""
