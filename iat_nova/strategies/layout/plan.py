# SPDX-License-Identifier: Apache-2.0
"""Turn way counts into masks (ISCA 2021, section IV-D, *shuffle*).

`plan` is a pure function. The objective, lexicographically:

1. With `avoid`, the fewest ways shared with DDIO. Partitions are compared from the last to share to
   the first: the stack, PC by descending references, the host's class, BE by descending references.
   Idle ways lie in DDIO's ways before any partition.
2. The fewest masks that move.
3. The fewest ways new to their owner: a growing tenant takes the adjacent idle way.
4. Low positions, in the order of rule 1.

Coerced ways form a unit: a mask with any of them has all, so the requested mask equals the mask
read back. A tenant with fewer ways than the unit gets the whole unit. If the unit makes the counts
impossible to place, best-effort tenants share a partition. If that is not enough, counts are cut,
one way at a time, as `grouping` describes. Best-effort tenants also share if otherwise only a PC
tenant or the stack could own a unit inside DDIO's ways.

Masks are contiguous. A mask crosses a gap only if reserved ways prevent every contiguous layout and
the hardware takes sparse masks.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
from collections.abc import Iterator, Mapping, Sequence

from iat_nova.model import CacheDomain, Group, Layout, Message, TenantKind, WayMask, message
from iat_nova.model.message import as_message
from iat_nova.strategies.layout import grouping, line, search
from iat_nova.strategies.layout.grouping import Partition, Standing, Want

__all__ = ["LayoutError", "Want", "ddio_mask", "plan"]


class LayoutError(ValueError):
    """No layout is possible; `message` names the missing resource."""

    def __init__(self, said: Message | str) -> None:
        super().__init__(said)
        self.message = as_message(said)


def ddio_mask(domain: CacheDomain, ddio_ways: int) -> WayMask:
    """Return DDIO's mask: the topmost `ddio_ways` ways outside the reserved ways.

    Raises `LayoutError` if there are not so many.
    """
    mask = ((1 << domain.ways) - 1) & ~domain.reserved_ways
    surplus = mask.bit_count() - ddio_ways
    if ddio_ways < 0 or surplus < 0:
        said = message(
            "ddio-ways-too-many",
            domain=domain.id,
            wanted=ddio_ways,
            left=mask.bit_count(),
            ways=domain.ways,
        )
        raise LayoutError(said)
    for _ in range(surplus):
        mask &= mask - 1
    return WayMask(mask)


def plan(
    domain: CacheDomain,
    ddio_ways: int,
    wants: Sequence[Want],
    current: Layout | None,
    *,
    avoid: bool,
    forbid: bool = False,
) -> Layout:
    """Return a layout with a mask for each tenant.

    `avoid`: seek the least overlap with DDIO; otherwise positions matter only to keep masks in
    place. `forbid`: no tenant ever gets a way of DDIO. `current`: the agent's layout on the
    hardware, or None. The result does not depend on the order of `wants`. Groups are in ascending
    order of masks. Up to eight groups the result is optimal; beyond, `Layout.exact` says whether
    the result is proven optimal. Raises `LayoutError`.
    """
    ddio = ddio_mask(domain, ddio_ways)
    if not wants:
        return Layout(ddio, ())
    site = _OpenWays.of(domain, ddio, avoid=avoid and not forbid, forbid=forbid)
    held = _held(current)
    second = None
    for parts, on, cut in _divisions(domain, site, wants):
        packing = line.pack([part.ways for part in parts], on, site.clean)
        if not parts or (on.regular and packing is None):
            continue
        if site.avoid and packing is not None and _starved(parts, packing, site.clean):
            second = second or (parts, on, packing)
            continue
        if second is not None and cut:
            break
        layout = _settle(site, parts, on, packing, held)
        if layout is not None:
            return layout
    if second is not None and (layout := _settle(site, *second, held)) is not None:
        return layout
    raise LayoutError(
        message(
            "no-mask-fits", domain=domain.id, least=domain.min_ways, open_ways=int(site.open_ways)
        )
    )


@dataclasses.dataclass(frozen=True, slots=True)
class _OpenWays:
    """The ways open to masks, and DDIO's ways.

    `clean`: the number of open ways below DDIO's ways.
    """

    ddio: WayMask
    open_ways: int
    clean: int
    avoid: bool

    @classmethod
    def of(cls, domain: CacheDomain, ddio: WayMask, *, avoid: bool, forbid: bool) -> _OpenWays:
        closed = domain.reserved_ways | (ddio if forbid else 0)
        if closed & domain.coerced_ways:
            closed |= domain.coerced_ways
        open_ways = ((1 << domain.ways) - 1) & ~closed
        count = open_ways.bit_count()
        return cls(ddio, open_ways, (open_ways & ~ddio).bit_count() if avoid else count, avoid)


def _held(current: Layout | None) -> dict[str, int]:
    groups = current.groups if current is not None else ()
    return {tenant: group.mask for group in groups for tenant in group.tenants}


def _divisions(
    domain: CacheDomain, site: _OpenWays, wants: Sequence[Want]
) -> Iterator[tuple[list[Partition], line.Line, bool]]:
    """Yield candidate partitions, best first, with their line and whether counts were cut."""
    if len({want.tenant for want in wants}) != len(wants):
        raise LayoutError(message("tenant-twice", domain=domain.id))
    host = any(want.kind is TenantKind.HOST for want in wants)
    limit = domain.classes if host else domain.classes - 1  # the default class always exists
    if limit < 1:
        raise LayoutError(message("classes-too-few", domain=domain.id, classes=domain.classes))
    lines = [line.line(site.open_ways, domain.coerced_ways, True)]
    if lines[0].breaks and domain.sparse_masks:
        lines.append(line.line(site.open_ways, domain.coerced_ways, False))
    limit = min(limit, lines[0].units)
    total = lines[0].length
    divide = functools.partial(grouping.partitions, wants, limit=limit, min_ways=domain.min_ways)
    parts = divide(total)
    yield from ((parts, on, False) for on in lines)
    if len(parts) == len(wants):
        parts = divide(total, share=True)
        yield from ((parts, on, False) for on in lines)
    for ways in reversed(range(total)):  # no division has fewer ways than a mask
        parts = divide(ways, share=True)
        yield from ((parts, on, True) for on in lines)


def _starved(parts: Sequence[Partition], packing: line.Packing, clean: int) -> bool:
    """Return whether a PC tenant or the stack overlaps DDIO although lower ways would suffice.

    PC tenants and the stack stand first, so their ways fill the line from below. A PC tenant or
    stack with more overlap than its place requires owns the coerced unit, because every BE tenant
    is too small for the unit.
    """
    at = 0
    for part, overlap in zip(parts, packing.overlaps, strict=True):
        if part.standing < Standing.PC:
            break
        at += part.ways
        if overlap > max(0, min(part.ways, at - clean)):
            return True
    return False


def _settle(
    site: _OpenWays,
    parts: Sequence[Partition],
    on: line.Line,
    packing: line.Packing | None,
    held: Mapping[str, int],
) -> Layout | None:
    """Place the partitions; return None if they do not fit.

    `packing`: None for an irregular line. The least overlap is then computed on the same line
    without gaps and units. If no placement reaches the least overlap, the search minimises overlap
    itself.
    """
    sizes = [part.ways for part in parts]
    least = packing or line.from_below(sizes, on.length, site.clean)
    if least is None:
        return None
    items = [
        search.Item(part.ways, _present(part, held), overlap if site.avoid else None)
        for part, overlap in zip(parts, least.overlaps, strict=True)
    ]
    if search.at_rest(items, on, site.ddio):
        return _layout(site, parts, [item.held for item in items], exact=True)
    if packing is not None and not any(item.held for item in items):
        return _layout(site, parts, [on.mask(*span) for span in packing.spans], exact=True)
    found = search.search(items, on, site.ddio)
    if found is None and packing is None and site.avoid:
        items = [dataclasses.replace(item, overlap=None) for item in items]
        found = search.search(items, on, site.ddio, weigh=True)
    if found is not None:
        spans, exact = found
    elif packing is not None:
        spans, exact = packing.spans, False
    else:
        return None
    return _layout(site, parts, [on.mask(*span) for span in spans], exact=exact)


def _present(part: Partition, held: Mapping[str, int]) -> int:
    """Return the present mask of most members; 0 if no member has a mask."""
    masks = collections.Counter(held[tenant] for tenant in part.tenants if tenant in held)
    return min(masks, key=lambda mask: (-masks[mask], mask), default=0)


def _layout(
    site: _OpenWays, parts: Sequence[Partition], masks: Sequence[int], *, exact: bool
) -> Layout:
    groups = [
        Group(part.tenants, WayMask(mask)) for mask, part in sorted(zip(masks, parts, strict=True))
    ]
    return Layout(site.ddio, tuple(groups), exact, any(len(part.tenants) > 1 for part in parts))
