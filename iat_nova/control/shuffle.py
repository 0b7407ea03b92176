# SPDX-License-Identifier: Apache-2.0
"""What a new layout means: whose masks moved, by which rates tenants rank, what to say of it."""

from __future__ import annotations

from collections.abc import Mapping

from iat_nova.control import words
from iat_nova.control.ledger import Ledger
from iat_nova.control.realloc import View
from iat_nova.control.state import DDIO
from iat_nova.model import Action, Allocation, Layout, Parameters, Quantity, Rates, Sample, Step


def moved(before: Layout | None, after: Layout) -> tuple[str, ...]:
    """Return whose mask differs, tenants first, then DDIO."""
    if before is after:
        return ()
    was = {t: group.mask for group in before.groups for t in group.tenants} if before else {}
    moved = [t for group in after.groups for t in group.tenants if was.get(t) != group.mask]
    if before is None or before.ddio != after.ddio:
        moved.append(DDIO)
    return tuple(moved)


def ranking(
    before: Mapping[str, Rates], sample: Sample, parameters: Parameters
) -> Mapping[str, Rates]:
    """Return the rates that rank tenants; the same object while none moved far.

    They follow in coarse steps (10 % by the policy), or two tenants of like demand would change
    places with every sample.
    """
    threshold, floor = parameters.retry_change, parameters.floor_references_per_s
    fresh = {
        tenant: rates
        for tenant, rates in sample.tenants.items()
        if (held := before.get(tenant)) is None
        or _far(held.references_per_s, rates.references_per_s, threshold, floor)
        or _far(held.misses_per_s, rates.misses_per_s, threshold, floor)
    }
    return {**before, **fresh} if fresh else before


def _far(before: float, after: float, threshold: float, floor: float) -> bool:
    distance = abs(after - before)
    return distance > floor and distance > threshold * before


def step(before: Layout, after: Layout, ledger: Ledger, counts_before: Allocation) -> Step | None:
    """Return what to say of masks that moved although their counts stayed; None if none did."""
    resized = {t for t, ways in ledger.counts.items() if counts_before.tenants[t] != ways}
    others = [t for t in moved(before, after) if t != DDIO and t not in resized]
    if not others:
        return None
    was, now = before.overlaps_ddio, after.overlaps_ddio
    left = [ledger.name(t) for t in was if t not in now]
    entered = [ledger.name(t) for t in now if t not in was]
    parts = []
    if left:
        parts.append(f"out of DDIO's ways: {words.names(left)}")
    if entered:
        parts.append(f"into them, having the least to lose: {words.names(entered)}")
    if not parts:
        parts.append(f"moved aside, to keep masks whole: {words.names(map(ledger.name, others))}")
    return Step(Action.SHUFFLE, "layout", "; ".join(parts))


def served(before: Layout, after: Layout, view: View) -> tuple[str, ...]:
    """Return who left DDIO's ways while its misses rose: if they stay up, it asks again."""
    stays = after.overlaps_ddio
    return tuple(
        tenant
        for tenant in before.overlaps_ddio
        if tenant not in stays
        and tenant in view.roster.by_id
        and not view.roster.is_io(tenant)
        and view.moves.rose(tenant, Quantity.MISSES)
    )
