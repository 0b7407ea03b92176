# SPDX-License-Identifier: Apache-2.0
"""What a tenant has shown so far, and what it loses against that."""

import dataclasses
import unittest

from iat_nova.strategies import readings
from tests.unit.strategies.test_pressure import BATCH, CYCLES, DB, host, rates, sample


class FollowTest(unittest.TestCase):
    """What is remembered of a tenant: means of eight samples, and the fastest of them."""

    def follow(self, before, *seen, inventory=None):
        for one in seen:
            before = readings.follow(before, inventory or host(DB), sample({"db": one}))
        return before

    def test_means(self) -> None:
        """Each sample counts as one of all, from the eighth on as an eighth."""
        bests: dict[str, readings.Best] = {}
        for number in range(1, 8):
            bests = self.follow(bests, rates(4e6 * number))
            self.assertEqual((number, None), (bests["db"].samples, bests["db"].best))
            self.assertAlmostEqual(1e-3 * (number + 1), bests["db"].work[1])
        (first,) = self.follow(bests, rates(32e6)).values()
        self.assertEqual((8, first.work), (first.samples, first.best))
        for expected, found in zip((0.01, 0.009, 1.0), first.work, strict=True):
            self.assertAlmostEqual(expected, found)
        (slower,) = self.follow({"db": first}, rates(12.0e6, 10e6, ipc=0.5)).values()
        self.assertEqual((8, first.best), (slower.samples, slower.best))
        for expected, found in zip((0.01, 0.009375, 0.9375), slower.work, strict=True):
            self.assertAlmostEqual(expected, found)
        (faster,) = self.follow({"db": slower}, rates(12.0e6, 40e6, ipc=2.0)).values()
        self.assertEqual(faster.work, faster.best)

    def test_another_load(self) -> None:
        """References an instruction that differ by more than a quarter begin anew."""
        (known,) = self.follow({}, *[rates(4e6)] * 8).values()
        for references, anew in ((20e6, False), (26e6, False), (27e6, True), (14.9e6, True)):
            with self.subTest(references=references):
                (found,) = self.follow({"db": known}, rates(4e6, references)).values()
                self.assertEqual(1 if anew else 8, found.samples)
                self.assertEqual(anew, found.best is None)

    def test_a_load_that_drifts(self) -> None:
        """Once the mean is another load than the best one's, the best is forgotten."""
        bests = self.follow({}, *[rates(4e6, ipc=2.0)] * 8)
        best = bests["db"].best
        for _ in range(40):
            now = bests["db"].work[0]
            bests = self.follow(bests, rates(4e6, now * CYCLES * 1.2))
        self.assertNotEqual(best, bests["db"].best)

    def test_who_is_remembered(self) -> None:
        """A tenant that sleeps, or whose counters stand, keeps what it has shown."""
        known = self.follow({}, rates(4e6))
        asleep = dataclasses.replace(rates(4e6), cycles_per_s=1e6)
        still = dataclasses.replace(rates(4e6), instructions_per_s=0.0)
        self.assertEqual(known, self.follow(known, asleep, still))
        self.assertEqual(known, readings.follow(known, host(DB), sample({})))
        self.assertEqual({}, readings.follow(known, host(BATCH), sample({})))
        reads = dataclasses.replace(DB, io=True)
        self.assertEqual({}, self.follow({}, rates(4e6), inventory=host(reads)))

    def test_shown(self) -> None:
        """The smaller of the speed that is lost and of what the additional misses stall."""
        for work, best, loss in (
            ((0.01, 0.002, 0.9), (0.01, 0.001, 1.0), 0.1),
            ((0.01, 0.0011, 0.5), (0.01, 0.001, 1.0), 0.01),
            ((0.01, 0.002, 1.0), (0.01, 0.001, 1.0), None),
            ((0.01, 0.001, 0.9), (0.01, 0.001, 1.0), None),
            ((0.01, 0.9, 0.01), (0.01, 0.001, 1.0), 0.95),
            ((0.01, 0.002, 0.9996), (0.01, 0.001, 1.0), None),  # less than is written
            ((0.01, 0.002, 0.9), None, None),
        ):
            with self.subTest(work=work, best=best):
                found = readings.shown({"db": readings.Best(work, 8, best)})
                self.assertEqual({} if loss is None else {"db": loss}, found)


class ShownTest(unittest.TestCase):
    """A tenant shows by its own past what it loses."""

    def follow(self, *phases, inventory=None):
        """Feed each phase's rates for its number of samples."""
        inventory, bests = inventory or host(DB, BATCH), {}
        for count, measured in phases:
            for _ in range(count):
                bests = readings.follow(bests, inventory, sample({"db": measured}))
        return readings.shown(bests)

    def test_slower_than_before_with_more_misses(self) -> None:
        """IPC 1.0 with few misses, then 0.8 with many: a fifth is lost, whoever is to blame."""
        good, bad = rates(1e6, ipc=1.0), rates(8e6, references=16e6, ipc=0.8)
        self.assertAlmostEqual(0.2, self.follow((20, good), (40, bad))["db"], places=2)
        self.assertEqual({}, self.follow((20, bad), (40, good)))

    def test_a_recorded_loss_has_three_digits(self) -> None:
        """More would only be noise, and bytes in the history."""
        lost = self.follow((20, rates(1e6, ipc=0.9)), (40, rates(8e6, references=14e6, ipc=0.7)))
        self.assertEqual({"db": 0.221}, lost)

    def test_slower_without_more_misses_is_not_the_cache(self) -> None:
        good, slow = rates(1e6, ipc=1.0), rates(0.8e6, references=16e6, ipc=0.8)
        self.assertEqual({}, self.follow((20, good), (40, slow)))

    def test_another_load_shows_nothing(self) -> None:
        """Twice the references an instruction are another load, whose best is not known."""
        good, other = rates(1e6, ipc=1.0), rates(8e6, references=40e6, ipc=0.8)
        self.assertEqual({}, self.follow((20, good), (40, other)))

    def test_a_single_fast_sample_is_chance(self) -> None:
        good, bad = rates(0.1e6, ipc=2.0, references=30e6), rates(8e6, references=16e6, ipc=0.8)
        self.assertEqual({}, self.follow((1, good), (40, bad)))

    def test_a_polling_tenant_shows_nothing(self) -> None:
        inventory = host(dataclasses.replace(DB, io=True))
        good, bad = rates(1e6, ipc=1.0), rates(8e6, references=16e6, ipc=0.8)
        self.assertEqual({}, self.follow((20, good), (40, bad), inventory=inventory))

    def test_a_tenant_that_left_is_forgotten(self) -> None:
        bests = readings.follow({}, host(DB), sample({"db": rates(1e6)}))
        self.assertEqual({"db"}, set(bests))
        self.assertEqual({}, readings.follow(bests, host(BATCH), sample({})))
        self.assertEqual(bests, readings.follow(bests, host(DB), sample({})))
