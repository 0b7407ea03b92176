# SPDX-License-Identifier: Apache-2.0
"""What metrics are made of: the latest values, and totals that only grow."""

import dataclasses
import unittest

from iat_nova.model import VirtualSwitch
from iat_nova.store import observed
from iat_nova.store.observed import Observed, Observer, Totals
from tests.unit import frozen, stories


class TestTotals(unittest.TestCase):
    def test_iterations(self):
        """Each counts one, with its time; transitions, steps and moved masks are added up."""
        totals = Totals()
        for iteration in (stories.quiet(1, 0.0), stories.burst(2, 1.0), stories.burst(3, 2.0)):
            totals = totals.after(iteration)
        self.assertEqual(3, totals.iterations)
        self.assertAlmostEqual(3 * 52.7e-6, totals.loop_s, places=12)
        burst = stories.burst(2, 1.0).decision
        self.assertEqual({(1, burst.phase_before, burst.phase): 2}, totals.transitions)
        self.assertEqual({"grow": 2, "refuse": 2}, totals.steps)
        self.assertEqual(2, totals.moved_masks)

    def test_earlier_totals_stay(self):
        """A reader that holds a value sees no later iteration in it."""
        before = Totals().after(stories.burst(1, 0.0))
        seen = dataclasses.replace(before, steps=dict(before.steps))
        before.after(stories.burst(2, 1.0))
        self.assertEqual(seen, before)

    def test_rule_without_number_zero(self):
        """A rule numbered 0 is a rule."""
        burst = stories.burst(1, 0.0)
        decision = dataclasses.replace(burst.decision, rule=0)
        totals = Totals().after(dataclasses.replace(burst, decision=decision))
        self.assertEqual([0], [rule for rule, _, _ in totals.transitions])


class TestObserver(unittest.TestCase):
    def setUp(self):
        self.observer = Observer()

    def test_nothing_yet(self):
        """At first nothing is known, and nothing counted."""
        self.assertEqual(Observed(), self.observer.now)
        self.assertEqual(Totals(0, 0.0, {}, {}, 0), Totals())

    def test_latest_values(self):
        """Status, time of reading, tenants and switch are those given last."""
        status, inventory = stories.status(), stories.inventory()
        switch = VirtualSwitch({}, (), (2, 3))
        self.observer.status(status)
        self.observer.looked(5.0)
        self.observer.inventory({0: inventory}, switch)
        self.assertEqual(
            Observed(status=status, inventories={0: inventory}, looked_s=5.0, switch=switch),
            self.observer.now,
        )

    def test_iterations(self):
        """Each domain has its latest iteration and its totals."""
        first, second = stories.burst(1, 0.0), stories.quiet(2, 1.0)
        other = dataclasses.replace(first, domain=1)
        for iteration in (first, other, second):
            self.observer.iteration(iteration)
        now = self.observer.now
        self.assertEqual({0: second, 1: other}, now.latest)
        self.assertEqual({0: 2, 1: 1}, {one: t.iterations for one, t in now.totals.items()})

    def test_offline_domain(self):
        """A domain that is missing has no latest iteration; its totals stay."""
        for number in (0, 1):
            self.observer.iteration(dataclasses.replace(stories.quiet(1, 0.0), domain=number))
        self.observer.inventory({1: stories.inventory()})
        self.assertEqual({1}, set(self.observer.now.latest))
        self.assertEqual({0, 1}, set(self.observer.now.totals))
        self.assertIsNone(self.observer.now.switch)

    def test_events(self):
        """Events are counted by severity."""
        for severity in ("error", "warning", "error"):
            self.observer.event(severity)
        self.assertEqual({"error": 2, "warning": 1}, self.observer.now.events)

    def test_frozen(self):
        """No value can be changed, nor get another attribute."""
        self.assertEqual([], frozen.changeable(observed))
        self.assertTrue(frozen.values(observed))
