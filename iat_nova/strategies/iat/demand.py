# SPDX-License-Identifier: Apache-2.0
"""Who gets a way and who gives one (ISCA 2021, section IV-D). Pure questions, no changes."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from iat_nova.layout import fair
from iat_nova.model import DDIO, Priority, Sample
from iat_nova.strategies.iat.roster import Roster
from iat_nova.strategies.iat.state import Backoff, Grant, Member


class Candidate(NamedTuple):
    """A tenant that might be granted a way.

    `rise` is that of its LLC miss rate against the reference, in percent points; None where it
    could not be had.
    """

    member: Member
    rise: float | None


def miss_rate_rise(reference: Sample, sample: Sample, tenant: str) -> float | None:
    """Return by how many percent points a tenant's LLC misses a reference rose."""
    before, after = reference.tenants.get(tenant), sample.tenants.get(tenant)
    if before is None or after is None:
        return None
    return (after.miss_ratio - before.miss_ratio) * 100


def _risen(members: Sequence[Member], reference: Sample, sample: Sample) -> list[Candidate]:
    """Return those whose miss rate rose, the largest rise first; earlier members win ties."""
    rises = (Candidate(m, miss_rate_rise(reference, sample, m.id)) for m in members)
    risen = [(c.rise, c) for c in rises if c.rise is not None and c.rise > 0]
    return [candidate for _, candidate in sorted(risen, key=lambda pair: -pair[0])]


def core_candidates(roster: Roster, reference: Sample, sample: Sample) -> list[Candidate]:
    """Return who may be served in Core Demand, in order.

    Aggregation: the stack, with any miss rate, then the tenants behind it. Slicing: the
    tenants that own their buffers, by the rise of their miss rate. Both on one host: the stack
    competes with them by its rise and wins ties.
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
    """Order the tenants with a demand of their own: PC first, then by the rise of miss rate."""
    candidates = [
        Candidate(roster.by_id[tenant], miss_rate_rise(reference, sample, tenant))
        for tenant in tenants
    ]
    return sorted(candidates, key=lambda c: (c.member.priority is Priority.BE, -(c.rise or 0.0)))


def misses_of(sample: Sample) -> Callable[[Member], tuple[float, str]]:
    """Return the order in which best-effort tenants give: fewest LLC misses, unknown ones last."""

    def key(member: Member) -> tuple[float, str]:
        rates = sample.tenants.get(member.id)
        return (math.inf if rates is None else rates.misses_per_s, member.id)

    return key


def giver(
    roster: Roster, counts: Mapping[str, int], sample: Sample, spared: Collection[str]
) -> Member | None:
    """Return the best-effort tenant that gives a way: the one with the fewest misses.

    None when all are at their minimum. PC tenants and the stack never give; `spared` are those
    that must not (who asks, and whose own grant is on trial).
    """
    able = [
        member
        for member in roster.best_effort
        if member.id not in spared and counts[member.id] > roster.least(member)
    ]
    return min(able, key=misses_of(sample), default=None)


def fit(roster: Roster, usable: int, held: Mapping[str, int]) -> dict[str, int]:
    """Return the ways every tenant starts with: its initial request within its bounds.

    When all together want more than the `usable` ways, the largest gives a way, again and again;
    among equals the one that holds the fewest of `held`, the ways before. Best-effort tenants give
    first, then PC tenants, the stack last; nobody below its minimum. Where even the minima of all
    are too many, best-effort tenants share one partition, then PC tenants share as well (see
    `grouping`), and the stack keeps what leaves them that. Who is held (`Hold`) does not share.
    """
    counts = {member.id: roster.initial(member) for member in roster.members}
    excess = sum(counts.values()) - usable

    def cut(members: Sequence[Member], excess: int) -> int:
        least = {member.id: roster.least(member) for member in members}
        return fair.cut(counts, least, excess, lambda tenant: (held.get(tenant, 0), tenant))

    for members in (roster.best_effort, roster.critical):
        excess = cut(members, excess)
        sharing = [member for member in members if not member.ways.held]
        if excess > 0 and sharing:  # they share one partition, of the smallest size if need be
            excess -= sum(counts[m.id] for m in sharing) - roster.domain.min_ways
    cut((roster.stack,) if roster.stack is not None else (), excess)
    return counts


def lapsed(grants: Sequence[Grant], sample: Sample, fall: float) -> Iterator[Grant]:
    """Yield the grants whose demand lies more than `fall` below the one that earned them.

    The latest first. A demand that could not be measured has not lapsed.
    """
    for grant in reversed(grants):
        now = demand_of(grant.subject, sample)
        if now is not None and now < (1 - fall) * grant.demand_per_s:
            yield grant


def demand_of(subject: str, sample: Sample) -> float | None:
    """Return what a grant remembers of its subject: hits + misses of DDIO, references of a core.

    Not a core's misses, which fall just by having the way.
    """
    if subject == DDIO:
        if sample.ddio_hits_per_s is None or sample.ddio_misses_per_s is None:
            return None
        return sample.ddio_hits_per_s + sample.ddio_misses_per_s
    rates = sample.tenants.get(subject)
    return None if rates is None else rates.references_per_s


def same_demand(backoff: Backoff, demand_per_s: float | None, change: float) -> bool:
    """Tell whether a demand is still the one that a grant did not help, within `change`."""
    if demand_per_s is None:
        return True
    return abs(demand_per_s - backoff.demand_per_s) <= change * backoff.demand_per_s
