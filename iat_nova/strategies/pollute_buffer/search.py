# SPDX-License-Identifier: Apache-2.0
"""The next move of a search, and the search's end."""

from __future__ import annotations

from collections.abc import Set

from iat_nova.model import DomainInventory, Parameters
from iat_nova.strategies.pollute_buffer import floors, moves
from iat_nova.strategies.pollute_buffer import plan as plans
from iat_nova.strategies.pollute_buffer.plan import Move
from iat_nova.strategies.pollute_buffer.state import State
from iat_nova.strategies.pollute_buffer.view import View

FIRST_LOOKS = 2  # samples under the present plan before the first trial
OBVIOUS = 0.05  # expected gain for which a single sample is enough
TRIALS = 12  # in one search
REFERENCES = 3  # samples for minimum speeds per minute: critical tenants have few ways meanwhile
SAMPLES = 14  # trial samples of a search since a kept move gained much
LOSES = 0.15  # of a second's work: total cost of failed trials in a search
FAILURES = 5  # consecutive failures that end a search: the most promising moves come first
_MINUTE_S = 60.0


def next_move(
    state: State,
    inventory: DomainInventory,
    parameters: Parameters,
    without: Set[str] = frozenset(),
) -> moves.Promise | None:
    """Return the next move worth a trial with the expected gain (0.02 is 2 %), or None.

    None ends the search. Once the search has cost enough, only the final move (`moves.last`)
    remains. `without`: families of moves to leave out.
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
    """Return a trial that measures minimum speeds for the next move; None if known.

    If tenants arrive in quick succession, the most promising move comes first.
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
