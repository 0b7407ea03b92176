# SPDX-License-Identifier: Apache-2.0
"""The analytic plant: sharing, speed, the best partition, and the closed loop."""

import itertools
import random
import unittest
from unittest import mock

from iat_nova.experiments.failure import StrategyFailed
from iat_nova.experiments.plant import bench, best, draw, loop
from iat_nova.experiments.plant.curves import InboundWrites, Load, MissCurve, Piece
from iat_nova.experiments.plant.formula_host import FormulaHost
from iat_nova.experiments.plant.sharing import User, occupancy
from iat_nova.model import Parameters
from iat_nova.report import sentences
from iat_nova.strategies import registry as strategies
from tests.unit.experiments.strategies import failing


class SharingTest(unittest.TestCase):
    """Ways of several users are shared out by their fills."""

    def test_alone_in_its_ways(self) -> None:
        """A way of nobody else's is held whole, however little is filled."""
        users = [User(0x00F, lambda held: 1e3), User(0x7F0, lambda held: 1e9)]
        self.assertEqual([4.0, 7.0], occupancy(users))

    def test_steady_fills_divide_a_pool(self) -> None:
        """Three times the fills, three times the ways."""
        found = occupancy([User(0xFF, lambda held: 3e6), User(0xFF, lambda held: 1e6)])
        self.assertAlmostEqual(6.0, found[0], places=2)
        self.assertAlmostEqual(2.0, found[1], places=2)

    def test_a_wide_mask_spreads_its_fills(self) -> None:
        """Equal fills over 8 ways and over 2 of these: one fifth of the two is the wide one's."""
        found = occupancy([User(0xFF, lambda held: 1e6), User(0xC0, lambda held: 1e6)])
        self.assertAlmostEqual(6.4, found[0], places=2)
        self.assertAlmostEqual(1.6, found[1], places=2)

    def test_fills_that_depend_on_what_is_held_settle(self) -> None:
        """In the fixed point the shares are those of the fills at just these shares."""
        mine = Load(1, 1.0, 0.02, MissCurve(0.05, (Piece(0.9, 6.0, 2.0),)))
        stream = Load(1, 1.0, 0.01, MissCurve(1.0, ()))
        users = [User(0x7FF, mine.fills_per_s)]
        users.append(User(0x7FF, stream.fills_per_s))
        one, other = occupancy(users)
        self.assertAlmostEqual(11.0, one + other, places=1)
        fills = [user.fills_per_s(held) for user, held in zip(users, (one, other), strict=True)]
        self.assertAlmostEqual(fills[0] / fills[1], one / other, places=1)


class CurveTest(unittest.TestCase):
    """A knee is where a piece begins to fit."""

    def test_knee(self) -> None:
        """A loop under LRU gains nothing before all of it fits, random accesses with each way."""
        loop_piece, random_piece = Piece(0.8, 4.0, 8.0), Piece(0.8, 4.0, 1.0)
        self.assertAlmostEqual(0.4, random_piece.misses(2.0))
        self.assertGreater(loop_piece.misses(2.0), 0.79)
        self.assertEqual((0.0, 0.0), (loop_piece.misses(4.0), random_piece.misses(9.0)))

    def test_misses_cost_cycles(self) -> None:
        """A hundred of them each; packets that went to memory as well."""
        load = Load(2, 1.0, 0.01, MissCurve(1.0, ()), packet_lines=0.01)
        self.assertAlmostEqual(2 * 2.3e9 / 2.0, load.instructions_per_s(5.0, 0.0))
        self.assertAlmostEqual(2 * 2.3e9 / 3.0, load.instructions_per_s(5.0, 1.0))


class DrawTest(unittest.TestCase):
    """Hosts differ in what a miss costs."""

    def test_a_miss_costs_the_same_on_a_host_and_not_on_another(self) -> None:
        """From 46 to 299 cycles; changed loads keep what the host has."""
        found = set()
        for number in range(30):
            first, *_, last = loop.phases(number, seed=5)
            costs = {
                load.miss_cycles for host in (*first.hosts, *last.hosts) for load in host.loads
            }
            self.assertEqual(1, len(costs))
            found |= costs
        self.assertEqual(30, len(found))
        self.assertGreater(min(found), 45)
        self.assertLess(max(found), 300)
        self.assertGreater(max(found) / min(found), 3)


class BestTest(unittest.TestCase):
    """The search finds what trying everything finds."""

    def test_against_brute_force(self) -> None:
        """Every count, every order, every number of DDIO ways, on small hosts."""
        dice = random.Random("brute force")
        for _ in range(6):
            drawn = draw.host(dice)
            while len(drawn.inventory.tenants) > 3:
                drawn = draw.host(dice)
            host = FormulaHost(drawn.inventory, drawn.loads, drawn.inbound)
            self.assertAlmostEqual(_brute_force(host), best.best_static(host).utility)


def _brute_force(host: FormulaHost) -> float:
    found = 0.0
    numbers = range(len(host.tenants))
    for ddio in best.DDIO_WAYS:
        mask = ((1 << ddio) - 1) << (host.ways - ddio)
        for counts in itertools.product(range(1, host.ways + 1), repeat=len(numbers)):
            if sum(counts) > host.ways:
                continue
            for order in itertools.permutations(numbers):
                masks, at = [0] * len(numbers), 0
                for number in order:
                    masks[number] = ((1 << counts[number]) - 1) << at
                    at += counts[number]
                found = max(found, host.with_masks((mask, tuple(masks))).utility)
    return found


class LoopTest(unittest.TestCase):
    """A strategy on a host, phase by phase."""

    def test_phases(self) -> None:
        """Equal arguments, equal losses; a restart meets the load of the phase before."""
        course = loop.Course.of(3)
        make = lambda: strategies.make("iat", Parameters())  # noqa: E731
        lost = loop.losses(course, make, 0.01)
        self.assertEqual(lost, loop.losses(course, make, 0.01))
        names = ["boot", "one changes", "half change", "restart"]
        self.assertEqual(names, [one.phase for one in lost])
        self.assertIs(course.phases[2].hosts[-1], course.phases[3].hosts[-1])
        self.assertEqual(course.best[2], course.best[3])

    def test_a_failing_strategy_is_named(self) -> None:
        """A strategy that raises an error or decides nothing ends the experiment, with its name."""
        course = loop.Course.of(3)
        for kind, place in (
            (failing.Raises, ".*boom.* .*failing.py, line [0-9]+.$"),
            (failing.NoDecision, "[^/]*$"),
        ):
            with (
                self.subTest(kind),
                mock.patch.object(strategies, "find", return_value=kind),
                self.assertRaises(StrategyFailed) as caught,
            ):
                loop.losses(course, lambda: bench.Guarded("mine"), 0.01)
            text = sentences.text(caught.exception.message)
            self.assertRegex(text, f"strategy 'mine' failed at 1 s: .*Error{place}")

    def test_who_starves(self) -> None:
        """A tenant that matters starves beside idle ways, not with all there is."""
        course = loop.Course.of(0)
        host = course.phases[0].hosts[-1]
        hungry = Load(1, 0.5, 0.03, MissCurve(0.0, (Piece(1.0, float(host.ways), 1.0),)))
        loads = dict.fromkeys((tenant.id for tenant in host.tenants), hungry)
        host = FormulaHost(host.inventory, loads, InboundWrites(1.0, MissCurve(0.0, ())))
        baseline = strategies.make("baseline", Parameters())
        state = baseline.initial(host.inventory, 0.0)
        sample = host.sample(None, 1.0, random.Random(1), 0.0)
        _, decision = baseline.step(state, host.inventory, sample)
        self.assertTrue(loop.starved(host, decision.layout))
