# SPDX-License-Identifier: Apache-2.0
"""The second strategy sees what the first one sees, and touches nothing."""

import dataclasses
import unittest

from iat_nova.agent.shadow import Shadow
from iat_nova.model import Parameters
from iat_nova.report import metrics, view
from iat_nova.report.observed import Observer
from iat_nova.store import records
from iat_nova.store.records import ShadowDomain
from tests.unit import stories
from tests.unit.agent import test_loop


class Other(test_loop.Strategy):
    """As the strategy in force, but the first tenant has all ways; it may be made to fail."""

    wrong = None

    def step(self, state, inventory, sample):
        if self.wrong is not None:
            raise self.wrong
        return super().step(state, inventory, sample)


class ShadowTest(test_loop.AgentTest):
    """The loop's own tests once more, with a second strategy beside, and what it tells."""

    def make(self, **options):
        self.other = Other()
        self.made = []

        def make(parameters):
            self.made.append(parameters)
            return self.other

        options.setdefault("shadow", Shadow("other", make, Parameters(), self.clock.wall()))
        return super().make(**options)

    def test_it_sees_the_same_samples_and_writes_nothing(self) -> None:
        """What is written is what is written without it."""
        self.run_for(5.0)
        self.assertEqual(self.strategy.samples, self.other.samples)
        with_it = self.masks()
        self.allocator, self.ddio = type(self.allocator)(), type(self.ddio)()
        self.run_for(5.0, shadow=None)
        self.assertEqual(len(with_it), len(self.masks()))
        self.assertIsNone(self.status().status.shadow)

    def test_what_it_would_have_done_is_counted(self) -> None:
        """Masks it would have moved, beside those that were, and where the ways would lie."""
        self.run_for(5.0)
        shadow = self.status().status.shadow
        self.assertEqual("other", shadow.strategy)
        moved = sum(len(one.moved) for one in self.decisions())
        self.assertEqual(
            (moved, moved), (shadow.domains[0].moved, shadow.domains[0].moved_meanwhile)
        )
        self.assertEqual(self.decisions()[0].layout, shadow.domains[0].layout)

    def test_it_may_fail(self) -> None:
        """That is told, and ends; nothing else notices."""
        shown = []

        def look():
            shown.append([one.code for one in self.agent.journal.latest.problems])
            self.other.wrong = None if self.other.wrong else ZeroDivisionError("x")

        self.run_for(6.0, lambda: None, look, look, lambda: None, look)
        self.assertEqual([[], ["shadow-failed"], []], shown)
        self.assertEqual(7, len(self.decisions()))

    def test_it_has_the_policys_numbers(self) -> None:
        """Also after a reload."""

        def reload() -> None:
            self.policy = test_loop.Policy(Parameters(interval_s=2.0))
            self.agent.reload_policy()

        self.run_for(4.0, lambda: None, reload)
        self.assertEqual([1.0, 2.0], [one.interval_s for one in self.made])


class ToldTest(unittest.TestCase):
    def test_rates_a_day(self) -> None:
        """Of the time since it began; in the first minute there is none."""
        shadow = records.Shadow("x", 1000.0)
        domain = ShadowDomain(stories.layout(2), 10, 30)
        self.assertIsNone(view.shadow_rates(shadow, domain, 1059.0))
        self.assertEqual((240.0, 720.0), view.shadow_rates(shadow, domain, 1000.0 + 3600))

    def test_metrics(self) -> None:
        """Its ways by tenant and its masks by domain; nothing of both without it."""
        observer = Observer()
        observer.inventory({0: stories.inventory()})
        for shadow, count in (
            (None, 0),
            (records.Shadow("x", 0.0, {0: ShadowDomain(stories.layout(2), 7, 3)}), 1),
        ):
            observer.status(dataclasses.replace(stories.status(), shadow=shadow))
            found = {one.name: list(one.read(observer.now)) for one in metrics.METRICS}
            self.assertEqual(3 * count, len(found["iat_nova_tenant_shadow_ways"]))
            self.assertEqual([(("0",), 7)] * count, found["iat_nova_shadow_masks_moved_total"])
