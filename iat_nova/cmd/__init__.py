# SPDX-License-Identifier: Apache-2.0
"""The commands: arguments in, text out."""
