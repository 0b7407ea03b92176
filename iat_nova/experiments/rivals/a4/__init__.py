# SPDX-License-Identifier: Apache-2.0
"""A4 (ISCA 2025), for comparison: zones of ways by priority, and trash ways for antagonists.

The sources are the published artifact (ece-fast-lab/ISCA-2025-A4) and the abstract of arXiv
2506.11329. The page doc/source/a4.rst lists the origin of each part, and omissions.
"""

from iat_nova.experiments.rivals.a4.strategy import A4

__all__ = ["A4"]
