# SPDX-License-Identifier: Apache-2.0
"""The commands of the emulated server; what compiles is imported when one runs."""
