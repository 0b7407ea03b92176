# SPDX-License-Identifier: Apache-2.0
"""A4 (ISCA 2025), to compare with: zones of ways by priority, and trash ways for antagonists.

After the published artifact (ece-fast-lab/ISCA-2025-A4) and the abstract of arXiv 2506.11329. What
was taken from where, and what is left out, is on the page about it (doc/source/a4.rst).
"""

from iat_nova.strategies.a4.strategy import A4

__all__ = ["A4"]
