# SPDX-License-Identifier: Apache-2.0
"""Invariants at the end of every step: counts within bounds, and masks that agree with counts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from iat_nova.model import DDIO, Group, Layout
from iat_nova.strategies.iat.roster import Roster
from iat_nova.strategies.iat.state import IatState
from iat_nova.strategies.layout import line


class InvariantError(RuntimeError):
    """A step would leave inconsistent counts or masks: a bug. The text names the inconsistency."""


def check(roster: Roster, usable: int, state: IatState) -> None:
    """Raise `InvariantError` unless the state's counts, grants and masks agree.

    `usable`: number of ways that all tenants together may hold.
    """
    broken = [*_counts(roster, state), *_masks(roster, usable, state)]
    if broken:
        raise InvariantError(f"cache domain {roster.domain.id}: {'; '.join(broken)}")


def _counts(roster: Roster, state: IatState) -> Iterator[str]:
    counts = state.allocation.tenants
    if counts.keys() != roster.by_id.keys():
        yield f"ways are counted for {sorted(counts)}, the tenants are {sorted(roster.by_id)}"
        return
    granted = dict.fromkeys((*counts, DDIO), 0)
    for grant in state.grants:
        granted[grant.subject] = granted.get(grant.subject, 0) + 1
    for member in roster.members:
        count, least, most = counts[member.id], roster.least(member), roster.most(member)
        if not least <= count <= most:
            yield f"{member.id} has {count} ways, its bounds are {least} and {most}"
        own = count - granted[member.id]
        if not least <= own <= roster.initial(member):
            yield f"{member.id} has {own} ways that nobody granted, {count} in all"
    if state.allocation.ddio_ways < granted[DDIO]:
        yield f"DDIO has {state.allocation.ddio_ways} ways, {granted[DDIO]} are noted as granted"


def _masks(roster: Roster, usable: int, state: IatState) -> Iterator[str]:
    layout, counts = state.layout, state.allocation.tenants
    if layout is None:
        yield "there is no layout"
        return
    if sorted(t for group in layout.groups for t in group.tenants) != sorted(roster.ids):
        yield f"the masks are those of {layout.groups}, the tenants are {sorted(roster.ids)}"
        return
    if layout.ddio.count != state.allocation.ddio_ways:
        yield f"DDIO's mask {layout.ddio} has not {state.allocation.ddio_ways} ways"
    yield from _overlaps(layout)
    if layout.lent is not None:
        yield from _lent(layout, layout.lent, roster)
        layout = layout.counted
        yield from _overlaps(layout)
    if not _regular(roster):
        return  # coerced ways come as a unit, gaps stay empty: masks may differ from counts
    total = min(sum(counts.values()), usable)
    taken = sum(group.mask.count for group in layout.groups)
    if taken != total:
        yield f"all masks together have {taken} ways, {total} are counted"
    yield from _sizes(layout, counts, may_be_less=layout.grouped or sum(counts.values()) > usable)


def _lent(layout: Layout, own: Group, roster: Roster) -> Iterator[str]:
    """Yield wrongly lent ways: lent to other tenants than the host's class, or DDIO's ways."""
    if own.tenants != (roster.host,):
        yield f"ways are lent to {', '.join(own.tenants)}"
    if any(group.tenants == own.tenants and group.mask & layout.ddio for group in layout.groups):
        yield f"DDIO's ways are lent to {', '.join(own.tenants)}"


def _overlaps(layout: Layout) -> Iterator[str]:
    taken = 0
    for group in layout.groups:
        if group.mask & taken:
            yield f"{', '.join(group.tenants)}: mask {group.mask} overlaps another one"
        taken |= group.mask


def _sizes(layout: Layout, counts: Mapping[str, int], *, may_be_less: bool) -> Iterator[str]:
    """Yield masks with a size other than the count.

    `may_be_less`: masks may be smaller, because tenants share or the counts exceed the usable ways.
    """
    for group in layout.groups:
        count = sum(counts[tenant] for tenant in group.tenants)
        if group.mask.count > count or (group.mask.count < count and not may_be_less):
            yield f"{', '.join(group.tenants)}: mask {group.mask} for {count} ways"


def _regular(roster: Roster) -> bool:
    """Return whether a mask can have any number of ways at any place."""
    domain = roster.domain
    open_ways = ((1 << domain.ways) - 1) & ~domain.reserved_ways
    on = line.line(open_ways, domain.coerced_ways, True)
    return not on.breaks and on.units == on.length
