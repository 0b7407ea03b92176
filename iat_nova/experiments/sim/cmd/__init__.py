# SPDX-License-Identifier: Apache-2.0
"""The commands of the emulated server; compiled modules are imported only when a command runs."""
