# SPDX-License-Identifier: Apache-2.0
"""The next move of a search, and the search's end."""

from __future__ import annotations

from collections.abc import Set

from iat_nova.model import UNLIMITED, DomainInventory, Message, Parameters, message
from iat_nova.strategies import readings
from iat_nova.strategies.pollute_buffer import judge, masks, moves, trial
from iat_nova.strategies.pollute_buffer.judge import Now
from iat_nova.strategies.pollute_buffer.plan import Move, Plan
from iat_nova.strategies.pollute_buffer.state import Failure, Phase, State
from iat_nova.strategies.pollute_buffer.view import View

COST = trial.LOOKS * trial.SUFFERS  # samples that a failed trial may cost at most
REASONS = 3  # moves that "nothing more to try" names at most


def next_move(
    state: State, now: Now, parameters: Parameters, without: Set[str] = frozenset()
) -> tuple[Move | None, tuple[Message, ...]]:
    """Return the next move worth a trial and its promise, or None and the reasons.

    A kind of move that failed must promise twice as much after each failure, as a promise is an
    estimate and not what such a move brought. `without`: families of moves to leave out.
    """
    often, most = len(state.changes_at_s), parameters.mask_changes_per_minute
    if often + 1 >= most:
        return None, (message("moved-often", times=often, most=most),)
    inventory, at_s = now.inventory, now.at_s
    known = failures(state, at_s, parameters)
    kinds = [one.what.code for one in known if one.what is not None]
    asked = least(state, at_s, parameters)
    # What a limit of memory bandwidth costs, no other ways bring back.
    floor = {
        one: readings.scaled(look, state.plan.bandwidth_of(one) / UNLIMITED)
        for one, look in judge.floors_in_force(state, inventory.tenants, parameters).items()
    }
    settled = state.phase is not Phase.TRIAL
    view = View(inventory, parameters, now.sample, state.looks, floor, settled=settled)
    reasons: list[Message] = []
    for promise, move in moves.candidates(view, state.plan, without):
        failed_before = kinds.count(move.what.code)
        what = _named(move)
        against = _too_little(promise, what, failed_before, asked)
        if against is None and (failure := _bars(known, move, state.plan, at_s)):
            against = _failed(failure, what, state, at_s)
        against = against or _impossible(inventory, move, what, state.plan)
        if against is not None:
            reasons.append(against)
        elif masks.layout(inventory, move.plan) != masks.layout(inventory, state.plan):
            return move, (_promise(promise, asked * 2.0**failed_before),)
        if promise <= asked:
            break  # all further moves promise less
    return None, tuple(reasons[:REASONS]) or (message("no-move"),)


def failures(state: State, at_s: float, parameters: Parameters) -> list[Failure]:
    """Return the failures whose plans are still barred.

    Failures under the present load are barred `backoff_max_s` longer than their wait.
    """
    since_s, most_s = state.load_since_s, parameters.backoff_max_s
    return [
        one
        for one in state.failures
        if one.until_s + (most_s if one.at_s >= since_s else 0.0) > at_s
    ]


def least(state: State, at_s: float, parameters: Parameters) -> float:
    """Return the least promise for a trial: 0.02 is 2 %.

    A move must repay the cost of a failed trial in as long a time as the load has lasted, since a
    load that has lasted for long will last for long.
    """
    lasted_s = max(at_s - state.load_since_s, parameters.interval_s)
    return max(judge.PAYS, parameters.interval_s * COST / lasted_s)


def _named(move: Move) -> Message:
    """Return what a move does; with the tenant's name if several tenants may have such a move."""
    if move.tenant is None:
        return move.what
    return message("move-of", move=move.what, tenant=move.tenant)


def _too_little(promise: float, what: Message, failures: int, least: float) -> Message | None:
    """Return a message if a move promises too little after `failures` of its kind, else None."""
    asked = least * 2.0**failures
    if promise > asked:
        return None
    told = message("too-little", move=what, **_promise(promise, asked).values)
    if failures and promise > least:
        return message("too-little-again", **told.values, failures=failures)
    return told


def _promise(promise: float, least: float) -> Message:
    """Return a message with a move's promise, and the least promise for a trial."""
    return message("promise", promise=round(promise, 4), least=round(least, 4))


def _bars(known: list[Failure], move: Move, before: Plan, at_s: float) -> Failure | None:
    """Return the failure that bars a move, if any.

    It is of the same plan, or of the same move from another plan until the failure's wait is over.
    """
    plan = move.plan.barred(before)
    alike = (one for one in known if one.what == move.what and one.until_s > at_s)
    return next((one for one in known if one.plan == plan), next(alike, None))


def _failed(failure: Failure, what: Message, state: State, at_s: float) -> Message:
    """Return the reason against a move whose plan has failed before.

    After a failure under another load, the reason has the time until the next possible trial.
    """
    cause = failure.why or message("replaced" if failure.what is None else "no-gain")
    if failure.at_s >= state.load_since_s:  # barred for longer than its own wait
        return message("failed-in-search", move=what, cause=cause)
    wait_s = round(failure.until_s - at_s, 1)
    return message("failed-before", move=what, cause=cause, wait_s=wait_s)


def _impossible(
    inventory: DomainInventory, move: Move, what: Message, before: Plan
) -> Message | None:
    """Return the reason why a move is impossible here, or None.

    Reasons are too few classes of service, or too few ways beside guaranteed and held ways.
    """
    if not masks.has_classes(inventory, move.plan):
        return message("classes-lacking", move=what, classes=inventory.domain.classes)
    if not masks.keeps_promises(inventory, move.plan, before):
        return message("guarantees-in-the-way", move=what)
    return None
