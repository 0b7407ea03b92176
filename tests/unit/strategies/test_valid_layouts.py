# SPDX-License-Identifier: Apache-2.0
"""What holds on every host: whatever changes, the hardware can take each layout of the default."""

from __future__ import annotations

import random
import unittest

from iat_nova.model import (
    BandwidthControl,
    CacheDomain,
    DomainInventory,
    Layout,
    Parameters,
    Priority,
    Rates,
    Sample,
    Tenant,
    TenantKind,
    WayMask,
    WayRequest,
)
from iat_nova.strategies.api import decide
from iat_nova.strategies.pollute_buffer import masks
from iat_nova.strategies.pollute_buffer.plan import Own, Plan
from iat_nova.strategies.pollute_buffer.strategy import PolluteBuffer
from tests.unit.build import tenant

HISTORIES = 80
STEPS = 60
PRIORITIES = (Priority.PC, Priority.BE, Priority.BE)


class Host:
    """A host whose guests, guarantees, holds and found DDIO ways change at random."""

    def __init__(self, seed: int) -> None:
        self.dice = dice = random.Random(seed)
        self.ways = dice.choice((8, 11, 12, 16))
        self.classes = dice.choice((4, 6, 15, 16))
        self.least = dice.choice((1, 1, 2))
        coerced = dice.choice((0, 0x3 << (self.ways - 2)))
        self.coerced, self.reserved = WayMask(coerced), WayMask(dice.choice((0, 0, 0x1, 0x3)))
        self.bandwidth = dice.choice((None, BandwidthControl(10, 10, 100, percent=True)))
        self.ddio: int | None = dice.choice((None, 0, 2, 2))
        self.parameters = Parameters(
            ddio_ways_min=2, ddio_ways_max=dice.choice((2, 4, 6)), backoff_initial_s=3.0
        )
        self.guests: dict[str, Tenant] = {}
        self.number = 0

    def change(self) -> None:
        """Have a guest come, leave or change, or another program set DDIO's ways."""
        dice, event = self.dice, self.dice.random()
        if event < 0.5 and len(self.guests) < 9:
            self.number += 1
            self.guests[f"g{self.number}"] = self._guest(f"g{self.number}")
        elif event < 0.7 and self.guests:
            del self.guests[dice.choice(sorted(self.guests))]
        elif event < 0.85 and self.guests:
            changed = dice.choice(sorted(self.guests))
            self.guests[changed] = self._guest(changed)
        elif self.ddio:
            self.ddio = dice.randint(1, self.ways // 2 + 1)

    def _guest(self, name: str) -> Tenant:
        dice = self.dice
        kept = dice.choice((0, 0, 1, 2, 3, 5))
        held = bool(kept) and dice.random() < 0.2
        most = kept if held else dice.choice((self.ways, self.ways, max(kept, 2)))
        promised = 0 if held else kept
        ways = WayRequest(max(kept, 1), max(kept, 1), most, promised=promised, held=held)
        priority = dice.choice(PRIORITIES)
        return tenant(name, *range(4), priority=priority, io=dice.random() < 0.4, ways=ways)

    def inventory(self) -> DomainInventory:
        """Return the present guests, the stack and the host's own processes."""
        found = None if self.ddio is None else WayMask.span(self.ways - self.ddio, self.ddio)
        domain = CacheDomain(
            0,
            tuple(range(64)),
            self.ways,
            self.classes,
            min_ways=self.least,
            coerced_ways=self.coerced,
            reserved_ways=self.reserved,
            ddio_found=found,
            bandwidth=self.bandwidth,
        )
        others = (
            tenant("vswitch", 60, kind=TenantKind.STACK, priority=Priority.STACK, io=True),
            tenant("host", 61, kind=TenantKind.HOST),
        )
        return DomainInventory(domain, (*self.guests.values(), *others))

    def sample(self, at_s: float, inventory: DomainInventory) -> Sample:
        """Return rates that make most moves promise a gain, and many trials pay."""
        dice, rates = self.dice, {}
        for one in inventory.tenants:
            cycles = 2e9 * len(one.cpus)
            references = cycles * 0.02
            misses = references * dice.uniform(0.3, 0.6)
            rates[one.id] = Rates(cycles * dice.uniform(0.8, 1.2), cycles, references, misses)
        return Sample(0, at_s, 1.0, rates, dice.uniform(1e6, 9e6), dice.uniform(2e6, 9e6))


class ValidLayoutsTest(unittest.TestCase):
    def test_hardware_can_take_every_layout(self) -> None:
        """`decide` raises on a mask without ways, too few classes, or a tenant without a mask."""
        written = 0
        for seed in range(HISTORIES):
            host, state, before = Host(seed), None, None
            strategy = PolluteBuffer(host.parameters)
            inventory = host.inventory()
            for step in range(STEPS):
                if step % 5 == 0:
                    host.change()
                    inventory = host.inventory()
                sample = host.sample(100.0 + step, inventory)
                with self.subTest(seed=seed, step=step, domain=inventory.domain):
                    _, state, decision = decide(strategy, state, inventory, sample, 100.0 + step)
                written += decision.layout != before
                self.keeps_maxima(inventory, state.in_force, decision.layout)
                self.keeps_guarantees(inventory, state.in_force, decision.layout)
                before = decision.layout
        self.assertGreater(written, HISTORIES * STEPS // 5)  # layouts do change

    def keeps_maxima(self, inventory: DomainInventory, plan: Plan, layout: Layout) -> None:
        """No guest fills more ways than its maximum, as far as classes and tied ways allow."""
        domain = inventory.domain
        for one in inventory.tenants if masks.has_classes(inventory, plan) else ():
            mask = layout.mask_of(one.id)
            assert mask is not None
            if not (one.ways.held or mask & domain.coerced_ways):
                most = max(one.ways.max, domain.min_ways)
                self.assertLessEqual(mask.count, most, (one.id, plan, layout))

    def keeps_guarantees(self, inventory: DomainInventory, plan: Plan, layout: Layout) -> None:
        """Own ways are filled by their owner alone, and no guarantee for which there is room lacks.

        A guarantee is lent where the plan says so.
        """
        filled = {one.id: layout.mask_of(one.id) or WayMask(0) for one in inventory.tenants}
        for own in plan.own:
            others = layout.ddio
            for name, mask in filled.items():
                others = WayMask(others | (mask if name != own.tenant else 0))
            alone = WayMask(filled[own.tenant] & ~others)
            self.assertGreaterEqual(alone.count, own.ways, (own, plan, layout))
        least = inventory.domain.min_ways
        kept = [Own(t.id, max(t.ways.kept, least)) for t in inventory.tenants if t.ways.kept]
        room = masks.fits(inventory.domain, kept, plan.ddio)
        if room and len(kept) + masks.CLASSES_SHARED < inventory.domain.classes:
            lent = {one.tenant for one in kept} - plan.owners
            self.assertLessEqual(lent, {*plan.lenders}, (plan, layout))
