# SPDX-License-Identifier: Apache-2.0
"""The paper's two worked examples (ISCA 2021, figure 7), second by second."""

from __future__ import annotations

import unittest

from iat_nova.model import Action, Parameters, Priority
from iat_nova.strategies.iat.state import FsmState
from tests import said
from tests.unit.strategies.iat.worlds import M, Story, guest, rates, stack

PC, BE = Priority.PC, Priority.BE


class TestAggregation(unittest.TestCase):
    """Example A: a flow explosion in the virtual switch at fixed throughput."""

    def setUp(self) -> None:
        self.story = Story(
            (stack(2), guest("PC", PC, 3, io=False), guest("BE1", BE, 2), guest("BE2", BE, 4)),
            stack=rates(8 * M, 0.8 * M),
            BE1=rates(4 * M, 0.6 * M),
            BE2=rates(1 * M, 0.2 * M),
        ).settled()

    def test_at_first_the_least_of_best_effort_shares(self) -> None:
        """All 11 ways are taken, so BE2, with the fewest references, shares DDIO's."""
        self.assertEqual(("BE2",), self.story.sharing)
        self.assertEqual((2, 2), (self.story.ddio, self.story.ways("stack")))

    def test_flows_come_and_go(self) -> None:
        """Core Demand (3): a way in two iterations each; Reclaim (8): both back; Low Keep (2)."""
        story = self.story
        first = story.second({"stack": rates(12 * M, 4 * M, 0.8)}, hits=17 * M, misses=3.5 * M)
        self.assertEqual((3, FsmState.CORE_DEMAND), (first.rule, first.phase))
        self.assertEqual((3, 3), (story.ways("stack"), story.ways("BE2")))
        grown = next(step.reason for step in first.steps if step.action is Action.GROW)
        self.assertEqual(("miss-rate-rose", "row", "io-misses-above"), said.codes(grown))
        self.assertEqual(3, grown.values["cause"].values["number"])
        figures = grown.values["cause"].values["figures"]
        for name, value in (("misses", 6.0), ("hits", -0.15), ("references", 0.5)):
            self.assertAlmostEqual(value, figures.values[f"{name}_change"], msg=name)

        story.second({"stack": rates(12 * M, 3.3 * M, 0.85)}, hits=17.5 * M, misses=2.8 * M)
        self.assertEqual((4, 2), (story.ways("stack"), story.ways("BE2")))
        self.assertEqual(("BE2",), story.sharing)

        story.second({"stack": rates(12 * M, 3.28 * M, 0.85)}, misses=2.78 * M)
        self.assertEqual(4, story.ways("stack"))  # the second way did not help: the last one
        self.assertTrue(story.second().stable)
        self.assertEqual((3, 2), (story.ways("PC"), story.ways("BE1")))
        self.assertEqual(2, story.ddio)

        ends = story.second({"stack": rates(8 * M, 0.8 * M)}, hits=20 * M, misses=0.5 * M)
        self.assertEqual((8, FsmState.RECLAIM), (ends.rule, ends.phase))
        self.assertEqual(3, story.ways("stack"))
        self.assertEqual(("BE2",), story.sharing)  # one idle way for two of DDIO's
        story.second()
        self.assertEqual(2, story.ways("stack"))
        self.assertEqual((), story.sharing)
        self.assertEqual(2, story.second().rule)
        self.assertEqual(FsmState.LOW_KEEP, story.state.fsm)
        self.assertEqual(2, story.ways("BE2"))  # it does not miss them: they stay idle
        self.assertEqual((), story.state.grants)
        for _ in range(5):
            self.assertTrue(story.second().stable)

    def test_a_giver_that_suffers_has_its_way_back(self) -> None:
        """What BE2 gave goes back to it, not into the pool, when its miss rate rose meanwhile."""
        story = self.story
        story.second({"stack": rates(12 * M, 4 * M, 0.8)}, hits=17 * M, misses=3.5 * M)
        self.assertEqual(3, story.ways("BE2"))
        story.second(
            {"stack": rates(12 * M, 3.98 * M, 0.8), "BE2": rates(1 * M, 0.5 * M)}, misses=3.48 * M
        )
        story.second({"stack": rates(8 * M, 0.8 * M)}, hits=20 * M, misses=0.5 * M)
        self.assertEqual((2, 4), (story.ways("stack"), story.ways("BE2")))


class TestSlicing(unittest.TestCase):
    """Example B: more traffic to a tenant that owns a VF, another grows cache-hungry."""

    def test_traffic_comes_and_goes(self) -> None:
        """I/O Demand (1), DDIO grows; BE1 and BE2 change places; Reclaim (6), Low Keep (2)."""
        story = Story(
            (guest("PC", PC, 3, io=True), guest("BE1", BE, 2), guest("BE2", BE, 3)),
            parameters=Parameters(ddio_ways_min=2, ddio_ways_max=6),
            BE1=rates(2 * M, 0.5 * M),
            BE2=rates(1 * M, 0.2 * M),
        ).settled()
        self.assertEqual((), story.sharing)

        first = story.second({"PC": rates(9 * M, 2 * M)}, hits=30 * M, misses=3 * M)
        self.assertEqual((1, FsmState.IO_DEMAND), (first.rule, first.phase))
        self.assertEqual(3, story.ddio)
        self.assertEqual((), story.sharing)  # idle ways first
        story.second(misses=2.5 * M)
        self.assertEqual((4, ("BE2",)), (story.ddio, story.sharing))

        hungry = story.second({"BE2": rates(12 * M, 3 * M, 0.6)}, misses=2 * M)
        self.assertEqual((None, FsmState.IO_DEMAND), (hungry.rule, hungry.phase))
        self.assertEqual((5, ("BE1",)), (story.ddio, story.sharing))
        self.assertIn(Action.SHUFFLE, {step.action for step in hungry.steps})

        less = story.second({"PC": rates(5 * M, 1 * M)}, hits=8 * M, misses=0.2 * M)
        self.assertEqual((6, FsmState.RECLAIM), (less.rule, less.phase))
        self.assertEqual(4, story.ddio)
        self.assertEqual(3, (story.second(), story.ddio)[1])
        self.assertEqual(2, (story.second(), story.ddio)[1])
        self.assertEqual(2, story.second().rule)
        self.assertEqual(FsmState.LOW_KEEP, story.state.fsm)
        self.assertEqual((), story.sharing)
