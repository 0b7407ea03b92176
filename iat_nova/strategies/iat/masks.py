# SPDX-License-Identifier: Apache-2.0
"""The masks of an iteration: the solver's answer to the way counts, with idle ways lent.

Idle ways are lent to the host's class, which holds the CPUs without a known owner. Only the mask of
that class grows. The next layout is planned from the counts, so a grant takes lent ways back in the
same decision. DDIO's ways are never lent. Steps say whose masks moved.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from iat_nova.model import (
    DDIO,
    Action,
    Allocation,
    CacheDomain,
    Group,
    Layout,
    Parameters,
    Quantity,
    Rates,
    Sample,
    Step,
    WayMask,
    message,
)
from iat_nova.strategies.iat.change import Direction, direction
from iat_nova.strategies.iat.ledger import Ledger
from iat_nova.strategies.iat.presets import Features
from iat_nova.strategies.iat.realloc import RoundView
from iat_nova.strategies.iat.roster import Roster
from iat_nova.strategies.iat.state import IatState
from iat_nova.strategies.layout import plan as solver


def place(state: IatState, view: RoundView, ledger: Ledger, ranking: Mapping[str, Rates]) -> Layout:
    """Return the layout, a new one if way counts or the ranking of sharing tenants changed."""
    counts_changed = ledger.allocation != state.allocation
    reranked = ranking is not state.ranking and view.features.shuffle
    shares = bool(view.placed.overlaps_ddio) or view.placed.grouped
    if counts_changed or (reranked and shares):
        return plan(view.roster, view.features, ledger.kept(state), ranking, view.placed)
    return view.placed


def plan(
    roster: Roster,
    features: Features,
    state: IatState,
    ranking: Mapping[str, Rates],
    current: Layout | None,
) -> Layout:
    """Return masks from the solver; tenants without a measurement rank as idle.

    Raises `LayoutError` if no layout exists.
    """
    wants = []
    for member in roster.members:
        rates = ranking.get(member.id)
        wants.append(
            solver.Want(
                tenant=member.id,
                ways=state.allocation.tenants[member.id],
                priority=member.priority,
                kind=member.kind,
                references_per_s=0.0 if rates is None else rates.references_per_s,
                misses_per_s=state.pressing_per_s.get(member.id, 0.0),
                held=member.ways.held,
            )
        )
    placed = solver.plan(
        roster.domain,
        state.allocation.ddio_ways,
        wants,
        current.counted if current is not None else None,
        avoid=features.shuffle,
        forbid=features.avoid_ddio,
    )
    return lend(roster.domain, roster.host, placed)


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


def ranked(
    before: Mapping[str, Rates], sample: Sample, parameters: Parameters
) -> Mapping[str, Rates]:
    """Return the rates that rank tenants; the same object if no references moved far.

    Rates follow in coarse steps (10 % by the policy). Otherwise two tenants of similar demand would
    swap places with every sample.
    """
    threshold, floor = parameters.retry_change, parameters.floor_references_per_s
    fresh = {
        tenant: rates
        for tenant, rates in sample.tenants.items()
        if (held := before.get(tenant)) is None
        or direction(held.references_per_s, rates.references_per_s, threshold, floor)
        is not Direction.STEADY
    }
    return {**before, **fresh} if fresh else before


def moved(before: Layout, after: Layout, ledger: Ledger, counts_before: Allocation) -> Step | None:
    """Return a step about masks that moved without a change of count, or None."""
    resized = {t for t, ways in ledger.counts.items() if counts_before.tenants[t] != ways}
    others = [t for t in after.moved_since(before) if t != DDIO and t not in resized]
    if not others:
        return None
    was, now = before.overlaps_ddio, after.overlaps_ddio
    left = tuple(t for t in was if t not in now)
    entered = tuple(t for t in now if t not in was)
    parts = []
    if left:
        parts.append(message("out-of-ddio", tenants=left))
    if entered:
        parts.append(message("into-ddio", tenants=entered))
    if not parts:
        parts.append(message("moved-aside", tenants=tuple(others)))
    return Step(Action.SHUFFLE, "layout", message("several", causes=tuple(parts)))


def sharing(before: IatState, after: IatState) -> tuple[Step, ...]:
    """Return steps about tenants that newly share a partition for lack of ways or classes."""
    known = _companions(before.layout)
    return tuple(
        Step(Action.ADOPT, "layout", message("share-partition", tenants=tenants, ways=mask.count))
        for tenants, mask in _companions(after.layout).items()
        if tenants not in known
    )


def _companions(layout: Layout | None) -> dict[tuple[str, ...], WayMask]:
    groups = layout.groups if layout is not None else ()
    return {group.tenants: group.mask for group in groups if len(group.tenants) > 1}


def served(before: Layout, after: Layout, view: RoundView) -> tuple[str, ...]:
    """Return tenants that left DDIO's ways while their misses rose.

    Such tenants ask again if misses stay high.
    """
    stays = after.overlaps_ddio
    return tuple(
        tenant
        for tenant in before.overlaps_ddio
        if tenant not in stays
        and tenant in view.roster.by_id
        and not view.roster.is_io(tenant)
        and view.moves.rose(tenant, Quantity.MISSES)
    )
