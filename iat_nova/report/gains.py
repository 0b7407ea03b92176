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

TENTH = 0.1  # of a tenant's samples: the begin and the end of the period
TOGETHER = 3  # consecutive samples whose mean may be the lowest


@dataclasses.dataclass(frozen=True, slots=True)
class Gain:
    """A tenant's speed in the first and the last tenth of a period, and its lowest speed.

    Speed: instructions per cycle; with I/O the share of cycles that do not wait for LLC misses.
    """

    tenant: str
    priority: Priority
    first: float
    last: float
    lowest: float
    lowest_s: float  # wall clock
    best: float

    @property
    def change(self) -> float:
        """The relative change from the first to the last tenth: 0.02 is 2 %."""
        return self.last / self.first - 1.0 if self.first else 0.0

    @property
    def worst(self) -> float:
        """The lowest speed relative to the tenant's own best speed, 0..1."""
        return self.lowest / self.best if self.best else 1.0


def gains(samples: Sequence[Iteration], inventory: DomainInventory) -> list[Gain]:
    """Return the gain of each tenant that was awake in `TOGETHER` samples or more."""
    speeds: dict[str, list[tuple[float, float]]] = {one.id: [] for one in inventory.tenants}
    for iteration in samples:
        for tenant, look in readings.look(inventory.tenants, iteration.sample).items():
            speeds[tenant].append((iteration.wall_s, look.speed))
    return [
        _gain(tenant.id, tenant.priority, speeds[tenant.id])
        for tenant in inventory.tenants
        if len(speeds[tenant.id]) >= TOGETHER
    ]


def worth(samples: Sequence[Iteration], inventory: DomainInventory) -> Prospect | None:
    """Return what enforcing could have given critical guests, in the mean of unwritten samples."""
    found = (pressures.worth(inventory, one) for one in samples)
    return prospect.together([one for one in found if one is not None])


def _gain(tenant: str, priority: Priority, speeds: Sequence[tuple[float, float]]) -> Gain:
    few = max(TOGETHER, round(TENTH * len(speeds)))
    means = [
        (_mean(speeds[at : at + TOGETHER]), speeds[at + TOGETHER // 2][0])
        for at in range(len(speeds) - TOGETHER + 1)
    ]
    lowest, lowest_s = min(means)
    best, _ = max(means)
    return Gain(tenant, priority, _mean(speeds[:few]), _mean(speeds[-few:]), lowest, lowest_s, best)


def _mean(speeds: Sequence[tuple[float, float]]) -> float:
    return sum(speed for _, speed in speeds) / len(speeds)


def worth_tiles(samples: Sequence[Iteration], inventory: DomainInventory) -> list[tuple[str, str]]:
    """Return value and caption of what enforcing could have given while nothing was written."""
    found = worth(samples, inventory)
    if found is None:
        return []
    caption = "likely gain of critical guests if the agent had enforced"
    return [(f"{found.likely:+.1%}", f"{caption} (at most {found.most:.0%})")]
