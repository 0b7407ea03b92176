# SPDX-License-Identifier: Apache-2.0
"""What enforcing could give critical guests: the rule, its bounds, and what is not known."""

import math
import unittest

from iat_nova.model import Priority
from iat_nova.strategies import pressure, prospect
from iat_nova.strategies.prospect import Prospect
from tests.unit.build import tenant
from tests.unit.strategies.test_pressure import BATCH, CYCLES, DB, everywhere, host, rates, sample

WEB = tenant("web", 4, priority=Priority.PC, io=True)
STALL = 100.0  # cycles of a miss, for the likely prospect


class ProspectTest(unittest.TestCase):
    def found(self, measured, *tenants, shown=None, **more):
        inventory = host(*(tenants or (DB, BATCH)))
        seen = sample(measured, **more)
        return prospect.prospects(inventory, seen, everywhere(inventory), shown or {})

    def test_ways_of_best_effort_guests(self) -> None:
        """A quarter of the LLC grows by three quarters less a way; a fifth missed with it."""
        found = self.found({"db": rates(4e6), "batch": rates(12e6)})
        self.assertEqual({"db"}, set(found))  # best-effort guests gain nothing
        ways = host(DB).domain.ways
        grown = (0.25 + 0.75 - 1 / ways) / 0.25
        saved = 4e6 * STALL / CYCLES * (1 - 0.2 ** (grown - 1))
        self.assertAlmostEqual(1 / (1 - saved) - 1, found["db"].likely)
        self.assertAlmostEqual(1 / (1 - 0.4) - 1, found["db"].most)
        self.assertEqual((0.0, 1, 1), (found["db"].least, found["db"].known, found["db"].guests))

    def test_one_rule_for_what_a_guest_loses_and_could_gain(self) -> None:
        """With the whole LLC but a way a guest gains nearly its loss, and never more."""
        inventory = host(DB, BATCH)
        masks = everywhere(inventory)
        for misses, others in ((8e6, 8e6), (4e6, 12e6), (1e6, 3e6)):
            seen = sample({"db": rates(misses), "batch": rates(others)})
            loss = pressure.losses(inventory, seen, masks, {})["db"].likely
            gain = prospect.prospects(inventory, seen, masks, {})["db"].likely
            saved = 1 - 1 / (1 + gain)
            with self.subTest(misses=misses):
                self.assertLessEqual(saved, loss)
                self.assertGreater(saved, 0.85 * loss)

    def test_misses_that_must_overlap(self) -> None:
        """What a miss costs is not known, with I/O or without: bounds alone, as of the loss."""
        measured = {"db": rates(25e6, references=1e8), "web": rates(25e6), "batch": rates(12e6)}
        found = self.found(measured, DB, WEB, BATCH)
        self.assertEqual([None, None], [found["db"].likely, found["web"].likely])

    def test_nothing_to_take(self) -> None:
        """Without best-effort guests, or beside an idle one, masks give nothing."""
        other = tenant("other", 3, priority=Priority.PC)
        self.assertEqual(
            0.0, self.found({"db": rates(4e6), "other": rates(9e6)}, DB, other)["db"].likely
        )
        self.assertEqual(0.0, self.found({"db": rates(4e6), "batch": rates(0.0)})["db"].likely)

    def test_a_guest_that_does_not_miss(self) -> None:
        """It gains nothing, whatever others fill."""
        found = self.found({"db": rates(0.0), "batch": rates(12e6)})["db"]
        self.assertEqual((0.0, 0.0, 0.0), (found.least, found.likely, found.most))

    def test_streams_are_not_known(self) -> None:
        """A guest that hardly reuses lines has bounds alone; one with I/O has an estimate."""
        measured = {"db": rates(12e6), "web": rates(12e6), "batch": rates(12e6)}
        found = self.found(measured, DB, WEB, BATCH)
        self.assertIsNone(found["db"].likely)
        self.assertEqual(0, found["db"].known)
        self.assertGreater(found["db"].most, 0.0)
        self.assertGreater(found["web"].likely, 0.0)

    def test_what_a_guest_has_shown_is_the_least(self) -> None:
        """It was faster under the same load: this much is no guess."""
        found = self.found({"db": rates(4e6), "batch": rates(1e5)}, shown={"db": 0.2})["db"]
        self.assertAlmostEqual(0.25, found.least)
        self.assertGreaterEqual(found.likely, found.least)

    def test_more_best_effort_more_to_gain(self) -> None:
        """The estimate grows with what best-effort guests fill."""
        gains = [
            self.found({"db": rates(4e6), "batch": rates(load)})["db"].likely
            for load in (1e6, 4e6, 16e6)
        ]
        self.assertEqual(sorted(gains), gains)
        self.assertLess(gains[0], gains[-1])

    def test_together(self) -> None:
        """Means are geometric; in the likely one a guest without an estimate counts its least."""
        one, two = Prospect(0.0, 0.21, 0.44, 1, 1), Prospect(0.1, None, 1.0, 0, 1)
        found = prospect.together([one, two])
        self.assertAlmostEqual(math.sqrt(1.21 * 1.1) - 1, found.likely)
        self.assertTrue(found.least <= found.likely <= found.most)
        self.assertAlmostEqual(math.sqrt(1.44 * 2.0) - 1, found.most)
        self.assertEqual((1, 2), (found.known, found.guests))
        self.assertIsNone(prospect.together([two]).likely)
        self.assertIsNone(prospect.together([]))
