# SPDX-License-Identifier: Apache-2.0
"""Speeds of tenants over a period: which tenants gained, which lost, and the worst moment."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from iat_nova.model import DomainInventory, Priority
from iat_nova.report import pressures
from iat_nova.store.records import Iteration
from iat_nova.strategies import prospect, readings
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
    looks: dict[str, list[tuple[Look, float]]] = {one.id: [] for one in inventory.tenants}
    for iteration in samples:
        for tenant, look in readings.look(inventory.tenants, iteration.sample).items():
            looks[tenant].append((look, iteration.wall_s))
    return [
        _gain(tenant.id, tenant.priority, looks[tenant.id])
        for tenant in inventory.tenants
        if len(looks[tenant.id]) >= TOGETHER
    ]


def _gain(tenant: str, priority: Priority, looks: Sequence[tuple[Look, float]]) -> Gain:
    few = max(TOGETHER, round(TENTH * len(looks)))
    means = [
        (_mean(looks[at : at + TOGETHER]), looks[at + TOGETHER // 2][1])
        for at in range(len(looks) - TOGETHER + 1)
    ]
    best, _ = max(means, key=lambda one: one[0].speed)
    worst, worst_s = min((readings.speedup(best, one), wall_s) for one, wall_s in means)
    first, last = _mean(looks[:few]), _mean(looks[-few:])
    change = _ratio(first, last) - 1.0
    return Gain(tenant, priority, first.speed, last.speed, change, worst, worst_s)


def _ratio(was: Look, now: Look) -> float:
    """Return the ratio of speeds. The strategy bounds losses by instructions; here gains, too."""
    if now.speed > was.speed > 0.0:
        return 1.0 / readings.speedup(now, was)
    return readings.speedup(was, now)


def _mean(looks: Sequence[tuple[Look, float]]) -> Look:
    mean = looks[0][0]
    for count, (one, _) in enumerate(looks[1:], 2):
        mean = readings.further(mean, one, count)
    return mean


def worth_tiles(samples: Sequence[Iteration], inventory: DomainInventory) -> list[tuple[str, str]]:
    """Return value and caption of what enforcing could have given critical guests.

    It is the mean of the samples in which nothing was written and such a guest was awake; the list
    is empty without such a sample.
    """
    each = (pressures.worth(inventory, one) for one in samples)
    found = prospect.together([one for one in each if one is not None])
    if found is None:
        return []
    caption = "likely gain of critical guests if the agent had enforced"
    return [(f"{found.likely:+.1%}", f"{caption} (at most {found.most:.0%})")]
