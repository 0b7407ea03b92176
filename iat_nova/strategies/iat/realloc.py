# SPDX-License-Identifier: Apache-2.0
"""LLC Re-alloc: changes of way counts by each state of the machine, one way per iteration.

A miss curve may give DDIO several ways at once (`ddio_growth`). Low Keep and High Keep change no
counts. `own_demand` serves a core's own demand (the paper's exception 2). The Core-only and I/O-iso
policies do nothing else.
"""

from __future__ import annotations

import dataclasses
import math

from iat_nova.model import (
    DDIO,
    Action,
    Layout,
    Message,
    Parameters,
    Quantity,
    Sample,
    message,
)
from iat_nova.strategies.iat import demand
from iat_nova.strategies.iat.change import IoMoves, Moves
from iat_nova.strategies.iat.ledger import Granted, Ledger
from iat_nova.strategies.iat.presets import Features
from iat_nova.strategies.iat.roster import Roster
from iat_nova.strategies.iat.state import Cause, Grant, GrantTrial


@dataclasses.dataclass(frozen=True, slots=True)
class RoundView:
    """All inputs of an iteration."""

    roster: Roster
    parameters: Parameters
    features: Features
    reference: Sample
    sample: Sample
    placed: Layout  # before this iteration
    moves: Moves
    io: IoMoves | None  # None: DDIO was not counted

    @property
    def may_resize_ddio(self) -> bool:
        """Whether the features and the hardware allow a change of DDIO's ways."""
        return self.features.resize_ddio and self.roster.domain.ddio_resizable


@dataclasses.dataclass(frozen=True, slots=True)
class GrantVerdict:
    """Whether a grant on trial helped, with figures.

    `rising`: the grant could not be judged, because the tenant's miss rate rose. More own ways
    cannot raise the miss rate (LRU's stack property). The demand probably still grew at the grant,
    for example because a phase began during the sample.
    """

    helped: bool
    rising: bool
    figures: Message


def judge(trial: GrantTrial, view: RoundView, *, with_ddio: bool) -> GrantVerdict:
    """Return a verdict on a trial: misses must have fallen by THRESHOLD_STABLE since the grant.

    The tenant's LLC miss rate counts, relative to its former value. With `with_ddio`, DDIO's misses
    count as well.
    """
    falls: list[tuple[str, float]] = []
    rates = view.sample.tenants.get(trial.subject)
    if rates is not None and trial.miss_ratio:
        falls.append(("miss-rate", rates.miss_ratio / trial.miss_ratio - 1))
    now = view.sample.ddio_misses_per_s
    if with_ddio and now is not None and trial.ddio_misses_per_s:
        falls.append(("ddio-misses", now / trial.ddio_misses_per_s - 1))
    figures = message("figures", parts=tuple(message(code, change=fall) for code, fall in falls))
    threshold = view.parameters.threshold_stable
    helped = any(fall <= -threshold for _, fall in falls)
    rising = (
        not helped
        and trial.ways == 1  # once only, or a creeping miss rate would take way after way
        and any(code == "miss-rate" and fall > threshold for code, fall in falls)
    )
    return GrantVerdict(helped, rising, figures if falls else message("not-measured"))


def io_demand(view: RoundView, ledger: Ledger, reason: Message) -> None:
    """I/O Demand: DDIO gets another way while misses are high."""
    if not view.may_resize_ddio:
        ledger.hold(DDIO, message("ddio-fixed", cause=reason))
        return
    ledger.grow_ddio(_ddio_increment(view, ledger), reason)


def _ddio_increment(view: RoundView, ledger: Ledger) -> int:
    """Return the number of ways by which DDIO grows: one, or the number from the miss curve.

    The miss curve is the straight line through the two latest points: misses before and after the
    last growth. The paper mentions this alternative (section IV-D, as in UCP) without its form.
    """
    trial = ledger.trials.get(Cause.IO_DEMAND)
    if view.parameters.ddio_growth != "miss-curve" or trial is None or view.io is None:
        return 1
    if trial.ddio_misses_per_s is None:
        return 1
    saved_per_way = (trial.ddio_misses_per_s - view.io.misses_per_s) / trial.ways
    if saved_per_way <= view.parameters.floor_ddio_per_s:
        return 1
    too_many = view.io.misses_per_s - view.parameters.threshold_miss_low_per_s
    return max(1, math.ceil(too_many / saved_per_way))


def core_demand(view: RoundView, ledger: Ledger, reason: Message, *, entering: bool) -> None:
    """Core Demand: the selected tenant gets another way while the last way helped.

    A tenant is selected on entry, and again when another candidate's misses rise.
    """
    trial = ledger.trials.pop(Cause.CORE_DEMAND, None)
    if not view.features.resize_cores:
        if entering:
            ledger.hold("layout", message("tenants-fixed", cause=reason))
        return
    if trial is not None and not entering:
        verdict = judge(trial, view, with_ddio=True)
        if not verdict.helped:
            backoff = ledger.back_off(trial.subject)
            ledger.hold(
                trial.subject,
                message("last-way-did-not-help", figures=verdict.figures, delay_s=backoff.delay_s),
            )
        else:
            member = view.roster.by_id[trial.subject]
            helped = message("last-way-helped", figures=verdict.figures)
            if ledger.grant(member, Cause.CORE_DEMAND, helped) is not Granted.AT_MAXIMUM:
                return
    _grant_first_candidate(view, ledger, reason, entering=entering)


def _grant_first_candidate(
    view: RoundView, ledger: Ledger, reason: Message, *, entering: bool
) -> None:
    candidates = demand.core_candidates(view.roster, view.reference, view.sample)
    if entering and not candidates:
        ledger.hold("layout", message("no-miss-rate-rose", cause=reason))
    for member, rise in candidates:
        if not entering and not view.moves.rose(member.id, Quantity.MISSES):
            continue
        if held_back(member.id, ledger, reason):
            continue
        why = reason if rise is None else message("miss-rate-rose", cause=reason, points=rise)
        granted = ledger.grant(member, Cause.CORE_DEMAND, why)
        if granted is not Granted.AT_MAXIMUM:
            return


def held_back(subject: str, ledger: Ledger, reason: Message) -> bool:
    """Return whether a back-off denies a tenant or DDIO a further way; if so, record the reason."""
    backoff = ledger.blocked(subject)
    if backoff is None:
        return False
    left_s = backoff.until_s - ledger.sample.taken_at_s
    ledger.hold(
        subject,
        message("held-back", cause=reason, demand_per_s=backoff.demand_per_s, delay_s=left_s),
    )
    return True


def reclaim(view: RoundView, ledger: Ledger) -> None:
    """Reclaim: take back one way whose demand has gone; cores give before DDIO.

    Among cores the stack comes first, then the latest grant. DDIO's granted ways go back once their
    demand has gone. DDIO's found ways go back while misses are low.
    """
    fall = view.parameters.reclaim_fall
    gone = list(demand.lapsed(ledger.grants, view.sample, fall))
    if view.features.resize_cores:
        cores = [grant for grant in gone if grant.subject != DDIO]
        stack = view.roster.stack.id if view.roster.stack is not None else None
        first = next((grant for grant in cores if grant.subject == stack), None)
        grant = first or next(iter(cores), None)
        if grant is not None:
            ledger.take_back(grant, Action.SHRINK, lapse(grant, ledger))
            return
    if not view.may_resize_ddio or ledger.ddio <= ledger.ddio_least:
        return
    grant = next((grant for grant in gone if grant.subject == DDIO), None)
    if grant is not None:
        ledger.take_back(grant, Action.SHRINK, lapse(grant, ledger))
        return
    found = ledger.ddio - ledger.ddio_granted
    low = view.parameters.threshold_miss_low_per_s
    if found > ledger.ddio_least and view.io is not None and view.io.misses_per_s <= low:
        ledger.shrink_ddio(
            message("found-way-idle", misses_per_s=view.io.misses_per_s, low_per_s=low)
        )


def lapse(grant: Grant, ledger: Ledger) -> Message:
    """Return a message with the fall of the demand for a way."""
    now = demand.demand_of(grant.subject, ledger.sample) or 0.0
    return message(
        "ddio-demand-fell" if grant.subject == DDIO else "demand-fell",
        now_per_s=now,
        change=now / grant.demand_per_s - 1,
        then_per_s=grant.demand_per_s,
    )
