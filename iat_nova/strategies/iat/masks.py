# SPDX-License-Identifier: Apache-2.0
"""The masks of an iteration: the solver's answer to the way counts, with idle ways lent."""

from __future__ import annotations

from collections.abc import Mapping

from iat_nova.model import Layout, Rates
from iat_nova.strategies.iat.ledger import Ledger
from iat_nova.strategies.iat.presets import Features
from iat_nova.strategies.iat.realloc import RoundView
from iat_nova.strategies.iat.roster import Roster
from iat_nova.strategies.iat.state import IatState
from iat_nova.strategies.layout import lend
from iat_nova.strategies.layout import plan as layout


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

    Raises `layout.LayoutError` if no layout exists.
    """
    wants = []
    for member in roster.members:
        rates = ranking.get(member.id)
        wants.append(
            layout.Want(
                tenant=member.id,
                ways=state.allocation.tenants[member.id],
                priority=member.priority,
                kind=member.kind,
                references_per_s=0.0 if rates is None else rates.references_per_s,
                misses_per_s=state.pressing_per_s.get(member.id, 0.0),
                held=member.ways.held,
            )
        )
    placed = layout.plan(
        roster.domain,
        state.allocation.ddio_ways,
        wants,
        current.counted if current is not None else None,
        avoid=features.shuffle,
        forbid=features.avoid_ddio,
    )
    return lend.lend(roster.domain, roster.host, placed)
