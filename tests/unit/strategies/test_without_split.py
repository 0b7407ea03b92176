# SPDX-License-Identifier: Apache-2.0
"""Where no event tells DDIO's hits from misses (AMD): how each strategy decides."""

import dataclasses
import random
import unittest

from iat_nova.experiments.rivals.a4 import layout
from iat_nova.model import (
    CacheDomain,
    Decision,
    DomainInventory,
    Parameters,
    Priority,
    Rates,
    Sample,
    WayMask,
    WayRequest,
    message,
)
from iat_nova.strategies import registry
from iat_nova.strategies.layout import check
from tests.unit.build import tenant

UNCONFINED = WayMask(0)
EPYC = CacheDomain(
    0, tuple(range(8)), 16, 15, sparse_masks=True, ddio_found=UNCONFINED, ddio_counters=False
)
TENANTS = (
    tenant("router", 0, 1, priority=Priority.PC, io=True, ways=WayRequest(1, 2, 16)),
    tenant("db", 2, 3, priority=Priority.PC, ways=WayRequest(1, 2, 16)),
    tenant("batch", 4, 5, ways=WayRequest(1, 2, 16)),
)


class Socket:
    """A load whose devices write much; `reads(ways)`, `keeps(ways)`: misses of router and db.

    `ways` is what devices are confined to, 0 where they fill any.
    """

    def __init__(self, reads, keeps, domain=EPYC):
        self.reads, self.keeps = reads, keeps
        self.inventory = DomainInventory(domain, TENANTS)
        self.dice = random.Random("no split")

    def run(self, name: str, seconds: int = 60) -> list[Decision]:
        """Let a strategy decide; every layout is one that the hardware takes."""
        strategy = registry.make(name, Parameters())
        state = strategy.initial(self.inventory, 0.0)
        ways, found = 0, []
        for second in range(1, seconds):
            sample = Sample(0, float(second), 1.0, self.rates(ways), ddio_writes_per_s=20e6)
            state, decision = strategy.step(state, self.inventory, sample)
            check.check(self.inventory, decision.layout)
            ways = decision.layout.ddio.count
            found.append(decision)
        return found

    def rates(self, ways: int) -> dict[str, Rates]:
        """Return what the tenants did; each miss costs 100 cycles."""
        misses = {"router": self.reads(ways), "db": self.keeps(ways), "batch": 1e6}
        rates = {}
        for name, one in misses.items():
            instructions = (4e9 - 100 * one) * self.dice.gauss(1, 0.003)
            rates[name] = Rates(instructions, 4e9, instructions * 0.02, one)
        return rates


def ddio(decisions: list[Decision]) -> list[int]:
    """Return how many ways were devices' own, in the order of time."""
    return [decision.layout.ddio.count for decision in decisions]


class NoSplit(unittest.TestCase):
    """AMD, io_alloc disabled as found."""

    def test_who_never_confines_devices(self) -> None:
        """IAT's machine needs hits and misses, A4 never moves DDIO: they are left as found."""
        for name in registry.BUILT_IN:
            if name == "pollute-buffer":
                continue
            with self.subTest(name):
                decisions = Socket(lambda ways: 5e6, lambda ways: 9e6).run(name)
                self.assertEqual({0}, set(ddio(decisions)))
                tenants = {one for one in decisions[-1].layout.groups for one in one.tenants}
                self.assertEqual({"router", "db", "batch"}, tenants)
                masks = [group.mask for group in decisions[-1].layout.groups]
                self.assertTrue(all(mask.is_contiguous for mask in masks), masks)
                self.assertFalse(decisions[-1].layout.overlaps_ddio)

    def test_io_tenants_ask_for_ways_as_others_do(self) -> None:
        """Without I/O's counters IAT serves whoever's own misses rose, the I/O tenant too."""
        grown = Socket(lambda ways: 1e6, lambda ways: 1e6)
        strategy = registry.make("iat", Parameters())
        state = strategy.initial(grown.inventory, 0.0)
        given = 0
        for second in range(1, 12):
            if second == 6:
                grown.reads = lambda ways: 12e6
            sample = Sample(0, float(second), 1.0, grown.rates(0), ddio_writes_per_s=20e6)
            state, decision = strategy.step(state, grown.inventory, sample)
            given = max(given, decision.allocation.tenants["router"])
        self.assertEqual(3, given)

    def test_room_of_low_priority(self) -> None:
        """A4's is all above the lowest two ways: none is DDIO's."""
        self.assertEqual(0xFFFC, layout.room(EPYC))

    def test_confining_pays(self) -> None:
        """The pollute buffer confines devices by trial and keeps what who does not read gains."""
        decisions = Socket(lambda ways: 2e6, lambda ways: 2e6 if ways else 12e6).run(
            "pollute-buffer"
        )
        self.assertEqual(0, ddio(decisions)[0])
        self.assertGreaterEqual(ddio(decisions)[-1], 2)
        reasons = [step.reason for one in decisions for step in one.steps]
        kept = [
            one.values["cause"].values["gain"]
            for one in reasons
            if one.code == "kept" and one.values["move"] == message("ddio-ways", ways=2)
        ]
        self.assertTrue(kept and min(kept) > 0.0, reasons)

    def test_confining_harms(self) -> None:
        """Where the reader loses more than others gain, devices fill any way again."""
        decisions = Socket(lambda ways: 16e6 if ways else 2e6, lambda ways: 12e6).run(
            "pollute-buffer"
        )
        self.assertIn(2, ddio(decisions))
        self.assertEqual(0, ddio(decisions)[-1])

    def test_nothing_is_tried_where_it_is_not_known_what_devices_write(self) -> None:
        """No amd_df: a host without I/O looks the same, and is left alone."""
        socket = Socket(lambda ways: 2e6, lambda ways: 12e6)
        strategy = registry.make("pollute-buffer", Parameters())
        state = strategy.initial(socket.inventory, 0.0)
        for second in range(1, 60):
            sample = Sample(0, float(second), 1.0, socket.rates(0))
            state, decision = strategy.step(state, socket.inventory, sample)
            self.assertEqual(0, decision.layout.ddio)

    def test_a_knob_that_cannot_be_had(self) -> None:
        """Linux before 6.19: the same, and devices are never confined."""
        domain = dataclasses.replace(EPYC, ddio_found=None, ddio_resizable=False)
        for name in registry.BUILT_IN:
            with self.subTest(name):
                socket = Socket(lambda ways: 2e6, lambda ways: 12e6, domain)
                self.assertEqual(1, len(set(ddio(socket.run(name)))))
