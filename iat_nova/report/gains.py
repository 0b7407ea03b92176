# SPDX-License-Identifier: Apache-2.0
"""Speeds of tenants over a period: which tenants gained, which lost, and the worst moment."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from iat_nova.model import DomainInventory, Priority
from iat_nova.report import pressures
from iat_nova.store.records import Iteration
from iat_nova.strategies import prospect, readings
from iat_nova.strategies.prospect import Prospect
from iat_nova.strategies.readings import Look

TENTH = 0.1  # of a tenant's samples: the begin and the end of the period
TOGETHER = 3  # consecutive samples whose mean may be the lowest


@dataclasses.dataclass(frozen=True, slots=True)
class Gain:
    """A tenant's speed in the first and the last tenth of a period, and its slowest moment.

    Speed: instructions per cycle; with I/O the share of cycles that do not wait for LLC misses.
    Where misses overlap, the share that waits is too large: a tenant with I/O neither gains nor
    loses more speed than instructions (`readings.speedup`).
    """

    tenant: str
    priority: Priority
    first: float
    last: float
    change: float  # from the first to the last tenth, relative: 0.02 is 2 %
    worst: float  # the lowest speed relative to the tenant's own best speed
    worst_s: float  # wall clock


def gains(samples: Sequence[Iteration], inventory: DomainInventory) -> list[Gain]:
    """Return the gain of each tenant that was awake in `TOGETHER` samples or more."""
    speeds: dict[str, list[tuple[Look, float]]] = {tenant.id: [] for tenant in inventory.tenants}
    for iteration in samples:
        for tenant, look in readings.look(inventory.tenants, iteration.sample).items():
            speeds[tenant].append((look, iteration.wall_s))
    return [
        _gain(tenant.id, tenant.priority, speeds[tenant.id])
        for tenant in inventory.tenants
        if len(speeds[tenant.id]) >= TOGETHER
    ]


def _gain(tenant: str, priority: Priority, speeds: Sequence[tuple[Look, float]]) -> Gain:
    looks = [look for look, _ in speeds]
    tenth = max(TOGETHER, round(TENTH * len(looks)))
    means = [
        (_mean(looks[at : at + TOGETHER]), speeds[at + TOGETHER // 2][1])
        for at in range(len(looks) - TOGETHER + 1)
    ]
    best = max((mean for mean, _ in means), key=lambda look: look.speed)
    worst, worst_s = min((readings.speedup(best, mean), wall_s) for mean, wall_s in means)
    first, last = _mean(looks[:tenth]), _mean(looks[-tenth:])
    ratio = readings.speedup(first, last)
    if last.speed > first.speed > 0.0:  # `speedup` bounds losses by instructions; here gains, too
        ratio = 1.0 / readings.speedup(last, first)
    return Gain(tenant, priority, first.speed, last.speed, ratio - 1.0, worst, worst_s)


def _mean(looks: Sequence[Look]) -> Look:
    mean = looks[0]
    for count, look in enumerate(looks[1:], 2):
        mean = readings.further(mean, look, count)
    return mean


def worth(samples: Sequence[Iteration], inventory: DomainInventory) -> Prospect | None:
    """Return what enforcing could have given critical guests, the mean of all samples that know it.

    These are the samples in which nothing was written and such a guest was awake.
    """
    worths = (pressures.worth(inventory, iteration) for iteration in samples)
    return prospect.together([worth for worth in worths if worth is not None])
