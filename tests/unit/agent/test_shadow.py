# SPDX-License-Identifier: Apache-2.0
"""The second strategy sees what the first one sees, and touches nothing."""

import dataclasses
import threading
import unittest

from iat_nova import policy
from iat_nova.agent.shadow import ShadowPolicy, ShadowStrategy
from iat_nova.model import Allocation, Hold, Parameters, TenantKind
from iat_nova.report import metrics
from iat_nova.store import records
from iat_nova.store.observed import Observer
from iat_nova.store.records import ShadowDomain
from iat_nova.strategies.iat.state import FsmState, IatState
from tests.unit import stories
from tests.unit.agent import test_loop, test_policy_keeper
from tests.unit.policy.hosts import ONE, facts, guest

CLASSES = """
parameters: {{ddio_ways_max: 4}}
classes: [{{name: data, match: {{instance: db}}, priority: {}, ways: {{min: 3}}}}]
"""


class Other(test_loop.Strategy):
    """As the strategy in force, but the first tenant has all ways; it may be made to fail."""

    wrong = None

    def step(self, state, inventory, sample):
        if self.wrong is not None:
            raise self.wrong
        return super().step(state, inventory, sample)


class Noting(test_loop.Strategy):
    """Notes by which numbers it decided for whom."""

    def __init__(self, parameters, seen):
        super().__init__()
        self.parameters, self.seen = parameters, seen

    def step(self, state, inventory, sample):
        self.seen.append((self.parameters, inventory))
        return super().step(state, inventory, sample)


class ShadowTest(test_loop.AgentTest):
    """The loop's own tests once more, with a second strategy beside, and what it tells."""

    def make(self, **options):
        self.other = Other()
        self.made = []

        def make(parameters):
            self.made.append(parameters)
            return self.other

        options.setdefault("shadow", ShadowStrategy("other", make, Parameters(), self.clock.wall()))
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


class OwnPolicyTest(unittest.TestCase):
    """A shadow with a policy of its own: the same host, other classes."""

    def setUp(self):
        self.text = CLASSES.format("PC")
        self.facts = facts(guest("db", dedicated_cpus=(4, 5)), guest("web"))
        self.inventory = policy.default(ONE).classify(self.facts, {}).domains[0]
        self.sample = stories.sample(1.0)
        self.journal, self.changed = test_policy_keeper.Journal(), threading.Event()
        self.seen = []
        self.keeper = ShadowPolicy(
            "b.yaml", policy.default(ONE), self.read, self.render, self.journal, self.changed
        )
        self.shadow = ShadowStrategy("other", self.make, Parameters(), 0.0, self.keeper)

    def read(self):
        return policy.parse(self.text, ONE, "b.yaml")

    def render(self, old, host):
        return policy.parse(old.text, host, "b.yaml")

    def make(self, parameters):
        return Noting(parameters, self.seen)

    def look(self, wall_s=0.0, holds=()):
        """See the picture and one sample of it; return what db and web are in the shadow."""
        self.assertIsNone(self.shadow.see(self.facts, holds, wall_s))
        while self.keeper._question.asked:  # not answered yet, on a busy machine
            self.changed.wait(5.0)
            self.assertIsNone(self.shadow.see(self.facts, holds, wall_s))
        self.seen.clear()
        actual = test_loop.Strategy().step(IatState(ONE.domains[0], 0, FsmState.LOW_KEEP,
            Allocation(2, {})), self.inventory, self.sample)[1]  # fmt: skip
        self.assertIsNone(self.shadow.look(self.inventory, self.sample, actual, 1.0))
        return [
            (tenant.name, str(tenant.priority), tenant.ways.min)
            for _, inventory in self.seen
            for tenant in inventory.tenants
            if tenant.kind is TenantKind.GUEST
        ]

    def test_it_decides_for_its_own_classes(self):
        """Other priorities, ways and numbers, for the tenants that are here."""
        self.assertEqual([("db", "PC", 3), ("web", "BE", 1)], self.look())
        ((parameters, _),) = self.seen
        self.assertEqual(4, parameters.ddio_ways_max)
        self.assertEqual("b.yaml", self.shadow.now.policy)
        self.assertIn(0, self.shadow.now.domains)

    def test_a_hold_stands_above_it(self):
        """What a person holds would be held under any policy."""
        db = next(one for one in self.inventory.tenants if one.name == "db")
        hold = Hold(db.key, "db", 5, 0.0, 1e9, "")
        self.assertEqual([("db", "PC", 5), ("web", "BE", 1)], self.look(holds=(hold,)))

    def test_a_file_that_cannot_be_used(self):
        """It is said, nothing is decided; once it is mended and read again it decides."""
        self.text = "classes: [{name: x, priority: top}]"
        self.assertEqual([], self.look())
        self.assertEqual("shadow-policy-unusable", self.journal.problems[0].code)
        self.text = CLASSES.format("BE")
        self.assertEqual([], self.look())  # nobody asked for it to be read
        self.shadow.ask()
        self.assertEqual([("db", "BE", 3), ("web", "BE", 1)], self.look())
        self.assertEqual([], self.journal.problems)

    def test_another_policy_begins_anew(self):
        """What the last one would have done is not counted with it; the same one goes on."""
        self.look(10.0)
        moved = self.shadow.now.domains[0].moved
        self.shadow.ask()
        self.look(20.0)
        self.assertEqual(
            (10.0, 2 * moved), (self.shadow.now.since_s, self.shadow.now.domains[0].moved)
        )
        self.text = CLASSES.format("BE")
        self.shadow.ask()
        self.look(30.0)
        self.assertEqual((30.0, moved), (self.shadow.now.since_s, self.shadow.now.domains[0].moved))

    def test_it_stays_when_it_becomes_invalid(self):
        """The previous one decides on; the policy in force never takes its place."""
        self.look()
        self.text = "x: y"
        self.shadow.ask()
        self.assertEqual([("db", "PC", 3), ("web", "BE", 1)], self.look())
        self.assertEqual("shadow-policy-kept", self.journal.problems[0].code)
        self.shadow.use(Parameters(ddio_ways_max=2))
        self.look()
        self.assertEqual(4, self.seen[0][0].ddio_ways_max)


class ToldTest(unittest.TestCase):
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
