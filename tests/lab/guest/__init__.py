# SPDX-License-Identifier: Apache-2.0
"""Tests that run inside the rdt-lab's guest, as root, on a kernel of their own."""
