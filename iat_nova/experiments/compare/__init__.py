# SPDX-License-Identifier: Apache-2.0
"""Strategies side by side, and the best layouts that a search finds."""
