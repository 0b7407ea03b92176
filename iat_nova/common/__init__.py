# SPDX-License-Identifier: Apache-2.0
"""What all parts use and none owns: clocks, lists of CPUs, files, bounded texts."""
