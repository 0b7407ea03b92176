# SPDX-License-Identifier: Apache-2.0
"""What researchers run, and a compute host does without: the emulated server and measurements."""
