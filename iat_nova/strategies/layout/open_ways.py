# SPDX-License-Identifier: Apache-2.0
"""Ways that masks may use."""

from __future__ import annotations

from iat_nova.model import CacheDomain, WayMask


def open_ways(domain: CacheDomain) -> WayMask:
    """Return all ways except the reserved ways.

    If reserved ways divide the cache, return the longest unbroken run.
    """
    lengths = range(domain.ways, 0, -1)
    spans = (WayMask.span(at, n) for n in lengths for at in range(domain.ways - n + 1))
    return next((span for span in spans if not span & domain.reserved_ways), WayMask(0))
