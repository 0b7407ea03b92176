# SPDX-License-Identifier: Apache-2.0
"""A tenant's own demand for cache, without I/O (the paper's exception 2), as a table.

This second machine exists once per tenant. A tenant goes from content over asking and a trial to
satisfied, or is barred for a while. The paper leaves this part to any allocator for cores; this
allocator is the project's own.

A tenant gets another way as long as each way cuts the miss rate by THRESHOLD_STABLE, relative. A
way without effect is taken back. While the miss rate still rises, the effect is unknown. The next
way is then tried, and both ways are taken back if the miss rate does not fall. A way is also taken
back once its demand has gone.

In an iteration tenants have their turn in order: first the tenant on trial, then tenants whose
demand for a way has gone. Tenants that ask come last, PC first, and by the rise of their miss rate.
A row with `ends` finishes the round, so at most one way moves. `RULES` decides as in `fsm`: the
first row of a standing whose `needs` are present and whose `lacks` are absent. The documentation
draws its diagram from this table.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Sequence
from typing import Final

from iat_nova.model import Action, message
from iat_nova.strategies.iat import demand
from iat_nova.strategies.iat.demand import Candidate
from iat_nova.strategies.iat.fsm import SignalRow, Table
from iat_nova.strategies.iat.ledger import Granted, Ledger
from iat_nova.strategies.iat.realloc import GrantVerdict, RoundView, held_back, judge, lapse
from iat_nova.strategies.iat.state import Cause, Grant, GrantTrial


class DemandStanding(enum.StrEnum):
    """The standing of a tenant's own demand, derived from the memory."""

    CONTENT = "content"
    ASKING = "asking"
    ON_TRIAL = "on trial"  # the latest way awaits judgement
    SATISFIED = "satisfied"  # holds ways that helped
    BARRED = "barred"  # a way did not help at this demand: no way for a while


class DemandSignal(enum.Flag):
    """Observations of a tenant in an iteration."""

    NONE = 0
    PRESSED = enum.auto()  # IPC moved and LLC misses rose, away from DDIO's ways
    FREE = enum.auto()  # the state machine did nothing in this iteration
    WAY = enum.auto()  # a way is available: idle, or from a best-effort tenant
    AT_MAXIMUM = enum.auto()  # the tenant has its maximum
    LAPSED = enum.auto()  # the demand for one of the tenant's ways has gone
    BACKED_OFF = enum.auto()  # the back-off lasts, and the demand is the same
    MEASURED = enum.auto()
    HELPED = enum.auto()  # the way on trial cut the miss rate
    RISING = enum.auto()  # effect unknown: the miss rate rose, the first time


class Do(enum.Enum):
    """The effect of a row on way counts."""

    NOTHING = "nothing"
    GRANT = "a way more"
    REFUSE = "no way"  # and the decision says why
    UNDO = "back"  # the ways on trial, and a back-off begins
    REFUSE_AND_UNDO = "no way, back"
    GIVE_BACK = "a way less"
    HOLD = "held"  # the decision says for how long


@dataclasses.dataclass(frozen=True, slots=True)
class DemandRule(SignalRow[DemandStanding, DemandSignal]):
    """A row; `ends`: no other tenant has a turn in this iteration."""

    do: Do
    ends: bool
    text: str


_CONTENT, _ASKING, _TRIAL = DemandStanding.CONTENT, DemandStanding.ASKING, DemandStanding.ON_TRIAL
_SATISFIED, _BARRED = DemandStanding.SATISFIED, DemandStanding.BARRED
_S, _NONE = DemandSignal, DemandSignal.NONE

RULES: Final[Table[DemandRule]] = Table((
    DemandRule(
        _CONTENT, _ASKING, _S.PRESSED, _NONE, Do.NOTHING, False,
        "its IPC moved and its misses rose, while DDIO did not move",
    ),
    DemandRule(_CONTENT, _CONTENT, _NONE, _NONE, Do.NOTHING, False, "nothing of the kind"),
    DemandRule(
        _ASKING, _ASKING, _NONE, _S.FREE, Do.NOTHING, True,
        "the state machine did something: its turn comes later",
    ),
    DemandRule(
        _ASKING, _BARRED, _S.BACKED_OFF, _NONE, Do.HOLD, False,
        "a way did not help at this demand a while ago",
    ),
    DemandRule(_ASKING, _TRIAL, _S.WAY, _NONE, Do.GRANT, True, "a way is available"),
    DemandRule(_ASKING, _SATISFIED, _S.AT_MAXIMUM, _NONE, Do.REFUSE, False, "it has its maximum"),
    DemandRule(_ASKING, _CONTENT, _NONE, _NONE, Do.REFUSE, True, "no way is available at all"),
    DemandRule(_TRIAL, _TRIAL, _NONE, _S.MEASURED, Do.NOTHING, False, "it was not measured"),
    DemandRule(
        _TRIAL, _BARRED, _NONE, _S.HELPED | _S.RISING, Do.UNDO, True,
        "its miss rate did not fall: the ways on trial go back",
    ),
    DemandRule(
        _TRIAL, _TRIAL, _NONE, _S.FREE, Do.NOTHING, True,
        "the state machine did something: judged later",
    ),
    DemandRule(
        _TRIAL, _TRIAL, _S.WAY, _NONE, Do.GRANT, True,
        "its miss rate fell, or still rises (once): a way is available, and is on trial",
    ),
    DemandRule(
        _TRIAL, _BARRED, _S.RISING, _NONE, Do.REFUSE_AND_UNDO, True,
        "its miss rate still rises, and no way is available: the way on trial goes back",
    ),
    DemandRule(
        _TRIAL, _SATISFIED, _S.HELPED, _NONE, Do.REFUSE, False,
        "its miss rate fell, and no more ways are available",
    ),
    DemandRule(
        _SATISFIED, _CONTENT, _S.FREE | _S.LAPSED, _NONE, Do.GIVE_BACK, True,
        "the demand for a way has gone: it goes back, and with the last one all is as before",
    ),
    DemandRule(
        _SATISFIED, _ASKING, _S.PRESSED, _NONE, Do.NOTHING, False,
        "its IPC moved and its misses rose, while DDIO did not move",
    ),
    DemandRule(_SATISFIED, _SATISFIED, _NONE, _NONE, Do.NOTHING, False, "its demand lasts"),
    DemandRule(
        _BARRED, _ASKING, _S.PRESSED, _NONE, Do.NOTHING, False,
        "its IPC moved and its misses rose, while DDIO did not move",
    ),
    DemandRule(
        _BARRED, _BARRED, _S.BACKED_OFF, _NONE, Do.NOTHING, False,
        "the back-off lasts and the demand is the same",
    ),
    DemandRule(
        _BARRED, _CONTENT, _NONE, _NONE, Do.NOTHING, False, "the back-off is over, or its demand"
    ),
))  # fmt: skip
"""The whole table, first match wins within a standing."""


def standing(tenant: str, ledger: Ledger) -> DemandStanding:
    """Return the standing of a tenant that does not ask, from trials, back-offs and grants."""
    trial = ledger.trials.get(Cause.OWN_DEMAND)
    if trial is not None and trial.subject == tenant:
        return DemandStanding.ON_TRIAL
    if ledger.blocked(tenant) is not None:
        return DemandStanding.BARRED
    return DemandStanding.SATISFIED if _own(ledger, tenant) else DemandStanding.CONTENT


def serve(view: RoundView, ledger: Ledger, askers: Sequence[str], *, free: bool) -> tuple[str, ...]:
    """Give tenants their turn; return the tenants whose turn has not come yet.

    `askers`: tenants with a demand. `free`: the state machine did nothing in this iteration.
    """
    turns = _Round(view, ledger, free)
    candidates = demand.own_candidates(view.roster, askers, view.reference, view.sample)
    waiting = tuple(candidate.member.id for candidate in candidates)
    if turns.of_trial() or turns.of_lapsed():
        return waiting
    for turn, candidate in enumerate(candidates):
        rule = turns.of_asker(candidate)
        if rule.ends:
            if rule.target is DemandStanding.ASKING:
                return waiting[turn:]
            return waiting[turn + 1 :] if rule.do is Do.GRANT else ()
    return ()


class _Round:
    """The turns of one iteration."""

    def __init__(self, view: RoundView, ledger: Ledger, free: bool) -> None:
        self._view = view
        self._ledger = ledger
        self._free = DemandSignal.FREE if free else DemandSignal.NONE

    def of_trial(self) -> bool:
        """Judge the way on trial; return whether the round ends."""
        trial = self._ledger.trials.get(Cause.OWN_DEMAND)
        if trial is None:
            return False
        signals, verdict = self._free, GrantVerdict(False, False, message("not-measured"))
        if trial.subject in self._view.sample.tenants:
            verdict = judge(trial, self._view, with_ddio=False)
            signals |= DemandSignal.MEASURED | self._outlook(trial.subject)
            signals |= DemandSignal.HELPED if verdict.helped else DemandSignal.NONE
            signals |= DemandSignal.RISING if verdict.rising else DemandSignal.NONE
        rule = RULES.first(DemandStanding.ON_TRIAL, signals)
        if rule.do in (Do.GRANT, Do.REFUSE, Do.REFUSE_AND_UNDO):
            self._go_on(trial, verdict)
        if rule.do in (Do.UNDO, Do.REFUSE_AND_UNDO):
            self._undo(trial, verdict)
        return rule.ends

    def of_lapsed(self) -> bool:
        """Take back a way whose demand has gone; return whether the round ends."""
        own = [grant for grant in self._ledger.grants if grant.cause is Cause.OWN_DEMAND]
        lapsed = demand.lapsed(own, self._view.sample, self._view.parameters.reclaim_fall)
        grant = next(lapsed, None)
        signals = self._free | (DemandSignal.NONE if grant is None else DemandSignal.LAPSED)
        rule = RULES.first(DemandStanding.SATISFIED, signals)
        if grant is not None and rule.do is Do.GIVE_BACK:
            self._ledger.take_back(grant, Action.SHRINK, lapse(grant, self._ledger))
        return rule.ends

    def of_asker(self, candidate: Candidate) -> DemandRule:
        """Serve a tenant that asks, if a way is available; return the rule that applied."""
        member, rise = candidate
        reason = message("own-demand")
        if rise is not None:
            reason = message("own-demand-points", points=rise)
        signals = self._free | self._outlook(member.id)
        if self._ledger.blocked(member.id) is not None:
            signals |= DemandSignal.BACKED_OFF
        asking = RULES.first(standing(member.id, self._ledger), DemandSignal.PRESSED).target
        rule = RULES.first(asking, signals)
        if rule.do is Do.HOLD:
            held_back(member.id, self._ledger, reason)
        elif rule.do in (Do.GRANT, Do.REFUSE):
            self._ledger.grant(member, Cause.OWN_DEMAND, reason)
        return rule

    def _outlook(self, tenant: str) -> DemandSignal:
        """Return the signal for an available way."""
        return {
            Granted.YES: DemandSignal.WAY,
            Granted.AT_MAXIMUM: DemandSignal.AT_MAXIMUM,
            Granted.NO_WAY: DemandSignal.NONE,
        }[self._ledger.outlook(self._view.roster.by_id[tenant])]

    def _go_on(self, trial: GrantTrial, verdict: GrantVerdict) -> None:
        """Grant the next way after a way that helped or could not be judged.

        If no way is available, the reason is recorded.
        """
        trials = self._ledger.trials
        del trials[Cause.OWN_DEMAND]
        member = self._view.roster.by_id[trial.subject]
        code = "own-demand-still-rises" if verdict.rising else "own-demand-helped"
        reason = message(code, figures=verdict.figures)
        granted = self._ledger.grant(member, Cause.OWN_DEMAND, reason)
        if granted is Granted.YES and verdict.rising:  # both ways are on trial
            latest = trials[Cause.OWN_DEMAND]
            trials[Cause.OWN_DEMAND] = dataclasses.replace(latest, ways=trial.ways + 1)

    def _undo(self, trial: GrantTrial, verdict: GrantVerdict) -> None:
        """Take the ways on trial back and begin a back-off."""
        self._ledger.trials.pop(Cause.OWN_DEMAND, None)
        backoff = self._ledger.back_off(trial.subject)
        reason = message(
            "own-demand-did-not-help",
            ways=trial.ways,
            figures=verdict.figures,
            delay_s=backoff.delay_s,
        )
        for grant in _own(self._ledger, trial.subject)[: trial.ways]:
            self._ledger.take_back(grant, Action.UNDO, reason)


def _own(ledger: Ledger, tenant: str) -> list[Grant]:
    """Return a tenant's grants for its own demand, the latest first."""
    return [
        grant
        for grant in reversed(ledger.grants)
        if grant.subject == tenant and grant.cause is Cause.OWN_DEMAND
    ]
