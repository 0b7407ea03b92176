# SPDX-License-Identifier: Apache-2.0
"""The commands of the emulated server; the engine is loaded only when a command runs."""
