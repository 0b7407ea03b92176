# SPDX-License-Identifier: Apache-2.0
"""The ways of one cache domain during the re-allocation of one iteration.

The ledger is the only object of the strategy that changes in place. The ledger lives for one `step`
and never leaves the strategy. Counts, grants and reasons stay consistent: tenants stay within their
bounds, and DDIO stays within the policy's bounds.
"""

from __future__ import annotations

import dataclasses
import enum
from typing import NamedTuple

from iat_nova.model import (
    DDIO,
    Action,
    Allocation,
    CacheDomain,
    Message,
    Parameters,
    Sample,
    Step,
    message,
)
from iat_nova.strategies.iat import demand
from iat_nova.strategies.iat.presets import Features
from iat_nova.strategies.iat.roster import Roster, is_best_effort
from iat_nova.strategies.iat.state import Backoff, Cause, Grant, GrantTrial, IatState, RosterMember


def ddio_bounds(domain: CacheDomain, parameters: Parameters) -> tuple[int, int]:
    """Return the fewest and the most ways that the agent may give DDIO.

    The bounds are those of the policy within those of the hardware. Coerced ways at the top are
    given or kept as a unit.
    """
    usable = ((1 << domain.ways) - 1) & ~domain.reserved_ways
    top = 1 << (usable.bit_length() - 1)
    tied = domain.coerced_ways.count if domain.coerced_ways & top else 1
    most = min(parameters.ddio_ways_max, usable.bit_count())
    return min(max(parameters.ddio_ways_min, tied), most), most


def usable_ways(roster: Roster, features: Features, ddio_ways: int) -> int:
    """Return the number of ways that cores may hold, without DDIO's ways if closed to cores."""
    shut = ddio_ways if features.avoid_ddio else 0
    return roster.domain.ways - roster.domain.reserved_ways.count - shut


class Granted(enum.Enum):
    """Result of a request for a way."""

    YES = enum.auto()
    AT_MAXIMUM = enum.auto()  # the tenant has its maximum
    NO_WAY = enum.auto()  # no way is available, for any tenant


class Way(NamedTuple):
    """A reassigned way.

    `giver`: the tenant that gave the way, None for the idle pool. `given`: the grant that moved
    along.
    """

    giver: str | None = None
    given: Grant | None = None


class Ledger:
    """Counts, grants, trials, back-offs and steps of one iteration."""

    def __init__(
        self,
        roster: Roster,
        parameters: Parameters,
        features: Features,
        state: IatState,
        sample: Sample,
    ) -> None:
        self.roster = roster
        self.parameters = parameters
        self.features = features
        self.sample = sample
        self.ddio = state.allocation.ddio_ways
        self.counts = dict(state.allocation.tenants)
        self.grants = list(state.grants)
        self.trials: dict[Cause, GrantTrial] = {trial.cause: trial for trial in state.trials}
        self.backoffs: dict[str, Backoff] = {backoff.subject: backoff for backoff in state.backoffs}
        self.steps: list[Step] = []
        self.ddio_least, self.ddio_most = ddio_bounds(roster.domain, parameters)

    @property
    def usable(self) -> int:
        """Ways that cores may hold."""
        return usable_ways(self.roster, self.features, self.ddio)

    @property
    def idle(self) -> int:
        """Ways in the idle pool; 0 if tenants share for lack of ways."""
        return max(0, self.usable - sum(self.counts.values()))

    @property
    def allocation(self) -> Allocation:
        """Number of ways of DDIO and of each tenant, as decided so far."""
        return Allocation(self.ddio, dict(self.counts))

    @property
    def ddio_granted(self) -> int:
        """Number of DDIO's ways that the strategy granted.

        DDIO had its other ways at the start.
        """
        return sum(grant.subject == DDIO for grant in self.grants)

    def hold(self, subject: str, reason: Message) -> None:
        """Record a change that was wanted but not made."""
        self.steps.append(Step(Action.REFUSE, subject, reason))

    def grant(self, member: RosterMember, cause: Cause, reason: Message) -> Granted:
        """Give a tenant a way from the idle pool, or else from a best-effort tenant.

        The grant goes on trial. If no way is available, the reason is recorded and returned.
        """
        subject, before = member.id, self.counts[member.id]
        if before >= self.roster.most(member):
            self.hold(subject, message("at-maximum", cause=reason, ways=before))
            return Granted.AT_MAXIMUM
        way = self._find_way(member)
        if way is None:
            self.hold(subject, message("no-way", cause=reason))
            return Granted.NO_WAY
        self.counts[subject] += 1
        self.steps.append(Step(Action.GROW, subject, reason, before, before + 1))
        self._remember(subject, cause, way)
        rates = self.sample.tenants.get(subject)
        self.trials[cause] = GrantTrial(
            subject,
            cause,
            1,
            self.sample.ddio_misses_per_s,
            None if rates is None else rates.miss_ratio,
        )
        return Granted.YES

    def grow_ddio(self, count: int, reason: Message) -> None:
        """Give DDIO up to `count` ways, within DDIO's maximum and the available ways."""
        before, grown = self.ddio, 0
        while grown < count and self.ddio < self.ddio_most:
            # DDIO's way costs a tenant a way only if DDIO's ways are closed to cores.
            way = self._find_way(None) if self.features.avoid_ddio else Way()
            if way is None:
                break
            self.ddio += 1
            grown += 1
            self._remember(DDIO, Cause.IO_DEMAND, way)
        if not grown:
            self.hold(DDIO, message("no-way-for-ddio", cause=reason))
            return
        self.steps.append(Step(Action.GROW, DDIO, reason, before, self.ddio))
        self.trials[Cause.IO_DEMAND] = GrantTrial(
            DDIO, Cause.IO_DEMAND, grown, self.sample.ddio_misses_per_s, None
        )

    def shrink_ddio(self, reason: Message) -> None:
        """Take one way from DDIO that DDIO had at the start, not by a grant."""
        self.ddio -= 1
        self.steps.append(Step(Action.SHRINK, DDIO, reason, self.ddio + 1, self.ddio))

    def take_back(self, grant: Grant, action: Action, reason: Message) -> None:
        """End a grant and return the way to the idle pool.

        The way goes back to its giver instead if the grant proved wrong (`Action.UNDO`). The same
        holds if the giver's miss rate has risen since by more than THRESHOLD_STABLE.
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
            self._return(grant, grant.giver)

    def _return(self, grant: Grant, giver: str) -> None:
        """Give a way back to the giver, with the grant that moved along.

        A giver at its maximum gets nothing: the way stays in the idle pool.
        """
        before = self.counts[giver]
        if before >= self.roster.most(self.roster.by_id[giver]):
            return
        self.counts[giver] = before + 1
        if grant.given is not None:
            self.grants.append(grant.given)
            self.grants.sort(key=lambda each: each.at_s)
        lent = message("way-back", tenant=grant.subject)
        self.steps.append(Step(Action.GROW, giver, lent, before, before + 1))

    def _misses_it(self, grant: Grant) -> bool:
        """Return whether the giver's miss rate rose since the grant; true if unknown."""
        rates = self.sample.tenants.get(grant.giver or "")
        if rates is None or grant.giver_miss_ratio is None:
            return True
        return rates.miss_ratio > (1 + self.parameters.threshold_stable) * grant.giver_miss_ratio

    def blocked(self, subject: str) -> Backoff | None:
        """Return the back-off that forbids a grant now, or None."""
        backoff = self.backoffs.get(subject)
        if backoff is None or self.sample.taken_at_s >= backoff.until_s:
            return None
        now = demand.demand_of(subject, self.sample)
        same = demand.same_demand(backoff, now, self.parameters.retry_change)
        return backoff if same else None

    def back_off(self, subject: str) -> Backoff:
        """Record that a grant did not help; each back-off for the same demand is twice as long."""
        now = demand.demand_of(subject, self.sample)
        last = self.backoffs.get(subject)
        delay_s = self.parameters.backoff_initial_s
        if last is not None and demand.same_demand(last, now, self.parameters.retry_change):
            delay_s = min(2 * last.delay_s, self.parameters.backoff_max_s)
        backoff = Backoff(subject, now or 0.0, delay_s, self.sample.taken_at_s + delay_s)
        self.backoffs[subject] = backoff
        return backoff

    def outlook(self, member: RosterMember) -> Granted:
        """Return the result that a request for a way would have; nothing changes."""
        if self.counts[member.id] >= self.roster.most(member):
            return Granted.AT_MAXIMUM
        return Granted.YES if self.idle or self._giver(member) is not None else Granted.NO_WAY

    def _find_way(self, member: RosterMember | None) -> Way | None:
        """Find a way for a tenant (None: for DDIO); return None if no way is available."""
        if self.idle:
            return Way()
        giver = self._giver(member)
        if giver is None:  # always so if tenants share partitions: all have their minimum
            return None
        return self._give(giver, DDIO if member is None else member.id)

    def _giver(self, member: RosterMember | None) -> RosterMember | None:
        """Return the tenant that would give a way to a tenant (None: to DDIO).

        A best-effort tenant's own demand takes idle ways only, because no other tenant's way is
        worth less.
        """
        spared = {trial.subject for trial in self.trials.values()}
        if member is not None:
            spared.add(member.id)
            if is_best_effort(member) and not self.roster.is_io(member.id):
                return None
        return demand.giver(self.roster, self.counts, self.sample, spared)

    def _give(self, giver: RosterMember, taker: str) -> Way:
        """Take a way from a best-effort tenant, together with the tenant's latest grant."""
        before = self.counts[giver.id]
        self.counts[giver.id] = before - 1
        given = next((g for g in reversed(self.grants) if g.subject == giver.id), None)
        if given is not None:
            self.grants.remove(given)
        rates = self.sample.tenants.get(giver.id)
        misses_per_s = None if rates is None else rates.misses_per_s
        reason = message("fewest-misses", misses_per_s=misses_per_s, tenant=taker)
        self.steps.append(Step(Action.GIVE, giver.id, reason, before, before - 1))
        return Way(giver.id, given)

    def _remember(self, subject: str, cause: Cause, way: Way) -> None:
        rates = self.sample.tenants.get(way.giver or "")
        self.grants.append(
            Grant(
                subject,
                cause,
                demand.demand_of(subject, self.sample) or 0.0,
                self.sample.taken_at_s,
                way.giver,
                None if rates is None else rates.miss_ratio,
                way.given,
            )
        )

    def kept(self, state: IatState) -> IatState:
        """Return `state` with the ledger's contents."""
        return dataclasses.replace(
            state,
            allocation=self.allocation,
            grants=tuple(self.grants),
            trials=tuple(self.trials.values()),
            backoffs=tuple(self.backoffs.values()),
        )
