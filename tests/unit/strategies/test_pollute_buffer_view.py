# SPDX-License-Identifier: Apache-2.0
"""Figures by which the default strategy chooses moves."""

import unittest

from iat_nova.model import DomainInventory, Parameters, PortRates, Priority, Rates, Sample
from iat_nova.strategies import readings
from iat_nova.strategies.pollute_buffer.view import View, saved
from iat_nova.strategies.readings import Look
from tests.unit.build import domain, tenant

CYCLES = 2e9
TENANTS = (
    tenant("io", 1, io=True, priority=Priority.PC),
    tenant("device", 2, devices=("0000:3b:02.1",)),
    tenant("plain", 3),
    tenant("asleep", 4),
)


def view(misses=None, *, floors=None, settled=True, ports=None, memory=None, **ddio):
    """A view of four tenants: `misses` per second of each, with twice as many references."""
    misses = {"io": 1e6, "device": 2e6, "plain": 4e6} if misses is None else misses
    rates = {
        name: Rates(CYCLES, CYCLES, 2 * count, count, memory_bytes_per_s=(memory or {}).get(name))
        for name, count in misses.items()
    }
    sample = Sample(0, 1.0, 1.0, rates, ports=ports or {}, **ddio)
    inventory = DomainInventory(domain(), TENANTS)
    looks = readings.look(TENANTS, sample)
    return View(inventory, Parameters(), sample, looks, floors, settled=settled)


class TestTenants(unittest.TestCase):
    def test_kinds(self):
        """All, those of best effort, and those that read inbound data."""
        found = view()
        self.assertEqual({"io", "device", "plain", "asleep"}, found.ids)
        self.assertEqual({"device", "plain", "asleep"}, found.best_effort)
        self.assertEqual({"io", "device"}, found.readers)
        self.assertIs(False, view(settled=False).settled)
        unless_told = View(found.inventory, found.parameters, found.sample, found.looks)
        self.assertIs(True, unless_told.settled)

    def test_stake(self):
        """The sum over some tenants; who has no reading has none at stake."""
        found = view()
        one, two = (found.stakes[name].misses for name in ("device", "plain"))
        self.assertGreater(one, 0)
        self.assertAlmostEqual(one + two, found.stake(frozenset({"device", "plain", "asleep"})))
        self.assertEqual(0.0, found.stake(frozenset({"asleep"})))

    def test_minimum_speeds(self):
        """A tenant below its minimum has that lack at stake as well."""
        floors = {"plain": Look(2.0, 0.0, 0.0, 0.0)}
        self.assertGreater(view(floors=floors).stakes["plain"].lack, 0)
        self.assertEqual(0.0, view().stakes["plain"].lack)


class TestInbound(unittest.TestCase):
    def test_busy(self):
        """More lines miss than the policy calls low."""
        low = Parameters().threshold_miss_low_per_s
        for misses, busy in ((0.0, False), (low, False), (low + 1, True)):
            with self.subTest(misses=misses):
                found = view(ddio_hits_per_s=9e9, ddio_misses_per_s=misses)
                self.assertEqual((misses, busy), (found.inbound, found.busy))

    def test_packets_missed(self):
        """Lines that missed, of what those with I/O read from memory; at most all."""
        for inbound, expected in ((0.0, 0.0), (1.5e6, 0.5), (3e6, 1.0), (9e6, 1.0)):
            with self.subTest(inbound=inbound):
                found = view(ddio_hits_per_s=1.0, ddio_misses_per_s=inbound)
                self.assertAlmostEqual(expected, found.packets_missed)
        nothing = view({"plain": 4e6}, ddio_hits_per_s=1.0, ddio_misses_per_s=1e6)
        self.assertEqual(0.0, nothing.packets_missed)


class TestTraffic(unittest.TestCase):
    def test_misses(self):
        """Of a tenant that is awake, and of several; none of one asleep."""
        found = view()
        self.assertEqual((4e6, 0.0), (found.misses("plain"), found.misses("asleep")))
        self.assertEqual(5e6, found.fills(frozenset({"io", "plain", "asleep"})))

    def test_hits_save(self):
        """A hundred cycles a hit, as a share of the tenant's cycles."""
        found = view()
        self.assertAlmostEqual(4e6 * 100 / CYCLES, found.hits_save("plain"))
        self.assertEqual(0.0, found.hits_save("asleep"))
        found.looks["plain"].misses_per_s = 9e6  # a mean of several samples may exceed the other
        self.assertEqual(0.0, found.hits_save("plain"))
        found.looks["gone"] = found.looks["io"]
        self.assertEqual(0.0, found.hits_save("gone"))

    def test_bytes(self):
        """Of misses, or as monitored where that is more."""
        for memory, expected in ((None, 4e6 * 64), (1.0, 4e6 * 64), (1e9, 1e9)):
            with self.subTest(memory=memory):
                found = view(memory={"plain": memory})
                self.assertEqual(expected, found.traffic("plain"))
        self.assertEqual(0.0, view().traffic("asleep"))

    def test_brought(self):
        """The share of some ports in all traffic; where one is not counted, of their number."""
        for counted, some, expected in (
            ({"a": 3e6, "b": 1e6}, {"a"}, 0.75),
            ({"a": 3e6, "b": 1e6}, {"b"}, 0.25),
            ({"a": 3e6, "b": 1e6}, {"a", "b"}, 1.0),
            ({"a": 3e6}, {"a"}, 0.5),
            ({"a": 3e6, "b": None}, {"a"}, 0.5),
            ({"a": 0.0, "b": 0.0}, {"a"}, 0.5),
            ({"a": 0.0, "b": 4e6}, {"a"}, 0.0),
            ({"a": 3e6, "b": 1e6, "c": 9e9}, {"a"}, 0.75),
            ({}, {"a"}, 0.5),
        ):
            with self.subTest(counted=counted, some=some):
                ports = {port: PortRates(0, bytes_per_s) for port, bytes_per_s in counted.items()}
                self.assertAlmostEqual(expected, view(ports=ports).brought(some, {"a", "b"}))

    def test_relief(self):
        """The stake of some, by the share of all fills that is kept out, DDIO's included."""
        found = view(ddio_hits_per_s=1.0, ddio_misses_per_s=3e6)
        whom = frozenset({"io"})
        self.assertAlmostEqual(found.stake(whom) * 0.4, found.relief(whom, 4e6))
        self.assertEqual(0.0, view({}).relief(whom, 4e6))

    def test_saved(self):
        """Misses fall with the root of the space."""
        for before, after, expected in ((1, 4, 0.5), (4, 4, 0.0), (0, 4, 1.0), (-1, 4, 1.0)):
            with self.subTest(before=before, after=after):
                self.assertAlmostEqual(expected, saved(before, after))
