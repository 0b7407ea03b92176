# SPDX-License-Identifier: Apache-2.0
"""Speeds of tenants, estimated from counters alone: the gain of a trial, and minimum speeds.

The minimum speed of a best-effort tenant is most of the speed before a move cost it any. The policy
says how much that is (`best_effort_min`). In the weighted mean of speeds a best-effort tenant
counts little, and could lose all speed unnoticed. A loss below the minimum weighs like the speed of
a critical tenant.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Iterable
from typing import NamedTuple

from iat_nova.model import DDIO, DomainInventory, Parameters, Priority, Sample, Tenant, TenantKind
from iat_nova.strategies import readings
from iat_nova.strategies.pollute_buffer.state import State
from iat_nova.strategies.readings import Look, Looks

WEIGHTS = {Priority.STACK: 16.0, Priority.PC: 16.0, Priority.BE: 1.0}
USUAL = 2.5  # times the usual deviation; a larger deviation is unusual
ENOUGH = 2  # samples of a baseline, and deviating samples in a row that show another load
PAYS = 0.006  # least promise of a trial, gain of a kept move, and share of stalls that counts
OBVIOUS = 0.03  # least gain to keep a move before the last sample of its trial


Floors = Looks
"""By tenant, a reading at its minimum speed: what it loses below counts as if it were critical."""


class Stake(NamedTuple):
    """The total gain in speed if a tenant never missed, and if it reached its minimum speed."""

    misses: float
    lack: float


@dataclasses.dataclass(frozen=True, slots=True)
class Now:
    """Input of an iteration: inventory, sample, and a reading of each tenant."""

    inventory: DomainInventory
    sample: Sample
    looks: Looks

    @classmethod
    def seen(cls, inventory: DomainInventory, sample: Sample) -> Now:
        """Read all tenants, and as references of `DDIO` the lines that devices write."""
        looks, lines = readings.look(inventory.tenants, sample), sample.inbound_lines_per_s
        if lines is not None:
            looks[DDIO] = Look(0.0, 0.0, 0.0, lines)
        return cls(inventory, sample, looks)

    @property
    def at_s(self) -> float:
        """Time of the sample, seconds of the loop's clock."""
        return self.sample.taken_at_s


class Gain(NamedTuple):
    """The weighted mean of the tenants' gains in speed: 0.02 is 2 %.

    `with_floors`: a lack below a minimum speed counts like the speed of a critical tenant, before
    and after. `most`: the tenant with most part in `speeds`, and its own gain; None if no tenant
    was measured before and after.
    """

    speeds: float
    with_floors: float
    most: tuple[str, float] | None


def gain(tenants: Iterable[Tenant], before: Looks, after: Looks, floors: Floors) -> Gain:
    """Return what the tenants gain together.

    A best-effort tenant's gain is multiplied by the share of cycles not stalled by misses. A
    tenant that hardly progresses even with all ways thus cannot outweigh the gains of critical
    tenants. The host's own processes count only with the same load before and after, and only where
    misses stall them. `floors`: minimum speeds by tenant.
    """
    most, largest = None, -1.0
    total = speeds = with_floors = 0.0
    for tenant in tenants:
        was, now = before.get(tenant.id), after.get(tenant.id)
        if was is None or now is None or not was.speed or not now.speed:
            continue
        if tenant.kind is TenantKind.HOST and not (_matters(was, now) and _alike(was, now)):
            continue
        weight, own = weight_of(tenant), readings.speedup(was, now)
        part = weight * _counts(tenant, was) * math.log(own)
        total, speeds, with_floors = total + weight, speeds + part, with_floors + part
        if abs(part) > largest:
            most, largest = (tenant.id, own - 1.0), abs(part)
        if floor := floors.get(tenant.id):
            with_floors += _lacks(was, floor) - _lacks(now, floor)
    total = total or 1.0  # nobody was measured
    return Gain(math.expm1(speeds / total), math.expm1(with_floors / total), most)


def weight_of(tenant: Tenant) -> float:
    """Return the weight of a tenant's speed: the priority's weight times the class's weight."""
    return WEIGHTS[tenant.priority] * tenant.weight


def unrest(deviation: float) -> float:
    """Return the factor by which this usual deviation of a host raises the limits of a gain.

    The largest of a host's deviations is some eight times the error of a trial's gain.
    """
    return max(1.0, deviation / (8.0 * PAYS))


def _counts(tenant: Tenant, one: Look) -> float:
    return 1.0 - one.stalled if tenant.priority is Priority.BE else 1.0


def _lacks(one: Look, floor: Look) -> float:
    """Return the lacking share of a minimum speed, weighted like a critical tenant's speed."""
    return WEIGHTS[Priority.PC] * max(0.0, 1.0 - readings.speedup(floor, one))


def stakes(tenants: Iterable[Tenant], looks: Looks, floors: Floors) -> dict[str, Stake]:
    """Return by tenant the largest total gain in speed that a move can bring through this tenant.

    `misses`: the gain if the tenant had no LLC misses. `lack`: if it reached its minimum speed.
    """
    known = [tenant for tenant in tenants if tenant.id in looks]
    total = sum(map(weight_of, known))
    found = {}
    for tenant in known:
        one, floor = looks[tenant.id], floors.get(tenant.id)
        misses = weight_of(tenant) * _counts(tenant, one) * one.stalled / (1.0 - one.stalled)
        found[tenant.id] = Stake(misses / total, _lacks(one, floor) / total if floor else 0.0)
    return found


def floors_in_force(state: State, tenants: Collection[Tenant], numbers: Parameters) -> Looks:
    """Return the minimum speeds in force by tenant, as readings (`Floors`).

    A tenant with another load than outside the buffer has none; other traffic leaves it.
    """
    others = other_loads(tenants, state.found, state.looks)
    return {
        one.id: readings.scaled(state.found[one.id], numbers.best_effort_min)
        for one in tenants
        if one.id in state.found and one.id not in others
    }


def measured_outside(state: State, tenants: Collection[Tenant]) -> State:
    """Return the state with the readings of best-effort tenants outside the buffer, without limit.

    Beside confined or limited tenants only a tenant that came, or has another load, is measured:
    the speed of others is no longer that of a host without the agent.
    """
    others = other_loads(tenants, state.found, state.looks)
    restricted = state.plan.confined | {one.tenant for one in state.plan.limits}
    new = {
        one.id: state.looks[one.id]
        for one in tenants
        if one.priority is Priority.BE
        and one.kind is not TenantKind.HOST
        and one.id in state.looks
        and one.id not in restricted
        and (not restricted or one.id not in state.found or one.id in others)
    }
    return dataclasses.replace(state, found={**state.found, **new})


def other_loads(tenants: Iterable[Tenant], before: Looks, after: Looks) -> tuple[str, ...]:
    """Return the tenants whose load changed, judged independently of their ways.

    LLC references per instruction hardly depend on the share of the LLC. Nor does the time on the
    CPU, or, where a tenant waits for a disk or for requests, its work. A tenant with I/O polls:
    `other_traffic` compares what devices write instead. The host's own processes come and go all
    the time, for moments: no load of theirs lasts.
    """
    found = []
    for tenant in tenants:
        was, now = before.get(tenant.id), after.get(tenant.id)
        if tenant.io or tenant.kind is TenantKind.HOST:
            continue
        if was is None or now is None:
            changed = was is not now
        else:
            changed = _matters(was, now) and not _alike(was, now)
        if changed:
            found.append(tenant.id)
    return tuple(found)


def _matters(was: Look, now: Look) -> bool:
    """Return whether misses stall a tenant before or after."""
    return max(was.stalled, now.stalled) > PAYS


def _alike(was: Look, now: Look) -> bool:
    """Return whether two readings of a tenant may be of the same load.

    LLC references per instruction are alike, and cycles or instructions per second.
    """
    first, second = was.speed * was.cycles_per_s, now.speed * now.cycles_per_s
    if readings.another(was.references_per_s * second, now.references_per_s * first):
        return False
    cycles = was.cycles_per_s, now.cycles_per_s
    return not (readings.another(*cycles) and readings.another(first, second))


def other_traffic(tenants: Iterable[Tenant], before: Looks, after: Looks, deviation: float) -> bool:
    """Return whether what devices write changed by an unusual share on a host of this `deviation`.

    Traffic matters where a tenant with I/O is stalled.
    """
    looks = [one[t.id] for one in (before, after) for t in tenants if t.io and t.id in one]
    was, now = before.get(DDIO), after.get(DDIO)
    if was is None or now is None or all(one.stalled <= PAYS for one in looks):
        return False
    changed = readings.change(was.references_per_s, now.references_per_s)
    return changed > unusual(readings.OTHER_LOAD, deviation)


def unusual(least: float, deviation: float) -> float:
    """Return the relative change above which a reading is unusual on a host; at least `least`."""
    return max(least, USUAL * deviation)
