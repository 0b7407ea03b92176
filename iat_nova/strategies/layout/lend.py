# SPDX-License-Identifier: Apache-2.0
"""Lend idle ways to the host's class, which holds the CPUs without a known owner.

Only the mask of the host's class grows. All way counts and all other masks are unchanged. The next
layout is planned from the counts, so a grant takes lent ways back in the same decision. DDIO's ways
are never lent.
"""

from __future__ import annotations

import dataclasses

from iat_nova.model import CacheDomain, Group, Layout, WayMask


def lend(domain: CacheDomain, host: str | None, layout: Layout) -> Layout:
    """Return `layout` with the longest run of idle ways lent, if longer than the host's own mask.

    Nothing is lent if the host's class shares a mask with tenants: lent ways would be theirs, too.
    """
    own = next((group for group in layout.groups if group.tenants == (host,)), None)
    if own is None:
        return layout
    run = _longest(_free(domain, layout, own), domain.ways, own.mask)
    if run.count <= own.mask.count:
        return layout
    others = (group for group in layout.groups if group is not own)
    groups = sorted((*others, Group(own.tenants, run)), key=lambda group: group.mask)
    return dataclasses.replace(layout, groups=tuple(groups), lent=own)


def _free(domain: CacheDomain, layout: Layout, own: Group) -> int:
    """Return the ways that no other tenant, DDIO or the hardware uses, as a mask."""
    taken = domain.reserved_ways | layout.ddio
    for group in layout.groups:
        taken |= 0 if group is own else group.mask
    free = ((1 << domain.ways) - 1) & ~taken
    whole = free & domain.coerced_ways == domain.coerced_ways
    return free if whole else free & ~domain.coerced_ways


def _longest(free: int, ways: int, own: WayMask) -> WayMask:
    """Return the longest run of free ways; among equals a run with own ways, then the lowest."""
    runs, rest = [WayMask(0)], free
    while rest:
        lowest = (rest & -rest).bit_length() - 1
        count = next(n for n in range(1, ways + 1) if not rest >> lowest + n & 1)
        runs.append(WayMask.span(lowest, count))
        rest &= ~runs[-1]
    return max(runs, key=lambda run: (run.count, run & own))
