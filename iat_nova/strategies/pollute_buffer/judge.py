# SPDX-License-Identifier: Apache-2.0
"""Speeds of tenants, estimated from counters alone, and the gain of a trial."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping

from iat_nova.model import DomainInventory, Priority, Sample, Tenant
from iat_nova.strategies import readings
from iat_nova.strategies.readings import Look, Looks

WEIGHTS = {Priority.STACK: 16.0, Priority.PC: 16.0, Priority.BE: 1.0}
ENOUGH = 2  # samples of a baseline, and deviating samples in a row that show another load
PAYS = 0.006  # promise for a trial, and mean gain to keep a move; smaller stalls do not count
OBVIOUS = 0.03  # mean gain, and promise, for which a single sample is enough


Floors = Mapping[str, float]
"""By tenant, the speed below which what it loses counts as if it were critical."""


@dataclasses.dataclass(frozen=True, slots=True)
class Now:
    """Input of an iteration: inventory, sample, and a reading of each tenant."""

    inventory: DomainInventory
    sample: Sample
    looks: Looks

    @classmethod
    def seen(cls, inventory: DomainInventory, sample: Sample) -> Now:
        """Read all tenants."""
        return cls(inventory, sample, readings.look(inventory.tenants, sample))

    @property
    def at_s(self) -> float:
        """Time of the sample, seconds of the loop's clock."""
        return self.sample.taken_at_s


def gain(
    tenants: Iterable[Tenant], before: Looks, after: Looks, floors: Floors | None = None
) -> float:
    """Return the weighted mean of the tenants' gains in speed; 0.02 is 2 %.

    A best-effort tenant's gain is multiplied by the share of cycles not stalled by misses. A tenant
    that hardly progresses even with all ways thus cannot outweigh the gains of critical tenants.
    `floors`: minimum speeds by tenant. A lack below the minimum counts like the speed of a critical
    tenant, before and after.
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


def most(tenants: Iterable[Tenant], before: Looks, after: Looks) -> tuple[str, float] | None:
    """Return the tenant with the largest part in `gain`, and its own relative change of speed.

    None if no tenant was measured before and after.
    """
    found, largest = None, -1.0
    for tenant in tenants:
        if tenant.id in before and tenant.id in after and before[tenant.id].speed:
            relative = after[tenant.id].speed / before[tenant.id].speed - 1.0
            part = abs(WEIGHTS[tenant.priority] * _counts(tenant, before[tenant.id]) * relative)
            if part > largest:
                found, largest = (tenant.id, relative), part
    return found


def _counts(tenant: Tenant, one: Look) -> float:
    return 1.0 - one.stalled if tenant.priority is Priority.BE else 1.0


def _lacks(one: Look, floor: float) -> float:
    """Return the lacking share of a minimum speed, weighted like a critical tenant's speed."""
    return WEIGHTS[Priority.PC] * max(0.0, 1.0 - one.speed / floor)


def stakes(tenants: Iterable[Tenant], looks: Looks) -> dict[str, float]:
    """Return the total gain in speed if a tenant had no LLC misses, by tenant.

    No move can bring a larger gain through the tenant.
    """
    known = [tenant for tenant in tenants if tenant.id in looks]
    total = sum(WEIGHTS[tenant.priority] for tenant in known)
    return {one.id: _stake(one, looks[one.id]) / total for one in known}


def _stake(tenant: Tenant, one: Look) -> float:
    return WEIGHTS[tenant.priority] * _counts(tenant, one) * one.stalled / (1.0 - one.stalled)


def lacks(tenants: Iterable[Tenant], looks: Looks, floors: Floors) -> dict[str, float]:
    """Return the total gain in speed if a tenant reached its minimum speed, by tenant.

    Only tenants below their minimum are included.
    """
    known = [tenant for tenant in tenants if tenant.id in looks]
    total = sum(WEIGHTS[tenant.priority] for tenant in known)
    found = {one.id: floors[one.id] for one in known if floors.get(one.id)}
    return {
        one: _lacks(looks[one], floor) / total
        for one, floor in found.items()
        if looks[one].speed < floor
    }


def other_loads(tenants: Iterable[Tenant], before: Looks, after: Looks) -> Iterator[str]:
    """Yield the tenants whose load changed, judged independently of their ways.

    The number of LLC references per instruction does not depend on the share of the LLC. A tenant
    with I/O polls, so its load cannot be compared.
    """
    for tenant in tenants:
        was, now = before.get(tenant.id), after.get(tenant.id)
        if tenant.io or (was is None and now is None):
            continue
        if was is None or now is None:
            yield tenant.id
            continue
        matters = max(was.stalled, now.stalled) > PAYS
        first, second = was.references_per_s * now.speed, now.references_per_s * was.speed
        if matters and readings.another(first, second):
            yield tenant.id


def other_load(tenants: Iterable[Tenant], before: Looks, after: Looks) -> str | None:
    """Return the first tenant with a changed load, or None."""
    return next(other_loads(tenants, before, after), None)
