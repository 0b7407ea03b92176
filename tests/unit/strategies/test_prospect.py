# SPDX-License-Identifier: Apache-2.0
"""What enforcing could give critical guests: the rule and its bound."""

import math
import unittest

from iat_nova.model import DeviceModel, Priority, TenantKind, WayRequest
from iat_nova.strategies import prospect
from iat_nova.strategies.prospect import CAME, Prospect
from tests.unit import frozen
from tests.unit.build import tenant
from tests.unit.strategies.test_pressure import BATCH, CYCLES, DB, host, rates, sample

WEB = tenant("web", 4, priority=Priority.PC, io=True, model=DeviceModel.AGGREGATION)
SWITCH = tenant("switch", 5, priority=Priority.STACK, kind=TenantKind.STACK, io=True)
STALL = 100.0  # cycles of a miss, for the likely prospect


class ProspectTest(unittest.TestCase):
    def found(self, measured, *tenants, **more):
        return prospect.prospects(host(*(tenants or (DB, BATCH))), sample(measured, **more))

    def likely(self, stalled, kept, own=None, open_share=1.0):
        """The rule, by shares: of fills that stay, of the tenant's own fills, of open ways."""
        relief = (1 - math.sqrt(kept / open_share)) * (1 - (kept if own is None else own))
        return CAME * (1 / (1 - stalled * relief) - 1)

    def test_fills_of_best_effort_guests(self) -> None:
        """Three of four fills are others': without these, half of the misses go."""
        found = self.found({"db": rates(4e6), "batch": rates(12e6)})
        self.assertEqual({"db"}, set(found))  # best-effort guests gain nothing
        self.assertAlmostEqual(self.likely(4e6 * STALL / CYCLES, 0.25), found["db"].likely)
        self.assertAlmostEqual(1 / (1 - 0.4) - 1, found["db"].most)
        self.assertEqual((1, 1), (found["db"].known, found["db"].guests))

    def test_fills_of_devices(self) -> None:
        """Lines that devices write count like those of best-effort guests; uncounted hits too."""
        for inbound in ({"ddio_misses_per_s": 12e6}, {"ddio_writes_per_s": 12e6}):
            with self.subTest(**inbound):
                found = self.found({"db": rates(4e6)}, DB, **inbound)["db"]
                self.assertAlmostEqual(self.likely(4e6 * STALL / CYCLES, 0.25), found.likely)

    def test_a_switch_in_the_way(self) -> None:
        """A guest behind a switch polls without misses while the switch is stalled."""
        measured = {"web": rates(0.0), "switch": rates(4e6), "batch": rates(12e6)}
        found = self.found(measured, WEB, SWITCH, BATCH)["web"]
        self.assertAlmostEqual(self.likely(4e6 * STALL / CYCLES, 0.25), found.likely)
        own = tenant("web", 4, priority=Priority.PC, io=True, model=DeviceModel.SLICING)
        found = self.found(measured, own, SWITCH, BATCH)["web"]
        self.assertEqual((0.0, 0.0), (found.likely, found.most))

    def test_misses_that_must_overlap(self) -> None:
        """The cost of a miss is not known: the guest counts, and is not among the known ones."""
        found = self.found({"db": rates(25e6, references=1e8), "batch": rates(12e6)})["db"]
        self.assertEqual((0, 1), (found.known, found.guests))
        self.assertTrue(0.0 < found.likely < found.most)

    def test_who_has_a_prospect(self) -> None:
        """Critical guests that are awake, alone or together; no switch, and no host's class."""
        pool = tenant("pool", 6, priority=Priority.PC, kind=TenantKind.POOL)
        asleep = tenant("asleep", 7, priority=Priority.PC)
        here = tenant("host", 8, priority=Priority.PC, kind=TenantKind.HOST)
        awake = (DB, BATCH, SWITCH, pool, here)
        measured = {one.id: rates(4e6) for one in awake}
        self.assertEqual({"db", "pool"}, set(self.found(measured, *awake, asleep)))

    def test_a_way_is_open_to_each(self) -> None:
        """Also where others have all ways for themselves, whoever they are."""
        full = WayRequest(6, 6, promised=6)
        for names in (("a", "b"), ("x", "y"), ("a", "x")):
            owners = (tenant(one, 3 + n, ways=full) for n, one in enumerate(names))
            found = self.found({"db": rates(4e6), "batch": rates(4e6)}, DB, BATCH, *owners)
            expected = self.likely(0.2, 0.5, open_share=1 / 11)
            self.assertAlmostEqual(expected, found["db"].likely)

    def test_nothing_to_take(self) -> None:
        """Without best-effort guests and devices, or beside idle ones, masks give nothing."""
        other = tenant("other", 3, priority=Priority.PC)
        measured = {"db": rates(4e6), "other": rates(9e6)}
        self.assertEqual(0.0, self.found(measured, DB, other)["db"].likely)
        self.assertEqual(0.0, self.found({"db": rates(4e6), "batch": rates(0.0)})["db"].likely)

    def test_a_guest_that_does_not_miss(self) -> None:
        """It gains nothing, whatever others fill."""
        found = self.found({"db": rates(0.0), "batch": rates(12e6)})["db"]
        self.assertEqual((0.0, 0.0), (found.likely, found.most))

    def test_own_fills(self) -> None:
        """A guest that fills most itself evicts its own lines: other critical guests gain more."""
        other = tenant("other", 3, priority=Priority.PC)
        measured = {"db": rates(1e6), "other": rates(7e6), "batch": rates(8e6)}
        found = self.found(measured, DB, other, BATCH)
        for name, misses in (("db", 1e6), ("other", 7e6)):
            expected = self.likely(misses * STALL / CYCLES, 0.5, own=misses / 16e6)
            self.assertAlmostEqual(expected, found[name].likely)

    def test_closed_ways(self) -> None:
        """Guaranteed or held ways of another cost a guest room, even if nothing else changes."""
        measured = {"db": rates(4e6), "owner": rates(4e6), "batch": rates(8e6)}
        for ways, has in (
            (WayRequest(4, 4, promised=4), 1.0),
            (WayRequest(4, 4, 4, held=True), 4 / 11),
        ):
            owner = tenant("owner", 3, priority=Priority.PC, ways=ways)
            found = self.found(measured, DB, owner, BATCH)
            expected = self.likely(0.2, 0.5, own=0.25, open_share=7 / 11)
            self.assertAlmostEqual(expected, found["db"].likely)
            of_owner = self.likely(0.2, 0.5, own=0.25, open_share=has)
            self.assertAlmostEqual(of_owner, found["owner"].likely)
        found = self.found({**measured, "batch": rates(0.0)}, DB, owner, BATCH)
        self.assertLess(found["db"].likely, 0.0)
        self.assertLess(found["owner"].likely, 0.0)

    def test_more_best_effort_more_to_gain(self) -> None:
        """The estimate grows with what best-effort guests fill."""
        gains = [
            self.found({"db": rates(4e6), "batch": rates(load)})["db"].likely
            for load in (1e6, 4e6, 16e6)
        ]
        self.assertEqual(sorted(gains), gains)
        self.assertLess(gains[0], gains[-1])

    def test_together(self) -> None:
        """Means are geometric."""
        one, two = Prospect(0.21, 0.44, 1, 1), Prospect(0.1, 1.0, 0, 1)
        found = prospect.together([one, two])
        self.assertAlmostEqual(math.sqrt(1.21 * 1.1) - 1, found.likely)
        self.assertAlmostEqual(math.sqrt(1.44 * 2.0) - 1, found.most)
        self.assertEqual((1, 2), (found.known, found.guests))
        self.assertIsNone(prospect.together([]))
        slower = prospect.together(2 * [Prospect(-0.1, 0.0, 1, 1)])
        self.assertAlmostEqual(-0.1, slower.likely)


class ValuesTest(unittest.TestCase):
    def test_frozen(self):
        """No value can be changed, nor get another attribute."""
        self.assertEqual([], frozen.changeable(prospect))
        self.assertTrue(frozen.values(prospect))
