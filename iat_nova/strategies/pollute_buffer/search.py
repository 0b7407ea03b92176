# SPDX-License-Identifier: Apache-2.0
"""The next move of a search, and the search's end."""

from __future__ import annotations

from collections.abc import Set

from iat_nova.model import DomainInventory, Parameters
from iat_nova.strategies.pollute_buffer import floors, moves
from iat_nova.strategies.pollute_buffer import plan as plans
from iat_nova.strategies.pollute_buffer.state import State
from iat_nova.strategies.pollute_buffer.view import View

FIRST_LOOKS = 2  # samples under the present plan before the first trial
OBVIOUS = 0.05  # promise at which a single sample before the trial is enough
_MINUTE_S = 60.0


def next_move(
    state: State,
    inventory: DomainInventory,
    parameters: Parameters,
    without: Set[str] = frozenset(),
) -> moves.Promise | None:
    """Return the next move worth a trial with the expected gain (0.02 is 2 %), or None.

    None ends the search. A kind of move that failed must promise twice as much after each failure,
    as a promise is a bound and not what such a move brought. `without`: families of moves to leave
    out.
    """
    if state.base is None:
        return None
    if len(state.changes_at_s) + 1 >= parameters.mask_changes_per_minute:
        return None
    at_s = state.base.taken_at_s
    barred = [one for one in state.failures if one.until_s > at_s]
    known = [one for one in state.failures if one in barred or one.at_s >= state.began_s]
    view = View.of(
        inventory,
        parameters,
        state.base,
        state.looks,
        floors.known(state, inventory.tenants),
        settled=all(one.what is not None for one in barred),
    )
    plans_failed = {state.plan, *(one.plan for one in known)}
    kinds = [one.what.code for one in known if one.what is not None]
    here = plans.layout(inventory, state.plan)
    for promise, move in moves.candidates(view, state.plan, without):
        if promise <= moves.WORTH * 2.0 ** kinds.count(move.what.code):
            continue
        if move.plan in plans_failed:
            continue
        if (
            moves.has_classes(inventory, move.plan)
            and plans.keeps_promises(inventory, move.plan)
            and plans.layout(inventory, move.plan) != here
        ):
            return promise, move
    return None


def last_minute(moments_s: tuple[float, ...], now_s: float) -> tuple[float, ...]:
    """Return the moments less than a minute ago; seconds of the loop's clock."""
    return tuple(at_s for at_s in moments_s if at_s > now_s - _MINUTE_S)
