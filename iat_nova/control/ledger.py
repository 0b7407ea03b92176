# SPDX-License-Identifier: Apache-2.0
"""The ways of one cache domain while one iteration shares them out anew.

The only thing in `control` that changes in place; it lives for one `step` and never leaves it.
It keeps the counts, the grants and the reasons in agreement: counts never leave a tenant's bounds,
DDIO's never the policy's.
"""

from __future__ import annotations

import dataclasses
import enum

from iat_nova.control import demand, words
from iat_nova.control.roster import Roster, is_best_effort
from iat_nova.control.state import DDIO, Backoff, Cause, Grant, Member, State, Trial
from iat_nova.model import Action, Allocation, CacheDomain, Parameters, Sample, Step, Switches


def ddio_bounds(domain: CacheDomain, parameters: Parameters) -> tuple[int, int]:
    """Return the fewest and the most ways that we may set DDIO to.

    The policy's bounds within the hardware's: ways that are coerced together at the top come or
    stay as one.
    """
    usable = ((1 << domain.ways) - 1) & ~domain.reserved_ways
    top = 1 << (usable.bit_length() - 1)
    tied = domain.coerced_ways.count if domain.coerced_ways & top else 1
    most = min(parameters.ddio_ways_max, usable.bit_count())
    return min(max(parameters.ddio_ways_min, tied), most), most


class Granted(enum.Enum):
    """What became of the wish for a way."""

    YES = enum.auto()
    AT_MAXIMUM = enum.auto()  # this tenant may not have more
    NO_WAY = enum.auto()  # nor can anybody after it


class Ledger:
    """Counts, grants, trials, back-offs and steps of one iteration."""

    def __init__(
        self,
        roster: Roster,
        parameters: Parameters,
        switches: Switches,
        state: State,
        sample: Sample,
    ) -> None:
        self.roster = roster
        self.parameters = parameters
        self.switches = switches
        self.sample = sample
        self.ddio = state.allocation.ddio_ways
        self.counts = dict(state.allocation.tenants)
        self.grants = list(state.grants)
        self.trials: dict[Cause, Trial] = {trial.cause: trial for trial in state.trials}
        self.backoffs: dict[str, Backoff] = {backoff.subject: backoff for backoff in state.backoffs}
        self.steps: list[Step] = []
        self.ddio_least, self.ddio_most = ddio_bounds(roster.domain, parameters)

    @property
    def usable(self) -> int:
        """The ways cores may hold: all but reserved ones, and but DDIO's where that is shut."""
        domain = self.roster.domain
        shut = self.ddio if self.switches.avoid_ddio else 0
        return domain.ways - domain.reserved_ways.count - shut

    @property
    def idle(self) -> int:
        """The ways in the pool; 0 when tenants share for want of ways."""
        return max(0, self.usable - sum(self.counts.values()))

    @property
    def allocation(self) -> Allocation:
        """The counts as they stand."""
        return Allocation(self.ddio, dict(self.counts))

    @property
    def ddio_granted(self) -> int:
        """How many of DDIO's ways were granted, not found."""
        return sum(grant.subject == DDIO for grant in self.grants)

    def name(self, subject: str) -> str:
        """Return what people call a subject."""
        return "DDIO" if subject == DDIO else self.roster.names.get(subject, subject)

    def hold(self, subject: str, reason: str) -> None:
        """Note that something was wanted and not done."""
        self.steps.append(Step(Action.HOLD, subject, reason))

    def grant(self, member: Member, cause: Cause, reason: str) -> Granted:
        """Give a tenant one way, from the pool or else from a best-effort tenant.

        Starts the trial of the grant. When there is none, the reason is noted.
        """
        subject, before = member.id, self.counts[member.id]
        if before >= self.roster.most(member):
            self.hold(subject, f"{reason}; but {words.ways(before)} is its maximum")
            return Granted.AT_MAXIMUM
        found, giver = self._find_way(member)
        if not found:
            self.hold(subject, f"{reason}; but no way is idle and nobody of lower rank can give")
            return Granted.NO_WAY
        self.counts[subject] += 1
        self.steps.append(Step(Action.GROW, subject, reason, before, before + 1))
        self._remember(subject, cause, giver)
        rates = self.sample.tenants.get(subject)
        self.trials[cause] = Trial(
            subject,
            cause,
            1,
            self.sample.ddio_misses_per_s,
            None if rates is None else rates.miss_ratio,
        )
        return Granted.YES

    def grow_ddio(self, count: int, reason: str) -> None:
        """Give DDIO up to `count` ways, as far as its maximum and the others allow."""
        before, grown = self.ddio, 0
        while grown < count and self.ddio < self.ddio_most:
            giver: str | None = None
            if self.switches.avoid_ddio:  # only then does DDIO's way cost anybody one
                found, giver = self._find_way(None)
                if not found:
                    break
            self.ddio += 1
            grown += 1
            self._remember(DDIO, Cause.IO_DEMAND, giver)
        if not grown:
            self.hold(DDIO, f"{reason}; but no way can be had for DDIO")
            return
        self.steps.append(Step(Action.GROW, DDIO, reason, before, self.ddio))
        self.trials[Cause.IO_DEMAND] = Trial(
            DDIO, Cause.IO_DEMAND, grown, self.sample.ddio_misses_per_s, None
        )

    def shrink_ddio(self, reason: str) -> None:
        """Take one way from DDIO that nobody granted."""
        self.ddio -= 1
        self.steps.append(Step(Action.SHRINK, DDIO, reason, self.ddio + 1, self.ddio))

    def take_back(self, grant: Grant, action: Action, reason: str) -> None:
        """End a grant: its way goes into the pool.

        Or to whom it was taken from, when the grant proved wrong (`Action.UNDO`) or its giver's
        miss rate has risen since by more than THRESHOLD_STABLE.
        """
        self.grants.remove(grant)
        subject = grant.subject
        if subject == DDIO:
            self.ddio -= 1
            after = self.ddio
        else:
            self.counts[subject] -= 1
            after = self.counts[subject]
        self.steps.append(Step(action, subject, reason, after + 1, after))
        trial = self.trials.get(grant.cause)
        if trial is not None and trial.subject == subject:
            del self.trials[grant.cause]
        if grant.giver is not None and (action is Action.UNDO or self._misses_it(grant)):
            back = self.counts[grant.giver]
            self.counts[grant.giver] = back + 1
            lent = f"has the way back that {self.name(subject)} held"
            self.steps.append(Step(Action.GROW, grant.giver, lent, back, back + 1))

    def _misses_it(self, grant: Grant) -> bool:
        """Tell whether the giver of a way misses more than when it gave; unknown: it does."""
        rates = self.sample.tenants.get(grant.giver or "")
        if rates is None or grant.giver_miss_ratio is None:
            return True
        return rates.miss_ratio > (1 + self.parameters.threshold_stable) * grant.giver_miss_ratio

    def blocked(self, subject: str) -> Backoff | None:
        """Return the back-off that forbids a grant to a subject now; None when it may be tried."""
        backoff = self.backoffs.get(subject)
        if backoff is None or self.sample.taken_at_s >= backoff.until_s:
            return None
        now = demand.demand_of(subject, self.sample)
        same = demand.same_demand(backoff, now, self.parameters.retry_change)
        return backoff if same else None

    def back_off(self, subject: str) -> Backoff:
        """Note that a grant did not help: twice as long a back-off as the last for this demand."""
        now = demand.demand_of(subject, self.sample)
        last = self.backoffs.get(subject)
        delay_s = self.parameters.backoff_initial_s
        if last is not None and demand.same_demand(last, now, self.parameters.retry_change):
            delay_s = min(2 * last.delay_s, self.parameters.backoff_max_s)
        backoff = Backoff(subject, now or 0.0, delay_s, self.sample.taken_at_s + delay_s)
        self.backoffs[subject] = backoff
        return backoff

    def _find_way(self, member: Member | None) -> tuple[bool, str | None]:
        """Find one way for a tenant (None: for DDIO): whether there is one, and who gave it.

        A best-effort tenant's own hunger takes idle ways only; nobody else's way is worth less.
        """
        if self.idle:
            return True, None
        spared = {trial.subject for trial in self.trials.values()}
        if member is not None:
            spared.add(member.id)
            if is_best_effort(member) and not self.roster.is_io(member.id):
                return False, None
        giver = demand.giver(self.roster, self.counts, self.sample, spared)
        # Where tenants already share partitions, one that gives leaves no way free.
        if giver is None or sum(self.counts.values()) > self.usable:
            return False, None
        before = self.counts[giver.id]
        self.counts[giver.id] = before - 1
        rates = self.sample.tenants.get(giver.id)
        misses = "unknown" if rates is None else words.rate(rates.misses_per_s)
        taker = "DDIO" if member is None else self.name(member.id)
        reason = f"fewest misses of the best-effort tenants ({misses}): its way goes to {taker}"
        self.steps.append(Step(Action.GIVE, giver.id, reason, before, before - 1))
        return True, giver.id

    def _remember(self, subject: str, cause: Cause, giver: str | None) -> None:
        rates = self.sample.tenants.get(giver or "")
        self.grants.append(
            Grant(
                subject,
                cause,
                demand.demand_of(subject, self.sample) or 0.0,
                self.sample.taken_at_s,
                giver,
                None if rates is None else rates.miss_ratio,
            )
        )

    def kept(self, state: State) -> State:
        """Return a state with what this ledger holds."""
        return dataclasses.replace(
            state,
            allocation=self.allocation,
            grants=tuple(self.grants),
            trials=tuple(self.trials.values()),
            backoffs=tuple(self.backoffs.values()),
        )
