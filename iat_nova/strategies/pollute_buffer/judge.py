# SPDX-License-Identifier: Apache-2.0
"""How fast tenants are, from counters alone, and what a trial gained."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping

from iat_nova.model import DomainInventory, Priority, Rates, Sample, Tenant

WEIGHTS = {Priority.STACK: 16.0, Priority.PC: 16.0, Priority.BE: 1.0}
MISS_CYCLES = 100.0  # of an LLC miss: some 90 ns at 2.3 GHz, two at a time
ASLEEP_CYCLES_PER_S = 1e7  # of a CPU: whose guest does next to nothing is not judged
MOST_STALLED = 0.95
OTHER_LOAD = 0.25  # relative change of references an instruction
MATTERS = 0.005  # of the cycles stalled by misses: below it, misses and references do not matter


@dataclasses.dataclass(slots=True)  # not frozen: one a tenant a second, made in half the time
class Look:
    """What one tenant did in a sample, or in the mean of several. Never changed once made.

    `speed`: instructions a cycle. A tenant with I/O polls, and does that faster the less there is
    to do; its `speed` is the share of its cycles that no LLC miss stalled.
    """

    speed: float
    stalled: float  # share of the cycles, 0..1, estimated from misses
    misses_per_s: float
    references_per_s: float


Looks = Mapping[str, Look]

Floors = Mapping[str, float]
"""By tenant, the speed below which what it loses counts as if it were critical."""


@dataclasses.dataclass(frozen=True, slots=True)
class Now:
    """What an iteration is given, and what is seen in it of each tenant."""

    inventory: DomainInventory
    sample: Sample
    looks: Looks

    @classmethod
    def seen(cls, inventory: DomainInventory, sample: Sample) -> Now:
        """Look at all tenants."""
        return cls(inventory, sample, look(inventory.tenants, sample))

    @property
    def at_s(self) -> float:
        """When the sample was taken, seconds of the loop's clock."""
        return self.sample.taken_at_s


def look(tenants: Iterable[Tenant], sample: Sample) -> dict[str, Look]:
    """Return what each tenant did that was measured and awake."""
    found = {}
    for tenant in tenants:
        rates = sample.tenants.get(tenant.id)
        if rates is not None and rates.cycles_per_s > ASLEEP_CYCLES_PER_S * len(
            tenant.counted_cpus
        ):
            found[tenant.id] = _look(tenant, rates)
    return found


def _look(tenant: Tenant, rates: Rates) -> Look:
    stalled = min(MOST_STALLED, rates.misses_per_s * MISS_CYCLES / rates.cycles_per_s)
    speed = 1.0 - stalled if tenant.io else rates.ipc
    return Look(speed, stalled, rates.misses_per_s, rates.references_per_s)


def mean(before: Looks, new: Looks, count: int) -> dict[str, Look]:
    """Return the mean of `count` looks, the last of which is `new`."""
    return {
        tenant: _mean(before[tenant], one, count) if tenant in before else one
        for tenant, one in new.items()
    }


def _mean(before: Look, new: Look, count: int) -> Look:
    return Look(
        before.speed + (new.speed - before.speed) / count,
        before.stalled + (new.stalled - before.stalled) / count,
        before.misses_per_s + (new.misses_per_s - before.misses_per_s) / count,
        before.references_per_s + (new.references_per_s - before.references_per_s) / count,
    )


def gain(
    tenants: Iterable[Tenant], before: Looks, after: Looks, floors: Floors | None = None
) -> float:
    """Return the weighted mean of the tenants' gains in speed; 0.02 is 2 %.

    A best-effort tenant's counts by how near it is to its speed without misses: one that hardly
    gets on with all ways does not outweigh, by losing half of that little, what critical ones gain.
    What it lacks of its floor counts like a critical tenant's speed, before and after.
    """
    floors = floors or {}
    total = gained = 0.0
    for tenant in tenants:
        if tenant.id in before and tenant.id in after and before[tenant.id].speed:
            weight = WEIGHTS[tenant.priority]
            total += weight
            relative = after[tenant.id].speed / before[tenant.id].speed - 1.0
            gained += weight * _counts(tenant, before[tenant.id]) * relative
            if floor := floors.get(tenant.id):
                gained += _lacks(before[tenant.id], floor) - _lacks(after[tenant.id], floor)
    return gained / total if total else 0.0


def _counts(tenant: Tenant, one: Look) -> float:
    return 1.0 - one.stalled if tenant.priority is Priority.BE else 1.0


def _lacks(one: Look, floor: float) -> float:
    """Return what share of its floor a tenant lacks, weighed like a critical tenant's speed."""
    return WEIGHTS[Priority.PC] * max(0.0, 1.0 - one.speed / floor)


def stakes(tenants: Iterable[Tenant], looks: Looks) -> dict[str, float]:
    """Return how much all would gain if a tenant never missed: no move can bring more by it."""
    known = [tenant for tenant in tenants if tenant.id in looks]
    total = sum(WEIGHTS[tenant.priority] for tenant in known)
    return {one.id: _stake(one, looks[one.id]) / total for one in known}


def _stake(tenant: Tenant, one: Look) -> float:
    return WEIGHTS[tenant.priority] * _counts(tenant, one) * one.stalled / (1.0 - one.stalled)


def lacks(tenants: Iterable[Tenant], looks: Looks, floors: Floors) -> dict[str, float]:
    """Return how much all would gain if a tenant had its floor, of those who lack it."""
    known = [tenant for tenant in tenants if tenant.id in looks]
    total = sum(WEIGHTS[tenant.priority] for tenant in known)
    found = {one.id: floors[one.id] for one in known if floors.get(one.id)}
    return {
        one: _lacks(looks[one], floor) / total
        for one, floor in found.items()
        if looks[one].speed < floor
    }


def other_loads(tenants: Iterable[Tenant], before: Looks, after: Looks) -> Iterator[str]:
    """Yield the tenants that do something else than before, with any ways.

    What misses its private caches an instruction does not depend on its share of the LLC. A tenant
    with I/O polls, so that of it nothing can be said.
    """
    for tenant in tenants:
        was, now = before.get(tenant.id), after.get(tenant.id)
        if tenant.io or (was is None and now is None):
            continue
        if was is None or now is None:
            yield tenant.id
            continue
        matters = max(was.stalled, now.stalled) > MATTERS
        first, second = was.references_per_s * now.speed, now.references_per_s * was.speed
        if matters and abs(second - first) > OTHER_LOAD * max(first, second):
            yield tenant.id


def other_load(tenants: Iterable[Tenant], before: Looks, after: Looks) -> str | None:
    """Return the first tenant that does something else than before; None: nobody."""
    return next(other_loads(tenants, before, after), None)
