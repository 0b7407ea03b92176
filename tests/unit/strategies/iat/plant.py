# SPDX-License-Identifier: Apache-2.0
"""A server reduced to miss curves, to close the controller's loop: more ways, never more misses."""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Callable

from iat_nova.model import Decision, DomainInventory, Layout, Rates, Sample
from iat_nova.strategies.iat.controller import Controller
from iat_nova.strategies.iat.state import IatState

CYCLES_PER_S = 4.6e9


@dataclasses.dataclass(frozen=True)
class Curve:
    """A share of something that misses: `floor` with all ways, `floor + reach` with none."""

    floor: float
    reach: float
    scale: float  # ways in which the reach falls to 1/e

    def at(self, ways: float) -> float:
        """Return the share that misses with so many ways."""
        return self.floor + self.reach * math.exp(-ways / self.scale)


@dataclasses.dataclass
class Plant:
    """References a second and miss curves of tenants, traffic and miss curve of DDIO.

    A way shared with DDIO is worth half a way to both. With a stack, DDIO's misses also fall with
    the stack's ways.
    """

    references: dict[str, float]
    curves: dict[str, Curve]
    traffic_per_s: float
    ddio: Curve

    @classmethod
    def at_random(cls, inventory: DomainInventory, dice: random.Random) -> Plant:
        """Return a plant with something to gain for some and nothing for others."""

        def curve() -> Curve:
            return Curve(
                dice.uniform(0.0, 0.3),
                dice.choice((0.0, dice.uniform(0, 0.6))),
                dice.uniform(0.5, 6),
            )

        ids = [tenant.id for tenant in inventory.tenants]
        return cls(
            {tenant: dice.choice((2e4, dice.uniform(0.5e6, 4e7))) for tenant in ids},
            {tenant: curve() for tenant in ids},
            dice.uniform(1e6, 6e7),
            Curve(dice.uniform(0, 0.05), dice.uniform(0, 0.6), dice.uniform(0.5, 6)),
        )

    def disturb(self, dice: random.Random) -> None:
        """Let the load of some tenants and the traffic change for good."""
        for tenant in self.references:
            if dice.random() < 0.4:
                self.references[tenant] *= dice.uniform(0.3, 3)
                self.curves[tenant] = dataclasses.replace(
                    self.curves[tenant], reach=dice.uniform(0, 0.6)
                )
        self.traffic_per_s *= dice.uniform(0.3, 3)

    def sample(self, layout: Layout | None, at_s: float, noise: Callable[[], float]) -> Sample:
        """Return what the counters show under a layout, each figure off by a factor of noise."""
        ddio = layout.ddio if layout is not None else 0
        tenants, pressed = {}, 0.0
        for tenant, references in self.references.items():
            mask = (layout.mask_of(tenant) if layout is not None else None) or 0
            shared = (mask & ddio).bit_count()
            misses = references * self.curves[tenant].at(mask.bit_count() - shared / 2)
            pressed += shared / 2
            tenants[tenant] = Rates(
                CYCLES_PER_S / (1 + misses / references) * noise(),
                CYCLES_PER_S,
                references * noise(),
                misses * noise(),
            )
        ways = max(0.0, ddio.bit_count() - pressed)
        stack = layout.mask_of("stack") if layout is not None else None
        ways += stack.count / 2 if stack is not None else 0
        missed = self.traffic_per_s * self.ddio.at(ways)
        return Sample(
            0, at_s, 1.0, tenants, (self.traffic_per_s - missed) * noise(), missed * noise()
        )


def run(
    controller: Controller,
    inventory: DomainInventory,
    plant: Plant,
    noise: Callable[[], float],
    seconds: int,
    state: IatState | None = None,
) -> tuple[IatState, list[Decision]]:
    """Close the loop for so many iterations of a second."""
    if state is None:
        state = controller.initial(inventory, 0.0)
    decisions: list[Decision] = []
    for _ in range(seconds):
        sample = plant.sample(state.layout, float(state.iteration + 1), noise)
        state, decision = controller.step(state, inventory, sample)
        decisions.append(decision)
    return state, decisions
