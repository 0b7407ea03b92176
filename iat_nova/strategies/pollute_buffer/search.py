# SPDX-License-Identifier: Apache-2.0
"""The next move of a search, and the search's end."""

from __future__ import annotations

from collections.abc import Iterator, Set

from iat_nova.model import DomainInventory, Message, Parameters, message
from iat_nova.strategies.pollute_buffer import floors, moves
from iat_nova.strategies.pollute_buffer import plan as plans
from iat_nova.strategies.pollute_buffer.plan import Plan
from iat_nova.strategies.pollute_buffer.state import Failure, State
from iat_nova.strategies.pollute_buffer.view import View

FIRST_LOOKS = 2  # samples under the present plan before the first trial
OBVIOUS = 0.05  # promise at which a single sample before the trial is enough
REASONS = 3  # moves that the reasons for the search's end name
_MINUTE_S = 60.0

_Judged = tuple[moves.Promise, Message | None]
"""A move with its promise, and the reason against a trial; None: the move is worth a trial."""


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
    if state.base is None or _too_often(state, parameters):
        return None
    judged = _judged(state, inventory, parameters, without)
    return next((promise for promise, against in judged if against is None), None)


def why_none(
    state: State,
    inventory: DomainInventory,
    parameters: Parameters,
    without: Set[str] = frozenset(),
) -> tuple[Message, ...]:
    """Return why `next_move` has no move: the reasons against the most promising moves."""
    if state.base is None:
        return (message("nothing-measured"),)
    if _too_often(state, parameters):
        most = parameters.mask_changes_per_minute
        return (message("moved-often", times=len(state.changes_at_s), most=most),)
    judged = _judged(state, inventory, parameters, without)
    first = zip(range(REASONS), judged, strict=False)
    against = tuple(one for _, (_, one) in first if one is not None)
    return against or (message("no-move"),)


def _too_often(state: State, parameters: Parameters) -> bool:
    return len(state.changes_at_s) + 1 >= parameters.mask_changes_per_minute


def _judged(
    state: State, inventory: DomainInventory, parameters: Parameters, without: Set[str]
) -> Iterator[_Judged]:
    """Yield moves that would change masks, the most promising first.

    The first move below `moves.WORTH` is the last: all further moves promise less.
    """
    assert state.base is not None
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
    failed = {one.plan: one for one in known}
    kinds = [one.what.code for one in known if one.what is not None]
    here = plans.layout(inventory, state.plan)
    for found in moves.candidates(view, state.plan, without):
        promise, move = found
        if move.plan == state.plan:
            continue
        against = _too_little(promise, move.what, kinds.count(move.what.code))
        if against is None and move.plan in failed:
            against = _failed(failed[move.plan], move.what, at_s)
        if against is None:
            against = _impossible(inventory, move.plan, move.what)
        if against is None and plans.layout(inventory, move.plan) == here:
            continue
        yield found, against
        if promise <= moves.WORTH:
            return


def _too_little(promise: float, what: Message, failures: int) -> Message | None:
    """Return that a move promises too little after so many failures of its kind, or None."""
    least = moves.WORTH * 2.0**failures
    if promise > least:
        return None
    most = round(promise, 4)
    if failures and promise > moves.WORTH:
        values = {"promise": most, "least": least, "failures": failures}
        return message("too-little-again", move=what, **values)
    return message("too-little", move=what, promise=most, least=least)


def _failed(failure: Failure, what: Message, at_s: float) -> Message:
    """Return that a move's plan failed before, with the reason and the time until a new trial."""
    wait_s = round(failure.until_s - at_s, 1)
    if failure.what is None:
        return message("replaced-before", move=what, wait_s=max(0.0, wait_s))
    cause = failure.why or message("no-gain")
    if wait_s <= 0:
        return message("failed-in-search", move=what, cause=cause)
    return message("failed-before", move=what, cause=cause, wait_s=wait_s)


def _impossible(inventory: DomainInventory, plan: Plan, what: Message) -> Message | None:
    """Return that the hardware or the guaranteed ways leave no room for a plan, or None."""
    if not moves.has_classes(inventory, plan):
        return message("classes-lacking", move=what, classes=inventory.domain.classes)
    if not plans.keeps_promises(inventory, plan):
        return message("guarantees-in-the-way", move=what)
    return None


def last_minute(moments_s: tuple[float, ...], now_s: float) -> tuple[float, ...]:
    """Return the moments less than a minute ago; seconds of the loop's clock."""
    return tuple(at_s for at_s in moments_s if at_s > now_s - _MINUTE_S)
