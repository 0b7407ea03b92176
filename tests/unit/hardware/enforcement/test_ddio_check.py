# SPDX-License-Identifier: Apache-2.0
"""A register without effect is found out by three loads; one that works is never accused."""

import dataclasses
import itertools
import math
import random
import unittest

from iat_nova.experiments.times.fake import SKYLAKE
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

    def burst(self, traffic_per_s, share, grow_to=6) -> None:
        """Let a load come while DDIO has two ways, and DDIO grow; then the ways go back."""
        self.ways, self.traffic_per_s, self.share = 2, traffic_per_s, share
        self.run(5)
        self.run(20, grow_to=grow_to)
        self.traffic_per_s, self.ways = 1e6, 2
        self.run(5)


# Lines that devices write each second, and the share that misses, of three loads: with each more
# miss and fewer hit, as where the lines in use outgrow the ways.
COMPETING = ((10e6, 0.2), (12e6, 0.4), (14e6, 0.6))


def constant(share):
    """Return what misses with a register that is ignored."""
    return lambda ways: share


def outgrowing(share):
    """Return what misses with a register that works, where this share does with two ways."""
    return lambda ways: max(0.0, share - 0.04 * (ways - 2))


def outgrowing_slowly(share):
    """Return what misses where four more ways hold 1.8 points more of the lines."""
    return lambda ways: share - 0.0045 * (ways - 2)


def outgrown(used, ways):
    """Return the share of misses where as many ways of lines are in use in turn.

    A line survives if no other line takes its place meanwhile: the share s misses, so that of lines
    that are placed at random a share of exp(-s used / ways) survives.
    """
    share = 1.0
    for _ in range(200):
        share = 1 - math.exp(-share * used / ways)
    return share


GUEST = tenant("web", 4, id="u/1", priority=Priority.PC, io=True)
BURST_S, PAUSE_S = 30, 30


class NoTraffic(unittest.TestCase):
    """Where DDIO's hits are not counted readers miss without any traffic of devices, too."""

    def test_ways_taken_while_nothing_is_written(self) -> None:
        rates = Rates(1e9, 2e9, 1e7, 5e6)
        check = DdioCheck(1e6)
        for at_s, ways, written in ((1.0, 5, 0.0), (2.0, 2, 0.0), (3.0, 2, 1e6), (4.0, 2, 0.0)):
            sample = Sample(0, at_s, 1.0, {"a": rates}, ddio_writes_per_s=written)
            self.assertIsNone(check.look(sample, WayMask.span(11 - ways, ways), {"a"}))


class ClosedLoop(unittest.TestCase):
    """The real controller on a socket whose DDIO does not follow its register, and on others."""

    def run_loop(self, bursts, share_of, seed):
        """Return when a verdict came, and DDIO's ways second by second.

        `bursts`: lines that devices write each second in each burst, and what `share_of` takes
        beside the ways.
        """
        dice = random.Random(seed)
        inventory = DomainInventory(SKYLAKE, (GUEST,))
        controller = Controller(Parameters(), PRESETS["iat"])
        state = controller.initial(inventory, 0.0)
        effect, ways, found_s = DdioCheck(1e6), [2], None
        for second in range(1, len(bursts) * (PAUSE_S + BURST_S)):
            number, at_s = divmod(second, PAUSE_S + BURST_S)
            in_burst = at_s >= PAUSE_S
            lines_per_s, load = bursts[number] if in_burst else (1e6, bursts[number][1])
            share = min(1.0, max(0.0, share_of(load, ways[-1]) + dice.gauss(0, 0.003)))
            traffic = lines_per_s * (1 + dice.gauss(0, 0.01))
            rates = Rates(2e9, 2e9, 3e6, 1e5)
            sample = Sample(
                0, float(second), 1.0, {GUEST.id: rates}, traffic * (1 - share), traffic * share
            )
            state, decision = controller.step(state, inventory, sample)
            ways.append(decision.layout.ddio.count)
            verdict = effect.look(sample, decision.layout.ddio)
            if verdict is not None:
                found_s = found_s or second
                domain = dataclasses.replace(SKYLAKE, ddio_resizable=False)
                inventory = dataclasses.replace(inventory, domain=domain)
        return found_s, ways

    RISING = ((10e6, 2.25), (12e6, 2.6), (14e6, 3.2), (15e6, 4.0))

    def test_without_effect(self) -> None:
        """Found out in the third burst, or the fourth; then DDIO keeps the ways that were found."""
        for seed in range(50):
            found_s, ways = self.run_loop(self.RISING, lambda used, ways: outgrown(used, 2), seed)
            self.assertIsNotNone(found_s, ways)
            burst, since_s = divmod(found_s - PAUSE_S, PAUSE_S + BURST_S)
            self.assertIn(burst, (2, 3))
            self.assertLess(since_s, 2 * DWELL_S)
            self.assertEqual({2}, set(ways[found_s + 2 :]))

    def test_with_effect(self) -> None:
        """Never accused."""
        for seed in range(50):
            found_s, ways = self.run_loop(self.RISING, outgrown, seed)
            self.assertIsNone(found_s)
            self.assertGreater(max(ways), 3)

    def test_rings_beyond_any_share(self) -> None:
        """What is in use exceeds the most that DDIO may have: more ways change little."""
        bursts = tuple((lines, 2.1 * used) for lines, used in self.RISING)
        for seed in range(50):
            found_s, _ = self.run_loop(bursts, lambda used, ways: outgrown(used + 9, ways), seed)
            self.assertIsNone(found_s)

    def test_a_disk_beside_a_card(self) -> None:
        """The disk's lines always miss, the card's always hit, in any proportion."""
        mixed = tuple((card + disk, disk / (card + disk)) for card, disk in (
            (8e6, 2e6), (8e6, 5e6), (8e6, 10e6), (8e6, 20e6), (12e6, 6e6), (6e6, 6e6), (3e6, 6e6),
        ))  # fmt: skip
        for seed in range(50):
            found_s, ways = self.run_loop(mixed, lambda share, ways: share, seed)
            self.assertIsNone(found_s)
            self.assertEqual(6, max(ways))


class Readers(Plant):
    """The same where hits and misses cannot be told apart: the readers' misses tell instead."""

    def sample(self, traffic: float, share: float) -> Sample:
        """Half of the misses are the readers'; each of two has a part."""
        rates = {name: Rates(2e9, 2e9, 9e6, traffic * share / 2) for name in ("a", "b")}
        other = {"c": Rates(2e9, 2e9, 9e6, 5e6)}
        return Sample(0, self.at_s, 1.0, rates | other, ddio_writes_per_s=traffic)


class ReadersTest(unittest.TestCase):
    """AMD: no event tells which lines hit."""

    def test_a_register_without_effect(self) -> None:
        """It is told whose misses did not move."""
        for seed in range(50):
            plant = Readers(constant(0.0), seed=seed)
            for load in COMPETING:
                plant.burst(load[0], constant(load[1]))
            ((_, verdict),) = plant.verdicts
            self.assertTrue(verdict.of_readers)
            self.assertEqual("misses-of-readers", verdict.message.values["whose"].code)

    def test_a_register_that_works(self) -> None:
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
        plant = Readers(constant(0.0))
        plant.readers = {"a", "b", "asleep"}
        for load in COMPETING:
            plant.burst(load[0], constant(load[1]))
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
        plant = Both(constant(0.0), read, seed)
        for load in COMPETING:
            plant.burst(load[0], constant(load[1]))
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
    def verdicts(self, loads, share_of=constant, seed=1, **more):
        """Return the verdicts of a burst for each load."""
        plant = Plant(constant(0.0), seed=seed, **more)
        for traffic, share in loads:
            plant.burst(traffic, share_of(share))
        return plant.verdicts

    def test_a_register_without_effect(self) -> None:
        """Found once, within the dwell time after the third load's last step."""
        for seed in range(50):
            ((at_s, verdict),) = self.verdicts(COMPETING, seed=seed, noise=0.003)
            self.assertLessEqual(at_s, 2 * 30 + 5 + 4 + DWELL_S + 1)
            self.assertEqual((2, 6), (verdict.ways_before, verdict.ways_after))
            self.assertFalse(verdict.of_readers)
            for (_, share), found in zip(COMPETING, verdict.shares, strict=True):
                self.assertAlmostEqual(share, found, delta=0.02)

    def test_in_any_order(self) -> None:
        """The loads are compared by their shares, not in the order in which they came."""
        for loads in itertools.permutations(COMPETING):
            self.assertEqual(1, len(self.verdicts(loads)), loads)

    def test_one_load(self) -> None:
        """What it writes may be more than any ways hold: nothing is said, however often."""
        for seed in range(20):
            self.assertEqual([], self.verdicts(20 * [(20e6, 0.4)], seed=seed))

    def test_more_streams(self) -> None:
        """What is added misses or hits, with any ways; nothing that hit before misses."""
        added = [(card + disk, disk / (card + disk)) for card, disk in (
            (8e6, 2e6), (8e6, 4e6), (8e6, 8e6), (8e6, 16e6), (8e6, 40e6),
        )]  # fmt: skip
        fewer = [(card + 8e6, 8e6 / (card + 8e6)) for card in (32e6, 16e6, 8e6, 4e6, 2e6)]
        for loads in (added, fewer):
            for seed in range(20):
                self.assertEqual([], self.verdicts(loads, seed=seed))

    def test_one_of_three_loads_follows(self) -> None:
        """Then the register works, and the two others could not tell."""
        for follows in range(3):
            shares = [constant(share) for _, share in COMPETING]
            shares[follows] = outgrowing(COMPETING[follows][1])
            plant = Plant(constant(0.0))
            for _ in range(2):
                for (traffic, _), share in zip(COMPETING, shares, strict=True):
                    plant.burst(traffic, share)
            self.assertEqual([], plant.verdicts)

    def test_a_small_effect_is_one(self) -> None:
        """Where the load is steady enough to tell, 1.8 points are no lack of effect."""
        for seed in range(20):
            found = self.verdicts(COMPETING, outgrowing_slowly, seed=seed, noise=0.001)
            self.assertEqual([], found)

    def test_a_register_that_works(self) -> None:
        """Never accused, and trusted later when the loads are such that more ways do not help."""
        for seed in range(50):
            plant = Plant(lambda ways: 0.4 - 0.03 * (ways - 2), seed=seed)
            plant.run(5)
            plant.run(40, grow_to=6)
            for traffic, share in COMPETING:
                plant.burst(traffic, constant(share))
            self.assertEqual([], plant.verdicts)

    def test_another_load_after_the_growth_is_no_effect(self) -> None:
        """Fewer lines miss because fewer come: such a register is not trusted, and found out."""
        plant = Plant(constant(0.3))
        plant.run(5)
        plant.run(1, grow_to=3)
        plant.traffic_per_s, plant.share = 16.5e6, constant(0.2)
        plant.run(30, grow_to=6)
        for traffic, share in COMPETING:
            plant.burst(traffic, constant(share))
        self.assertEqual(1, len(plant.verdicts))

    def test_ways_taken_back_under_the_same_load(self) -> None:
        """A fall of ways is as good a trial as their growth."""
        plant = Plant(constant(0.0))
        for traffic, share in COMPETING:
            plant.ways, plant.traffic_per_s, plant.share = 6, traffic, constant(share)
            plant.run(5)
            plant.ways = 2
            plant.run(20)
            plant.traffic_per_s = 1e6
            plant.run(5)
        ((_, verdict),) = plant.verdicts
        self.assertEqual((6, 2), (verdict.ways_before, verdict.ways_after))

    def test_ways_taken_back_and_missed(self) -> None:
        """With fewer ways more lines miss: the register works."""
        plant = Plant(lambda ways: 0.5 - 0.05 * (ways - 2))
        plant.ways = 6
        plant.run(5)
        plant.ways = 2
        plant.run(20)
        for traffic, share in COMPETING:
            plant.burst(traffic, constant(share))
        self.assertEqual([], plant.verdicts)

    def test_loads_that_never_hit(self) -> None:
        """They stream: that more ways do not help proves nothing."""
        loads = ((20e6, 0.91), (25e6, 0.935), (30e6, 0.97))
        self.assertEqual([], self.verdicts(loads))

    def test_few_misses(self) -> None:
        """Where little misses little can change."""
        loads = [(traffic / 20, share) for traffic, share in COMPETING]
        self.assertEqual([], self.verdicts(loads))

    def test_one_way_is_too_little(self) -> None:
        """Its effect may be lost in noise."""
        plant = Plant(constant(0.0))
        for traffic, share in COMPETING:
            plant.burst(traffic, constant(share), grow_to=3)
        self.assertEqual([], plant.verdicts)

    def test_traffic_that_changes(self) -> None:
        """Another load cannot be compared with the one before."""
        plant = Plant(constant(0.0))
        for traffic, share in COMPETING:
            plant.ways, plant.traffic_per_s, plant.share = 2, traffic, constant(share)
            plant.run(5)
            plant.run(4, grow_to=6)
            plant.traffic_per_s *= 1.12
            plant.run(20)
        self.assertEqual([], plant.verdicts)

    def test_ways_taken_back_too_soon(self) -> None:
        """A trial that was ended proves nothing."""
        plant = Plant(constant(0.0))
        for traffic, share in COMPETING:
            plant.ways, plant.traffic_per_s, plant.share = 2, traffic, constant(share)
            plant.run(5)
            plant.run(4, grow_to=6)
            plant.ways = 2
            plant.run(3)
            plant.traffic_per_s = 1e6
            plant.run(5)
        self.assertEqual([], plant.verdicts)

    def test_much_noise(self) -> None:
        """What cannot be told is not told."""
        for seed in range(20):
            self.assertEqual([], self.verdicts(COMPETING, seed=seed, noise=0.15))

    def test_without_counters(self) -> None:
        """No rates or no mask: nothing to compare."""
        effect = DdioCheck(1e6)
        for second in range(30):
            mask = None if second % 2 else WayMask(0x600)
            self.assertIsNone(effect.look(Sample(0, second, 1.0, {}), mask))
