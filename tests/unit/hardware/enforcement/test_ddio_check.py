# SPDX-License-Identifier: Apache-2.0
"""A knob without effect is found out within the dwell time, one that works is never accused."""

import dataclasses
import random
import unittest

from iat_nova.experiments.bench.fake import SKYLAKE
from iat_nova.hardware.ddio.effect import DWELL_S, DdioCheck
from iat_nova.model import (
    DomainInventory,
    Parameters,
    Priority,
    Rates,
    Sample,
    WayMask,
)
from iat_nova.strategies.iat.controller import Controller
from iat_nova.strategies.iat.presets import PRESETS
from tests.unit.build import tenant


class Plant:
    """DDIO under a steady load: `share(ways)` of the writes miss, with noise."""

    def __init__(self, share, traffic_per_s=20e6, noise=0.005, seed=1) -> None:
        self.share, self.traffic_per_s, self.noise = share, traffic_per_s, noise
        self.dice = random.Random(seed)
        self.effect = DdioCheck(1e6)
        self.at_s = 0.0
        self.ways = 2
        self.verdicts = []
        self.readers = {"a", "b"}

    def sample(self, traffic: float, share: float) -> Sample:
        """Return what is counted now."""
        return Sample(0, self.at_s, 1.0, {}, traffic * (1 - share), traffic * share)

    def run(self, seconds: int, grow_to: int = 0) -> None:
        """Let seconds pass; the controller gives a way each until `grow_to`."""
        for _ in range(seconds):
            share = min(1.0, max(0.0, self.share(self.ways) + self.dice.gauss(0, self.noise)))
            traffic = self.traffic_per_s * (1 + self.dice.gauss(0, 0.02))
            self.at_s += 1.0
            sample = self.sample(traffic, share)
            self.ways = min(self.ways + 1, grow_to) if grow_to else self.ways
            mask = WayMask.span(11 - self.ways, self.ways)
            verdict = self.effect.look(sample, mask, self.readers)
            if verdict is not None:
                self.verdicts.append((self.at_s, verdict))


GUEST = tenant("web", 4, id="u/1", priority=Priority.PC, io=True)


class ClosedLoop(unittest.TestCase):
    """The real controller on a socket whose DDIO does not follow its knob, and on one that does."""

    def run_loop(self, share_of, seed, seconds=90):
        """Return when a verdict came, and DDIO's ways second by second."""
        dice = random.Random(seed)
        inventory = DomainInventory(SKYLAKE, (GUEST,))
        controller = Controller(Parameters(), PRESETS["iat"])
        state = controller.initial(inventory, 0.0)
        effect, ways, found_s = DdioCheck(1e6), [2], None
        for second in range(1, seconds):
            burst = second > 10
            share = share_of(ways[-1]) + dice.gauss(0, 0.003)
            traffic = (20e6 if burst else 1e6) * (1 + dice.gauss(0, 0.01))
            rates = Rates(2e9, 2e9, 3e6, 1e5)
            sample = Sample(
                0, float(second), 1.0, {GUEST.id: rates}, traffic * (1 - share), traffic * share
            )
            state, decision = controller.step(state, inventory, sample)
            ways.append(decision.layout.ddio.count)
            verdict = effect.look(sample, decision.layout.ddio)
            if verdict is not None:
                found_s = second
                domain = dataclasses.replace(SKYLAKE, ddio_resizable=False)
                inventory = dataclasses.replace(inventory, domain=domain)
        return found_s, ways

    def test_without_effect(self) -> None:
        """Found out; from then on the controller has DDIO where it was found, and lets it be."""
        for seed in range(10):
            found_s, ways = self.run_loop(lambda ways: 0.4, seed)
            self.assertIsNotNone(found_s, ways)
            self.assertEqual({2}, set(ways[found_s + 2 :]))

    def test_with_effect(self) -> None:
        """Never accused."""
        for seed in range(10):
            found_s, ways = self.run_loop(lambda ways: 0.4 - 0.04 * (ways - 2), seed)
            self.assertIsNone(found_s)
            self.assertGreater(max(ways), 3)


class Readers(Plant):
    """The same where hits and misses cannot be told apart: the readers' misses tell instead."""

    def sample(self, traffic: float, share: float) -> Sample:
        """Half of the misses are the readers'; each of two has a part."""
        rates = {name: Rates(2e9, 2e9, 9e6, traffic * share / 2) for name in ("a", "b")}
        other = {"c": Rates(2e9, 2e9, 9e6, 5e6)}
        return Sample(0, self.at_s, 1.0, rates | other, ddio_writes_per_s=traffic)


class ReadersTest(unittest.TestCase):
    """AMD: no event tells which lines hit."""

    def test_a_knob_without_effect(self) -> None:
        """It is told whose misses did not move."""
        for seed in range(50):
            plant = Readers(lambda ways: 0.4, seed=seed)
            plant.run(5)
            plant.run(4, grow_to=6)
            plant.run(60)
            ((_, verdict),) = plant.verdicts
            self.assertTrue(verdict.of_readers)
            for share in (verdict.share_before, verdict.share_after):
                self.assertAlmostEqual(0.4, share, delta=0.05)

    def test_a_knob_that_works(self) -> None:
        """Never accused."""
        for seed in range(50):
            plant = Readers(lambda ways: 0.4 - 0.03 * (ways - 2), seed=seed)
            plant.run(5)
            plant.run(40, grow_to=6)
            self.assertEqual([], plant.verdicts)

    def test_to_be_confined_is_no_growth(self) -> None:
        """From any way into two of them: with that nothing can be compared."""
        plant = Readers(lambda ways: 0.4)
        plant.ways = 0
        plant.run(5)
        plant.run(4, grow_to=2)
        plant.run(60)
        self.assertEqual([], plant.verdicts)

    def test_a_reader_that_is_not_counted(self) -> None:
        """A part of the misses is no measure."""
        plant = Readers(lambda ways: 0.4)
        plant.readers = {"a", "b", "asleep"}
        plant.run(5)
        plant.run(60, grow_to=6)
        self.assertEqual([], plant.verdicts)


class Both(Plant):
    """Hits and misses are told apart, and the readers are counted: `read(ways)` misses a line."""

    def __init__(self, share, read, seed=1) -> None:
        super().__init__(share, seed=seed)
        self.read = read

    def sample(self, traffic: float, share: float) -> Sample:
        """Each of two readers has half, with noise of its own."""
        read = [self.read(self.ways) * traffic / 2 * (1 + self.dice.gauss(0, 0.02)) for _ in "ab"]
        rates = {
            name: Rates(2e9, 2e9, 9e6, misses) for name, misses in zip("ab", read, strict=True)
        }
        return Sample(0, self.at_s, 1.0, rates, traffic * (1 - share), traffic * share)


class BothTest(unittest.TestCase):
    """Readers have a say where the share of misses has not moved."""

    def verdicts(self, read, seed) -> int:
        plant = Both(lambda ways: 0.58, read, seed)
        plant.run(5)
        plant.run(4, grow_to=6)
        plant.run(60)
        return len(plant.verdicts)

    def test_readers_that_miss_less(self) -> None:
        """The card misses as before, and its lines live until they are read: DDIO follows."""
        for seed in range(5):
            self.assertEqual(0, self.verdicts(lambda ways: 0.17 - 0.0125 * (ways - 2), seed))

    def test_readers_that_miss_as_before(self) -> None:
        """Or a little less than what says anything."""
        for seed in range(5):
            self.assertEqual(1, self.verdicts(lambda ways: 0.17, seed))
            self.assertEqual(1, self.verdicts(lambda ways: 0.17 - 0.002 * (ways - 2), seed))

    def test_readers_that_miss_more(self) -> None:
        """That is not what more ways do."""
        self.assertEqual(1, self.verdicts(lambda ways: 0.17 + 0.0125 * (ways - 2), 1))


class EffectTest(unittest.TestCase):
    def test_a_knob_without_effect(self) -> None:
        """Found once, within the dwell time after the last growth, whatever the noise's seed."""
        for seed in range(50):
            plant = Plant(lambda ways: 0.4, seed=seed)
            plant.run(5)
            plant.run(4, grow_to=6)
            grown_s = plant.at_s
            plant.run(60)
            ((at_s, verdict),) = plant.verdicts
            self.assertLessEqual(at_s - grown_s, DWELL_S + 1)
            self.assertEqual((2, 6), (verdict.ways_before, verdict.ways_after))
            self.assertFalse(verdict.of_readers)
            for share in (verdict.share_before, verdict.share_after):
                self.assertAlmostEqual(0.4, share, delta=0.05)

    def test_a_small_effect_is_one(self) -> None:
        """Where the load is steady enough to tell, 1.8 points are no lack of effect."""
        for seed in range(50):
            plant = Plant(lambda ways: 0.31 - 0.0045 * (ways - 2), noise=0.001, seed=seed)
            plant.run(5)
            plant.run(40, grow_to=6)
            self.assertEqual([], plant.verdicts)

    def test_a_knob_that_works(self) -> None:
        """Never accused, and trusted later when the load is one that more ways do not help."""
        for seed in range(50):
            plant = Plant(lambda ways: 0.4 - 0.03 * (ways - 2), seed=seed)
            plant.run(5)
            plant.run(40, grow_to=6)
            plant.share = lambda ways: 0.6
            plant.ways = 2
            plant.run(3)
            plant.run(60, grow_to=6)
            self.assertEqual([], plant.verdicts)

    def test_a_load_that_never_hits(self) -> None:
        """It streams: that more ways do not help proves nothing."""
        plant = Plant(lambda ways: 0.97)
        plant.run(5)
        plant.run(60, grow_to=6)
        self.assertEqual([], plant.verdicts)

    def test_few_misses(self) -> None:
        """Where little misses little can change."""
        plant = Plant(lambda ways: 0.4, traffic_per_s=1e6)
        plant.run(5)
        plant.run(60, grow_to=6)
        self.assertEqual([], plant.verdicts)

    def test_one_way_is_too_little(self) -> None:
        """Its effect may be lost in noise."""
        plant = Plant(lambda ways: 0.4)
        plant.run(5)
        plant.run(60, grow_to=3)
        self.assertEqual([], plant.verdicts)

    def test_traffic_that_changes(self) -> None:
        """Another load cannot be compared with the one before."""
        plant = Plant(lambda ways: 0.4)
        plant.run(5)
        plant.run(4, grow_to=6)
        plant.traffic_per_s *= 2
        plant.run(60)
        self.assertEqual([], plant.verdicts)

    def test_ways_taken_back(self) -> None:
        """A trial that was ended proves nothing."""
        plant = Plant(lambda ways: 0.4)
        plant.run(5)
        plant.run(4, grow_to=6)
        plant.ways = 2
        plant.run(60)
        self.assertEqual([], plant.verdicts)

    def test_much_noise(self) -> None:
        """What cannot be told is not told."""
        for seed in range(20):
            plant = Plant(lambda ways: 0.4 - 0.02 * (ways - 2), noise=0.15, seed=seed)
            plant.run(5)
            plant.run(40, grow_to=6)
            self.assertEqual([], plant.verdicts)

    def test_without_counters(self) -> None:
        """No rates or no mask: nothing to compare."""
        effect = DdioCheck(1e6)
        for second in range(30):
            mask = None if second % 2 else WayMask(0x600)
            self.assertIsNone(effect.look(Sample(0, second, 1.0, {}), mask))
