# SPDX-License-Identifier: Apache-2.0
"""Selection of tenants that get or give a way (ISCA 2021, section IV-D). Pure functions."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from iat_nova.model import DDIO, Priority, Sample
from iat_nova.strategies.iat.roster import Roster
from iat_nova.strategies.iat.state import Backoff, Grant, RosterMember
from iat_nova.strategies.layout import grouping


class Candidate(NamedTuple):
    """A tenant that may get a way.

    `rise`: rise of the LLC miss rate against the reference, in percentage points; None if unknown.
    """

    member: RosterMember
    rise: float | None


def miss_rate_rise(reference: Sample, sample: Sample, tenant: str) -> float | None:
    """Return the rise of a tenant's LLC misses per reference, in percentage points.

    None if either sample lacks the tenant.
    """
    before, after = reference.tenants.get(tenant), sample.tenants.get(tenant)
    if before is None or after is None:
        return None
    return (after.miss_ratio - before.miss_ratio) * 100


def _risen(members: Sequence[RosterMember], reference: Sample, sample: Sample) -> list[Candidate]:
    """Return tenants with a rising miss rate, the largest rise first; earlier members win ties."""
    rises = (Candidate(m, miss_rate_rise(reference, sample, m.id)) for m in members)
    risen = [(c.rise, c) for c in rises if c.rise is not None and c.rise > 0]
    return [candidate for _, candidate in sorted(risen, key=lambda pair: -pair[0])]


def core_candidates(roster: Roster, reference: Sample, sample: Sample) -> list[Candidate]:
    """Return the candidates for Core Demand, in order.

    Aggregation: the stack, with any miss rate, then the tenants behind the stack. Slicing: the
    tenants with their own buffers, by the rise of their miss rate. With both on a host, the stack
    competes by its rise and wins ties.
    """
    if roster.stack is None:
        return _risen(roster.sliced, reference, sample)
    behind = _risen(roster.aggregated, reference, sample)
    if roster.sliced:
        return _risen((roster.stack, *roster.sliced), reference, sample) + behind
    rise = miss_rate_rise(reference, sample, roster.stack.id)
    return [Candidate(roster.stack, rise), *behind]


def own_candidates(
    roster: Roster, tenants: Collection[str], reference: Sample, sample: Sample
) -> list[Candidate]:
    """Return tenants with a demand of their own: PC first, then by the rise of the miss rate."""
    candidates = [
        Candidate(roster.by_id[tenant], miss_rate_rise(reference, sample, tenant))
        for tenant in tenants
    ]
    return sorted(candidates, key=lambda c: (c.member.priority is Priority.BE, -(c.rise or 0.0)))


def misses_of(sample: Sample) -> Callable[[RosterMember], tuple[float, str]]:
    """Return a sort key for givers: fewest LLC misses first, unknown misses last."""

    def key(member: RosterMember) -> tuple[float, str]:
        rates = sample.tenants.get(member.id)
        return (math.inf if rates is None else rates.misses_per_s, member.id)

    return key


def giver(
    roster: Roster, counts: Mapping[str, int], sample: Sample, spared: Collection[str]
) -> RosterMember | None:
    """Return the best-effort tenant that gives a way: the tenant with the fewest LLC misses.

    Return None if all are at their minimum. PC tenants and the stack never give. `spared`: tenants
    that must not give, because they ask or their own grant is on trial.
    """
    able = [
        member
        for member in roster.best_effort
        if member.id not in spared and counts[member.id] > roster.least(member)
    ]
    return min(able, key=misses_of(sample), default=None)


def fit(roster: Roster, usable: int, held: Mapping[str, int]) -> dict[str, int]:
    """Return the ways at every tenant's start: the initial request within the tenant's bounds.

    If the sum exceeds `usable`, the largest count gives a way, repeatedly. Among equals, the tenant
    with the fewest ways in `held` gives; `held` are the previous counts. Best-effort tenants give
    first, then PC tenants, the stack last, each down to the minimum.

    If even the minima exceed `usable`, best-effort tenants share a partition, then PC tenants as
    well (see `grouping`). The stack keeps the remaining ways. Tenants under a `Hold` do not share.
    """
    counts = {member.id: roster.initial(member) for member in roster.members}
    excess = sum(counts.values()) - usable

    def cut(members: Sequence[RosterMember], excess: int) -> int:
        least = {member.id: roster.least(member) for member in members}
        return grouping.cut(counts, least, excess, lambda tenant: (held.get(tenant, 0), tenant))

    for members in (roster.best_effort, roster.critical):
        excess = cut(members, excess)
        sharing = [member for member in members if not member.ways.held]
        if sharing:  # a shared partition, of minimum size if necessary
            excess -= sum(counts[m.id] for m in sharing) - roster.domain.min_ways
    cut((roster.stack,) if roster.stack is not None else (), excess)
    return counts


def lapsed(grants: Sequence[Grant], sample: Sample, fall: float) -> Iterator[Grant]:
    """Yield grants whose demand is more than `fall` below the demand at the grant, latest first.

    An unmeasured demand has not lapsed.
    """
    for grant in reversed(grants):
        now = demand_of(grant.subject, sample)
        if now is not None and now < (1 - fall) * grant.demand_per_s:
            yield grant


def demand_of(subject: str, sample: Sample) -> float | None:
    """Return the demand of a subject: hits + misses for DDIO, references for a tenant.

    A tenant's misses are unsuitable, because the granted way alone lowers them. None if not
    measured.
    """
    if subject == DDIO:
        if sample.ddio_hits_per_s is None or sample.ddio_misses_per_s is None:
            return None
        return sample.ddio_hits_per_s + sample.ddio_misses_per_s
    rates = sample.tenants.get(subject)
    return None if rates is None else rates.references_per_s


def same_demand(backoff: Backoff, demand_per_s: float | None, change: float) -> bool:
    """Return whether a demand is within `change` of the demand that a grant did not help."""
    if demand_per_s is None:
        return True
    return abs(demand_per_s - backoff.demand_per_s) <= change * backoff.demand_per_s
