# SPDX-License-Identifier: Apache-2.0
"""The engine: caches, cards, disks and threads in C, on arrays of numpy."""
