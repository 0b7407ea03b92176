# SPDX-License-Identifier: Apache-2.0
"""Effects of a new layout: ranking of tenants, and messages about moved masks."""

from __future__ import annotations

from collections.abc import Mapping

from iat_nova.model import (
    DDIO,
    Action,
    Allocation,
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
from iat_nova.strategies.iat.realloc import RoundView
from iat_nova.strategies.iat.state import IatState


def ranking(
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


def step(before: Layout, after: Layout, ledger: Ledger, counts_before: Allocation) -> Step | None:
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
        Step(
            Action.ADOPT,
            "layout",
            message("share-partition", tenants=tenants, ways=mask.count),
        )
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
