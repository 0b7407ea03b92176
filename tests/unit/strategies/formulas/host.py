# SPDX-License-Identifier: Apache-2.0
"""A host made of formulas: speeds of the tenants under a layout, and the resulting counters."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from random import Random

from iat_nova.model import DomainInventory, Layout, Priority, Rates, Sample, Tenant
from tests.unit.strategies.formulas.curves import FREQUENCY_HZ, InboundWrites, Load
from tests.unit.strategies.formulas.sharing import User, occupancy

WEIGHTS = {Priority.STACK: 4.0, Priority.PC: 4.0, Priority.BE: 1.0}
DDIO = "ddio"
Masks = tuple[int, tuple[int, ...]]
"""DDIO's mask and each tenant's, in the host's order: what a layout comes to."""


@dataclasses.dataclass(frozen=True, slots=True)
class Equilibrium:
    """Occupied ways of tenants and DDIO, speeds of the tenants, and utility."""

    occupied: tuple[float, ...]
    ddio_occupied: float
    ddio_misses: float  # per line, 0..1
    speeds: tuple[float, ...]  # instructions per second
    utility: float


class FormulaHost:
    """Steady loads of tenants on a cache. Outcomes are cached by masks."""

    def __init__(
        self, inventory: DomainInventory, loads: Mapping[str, Load], inbound: InboundWrites
    ) -> None:
        self.inventory = inventory
        self.tenants: tuple[Tenant, ...] = inventory.tenants
        self.loads = tuple(loads[tenant.id] for tenant in self.tenants)
        self.inbound = inbound
        self.ways = inventory.domain.ways
        weights = [WEIGHTS[tenant.priority] for tenant in self.tenants]
        self.weights = tuple(weight / sum(weights) for weight in weights)
        self.alone = tuple(
            load.instructions_per_s(self.ways, inbound.misses(self.ways)) for load in self.loads
        )
        self._known: dict[Masks, Equilibrium] = {}

    def utility(self, speeds: tuple[float, ...]) -> float:
        """Return the weighted mean of the speeds relative to running alone."""
        parts = zip(self.weights, speeds, self.alone, strict=True)
        return sum(weight * speed / alone for weight, speed, alone in parts)

    def under(self, layout: Layout | None) -> Equilibrium:
        """Return the outcome of a layout.

        None stands for a host without an agent: no masks, and DDIO with its original ways.
        """
        everything = (1 << self.ways) - 1
        if layout is None:
            found = self.inventory.domain.ddio_found or 0
            return self.with_masks((int(found), (everything,) * len(self.tenants)))
        masks = (layout.mask_of(tenant.id) for tenant in self.tenants)
        return self.with_masks(
            (int(layout.ddio), tuple(everything if m is None else int(m) for m in masks))
        )

    def with_masks(self, masks: Masks) -> Equilibrium:
        """Return the outcome of DDIO's mask and the tenants' masks."""
        if masks not in self._known:
            self._known[masks] = self._solve(*masks)
        return self._known[masks]

    def _solve(self, ddio: int, masks: tuple[int, ...]) -> Equilibrium:
        """Compute occupancy, then speeds.

        Occupancy is computed as if all packets hit; packets that miss would change little.
        """

        def devices(occupied: float) -> float:
            return self.inbound.lines_per_s * self.inbound.misses(occupied)

        users = [User(ddio, devices)]
        for mask, load in zip(masks, self.loads, strict=True):
            users.append(User(mask, load.fills_per_s))
        ddio_occupied, *occupied = occupancy(users)
        missed = self.inbound.misses(ddio_occupied)
        speeds = tuple(
            load.instructions_per_s(mine, missed)
            for load, mine in zip(self.loads, occupied, strict=True)
        )
        return Equilibrium(tuple(occupied), ddio_occupied, missed, speeds, self.utility(speeds))

    def sample(self, layout: Layout | None, at_s: float, dice: Random, noise: float) -> Sample:
        """Return the counters of a second, each with independent relative noise."""

        def seen(value: float) -> float:
            return value * max(0.0, dice.gauss(1.0, noise)) if noise else value

        outcome = self.under(layout)
        tenants = {}
        parts = zip(self.tenants, self.loads, outcome.occupied, outcome.speeds, strict=True)
        for tenant, load, occupied, speed in parts:
            misses = load.references * load.curve.at(occupied)
            misses += load.packet_lines * outcome.ddio_misses
            tenants[tenant.id] = Rates(
                seen(speed),
                seen(load.cores * FREQUENCY_HZ),
                seen(speed * (load.references + load.packet_lines)),
                seen(speed * misses),
            )
        missed = self.inbound.lines_per_s * outcome.ddio_misses
        return Sample(
            domain=self.inventory.domain.id,
            taken_at_s=at_s,
            interval_s=1.0,
            tenants=tenants,
            ddio_hits_per_s=seen(self.inbound.lines_per_s - missed),
            ddio_misses_per_s=seen(missed),
        )
