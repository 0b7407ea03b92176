# SPDX-License-Identifier: Apache-2.0
"""What a search tries next, and when it ends."""

from __future__ import annotations

from collections.abc import Set

from iat_nova.model import DomainInventory, Parameters
from iat_nova.strategies.pollute_buffer import floors, moves
from iat_nova.strategies.pollute_buffer import plan as plans
from iat_nova.strategies.pollute_buffer.plan import Move
from iat_nova.strategies.pollute_buffer.state import State
from iat_nova.strategies.pollute_buffer.view import View

FIRST_LOOKS = 2  # samples under the plan that lies there, before anything is tried
OBVIOUS = 0.05  # promised gain for which one sample is enough
TRIALS = 12  # in one search
REFERENCES = 3  # samples for floors in a minute: critical tenants have few ways in them
SAMPLES = 14  # of the trials of one search, since one was kept that made speeds gain much
LOSES = 0.15  # of a second's work: what the failed trials of one search may cost
FAILURES = 5  # in a row that end a search: what promised most was tried first
_MINUTE_S = 60.0


def next_move(
    state: State,
    inventory: DomainInventory,
    parameters: Parameters,
    without: Set[str] = frozenset(),
) -> moves.Promise | None:
    """Return the next move worth a trial, with the gain that it promises (0.02 is 2 %).

    The last one once the search has cost enough; None: the search is over. `without`: families of
    moves that are left out.
    """
    if state.base is None:
        return None
    if len(state.changes_at_s) + 1 >= parameters.mask_changes_per_minute:
        return None
    if state.samples >= SAMPLES:
        return None
    if reference := _reference(state, inventory):
        return OBVIOUS, reference
    view = View.of(
        inventory,
        parameters,
        state.base,
        state.looks,
        floors.known(state, inventory.tenants),
        settled=not state.paid,
        late=state.late,
    )
    at_s = state.base.taken_at_s
    barred = (one.plan for one in state.barred if one.until_s > at_s)
    known = (state.plan, *state.tried, *barred)
    here = plans.layout(inventory, state.plan)
    found: list[moves.Promise] = []
    if state.trials < TRIALS and state.failed < FAILURES and state.lost <= LOSES:
        found = moves.candidates(view, state.plan, without)
        found.sort(key=lambda one: one[1].what in state.doubted)
    if moves.LOWEST not in without:
        found += moves.last(view, state.plan)
    for promise, move in found:
        if move.plan in known or move.what in state.refused:
            continue
        if (
            moves.has_classes(inventory, move.plan)
            and plans.keeps_promises(inventory, move.plan)
            and plans.layout(inventory, move.plan) != here
        ):
            return promise, move
    return None


def _reference(state: State, inventory: DomainInventory) -> Move | None:
    """Return the trial that shows the floors that the next one is judged by; None: known.

    Where tenants come one soon after another, what may help most is not put off by it.
    """
    if state.hurried and not state.trials and state.counted < FIRST_LOOKS:
        return None
    assert state.base is not None
    if len(last_minute(state.references_at_s, state.base.taken_at_s)) >= REFERENCES:
        return None
    return floors.reference(inventory, state)


def last_minute(moments_s: tuple[float, ...], now_s: float) -> tuple[float, ...]:
    """Return the moments less than a minute ago; seconds of the loop's clock."""
    return tuple(at_s for at_s in moments_s if at_s > now_s - _MINUTE_S)
