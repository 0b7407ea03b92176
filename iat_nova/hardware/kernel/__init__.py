# SPDX-License-Identifier: Apache-2.0
"""What the back ends use of the kernel: registers, CPUs and caches, locks, capabilities."""
