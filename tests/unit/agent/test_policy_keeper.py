# SPDX-License-Identifier: Apache-2.0
"""The policy in force follows the host's facts, as it was read, and tells what it did."""

import dataclasses
import functools
import threading
import unittest

from iat_nova import policy
from iat_nova.agent.policy_keeper import PolicyKeeper
from iat_nova.common.deadline import Deadline
from iat_nova.model import message
from iat_nova.report import sentences
from iat_nova.strategies.registry import StrategyError
from tests.unit.policy.hosts import ONE

TEXT = """
parameters:
  ddio_ways_max: {{ 6 if (nic_speed_gbps or 0) >= 25 else 3 }}
  interval: {{ 10 if (hour or 0) < 6 else 1 }}s
"""


def on(speed=None, hour=12, **changes):
    """A host whose link has a speed."""
    nics = (dataclasses.replace(ONE.nics[0], speed_gbps=speed),)
    return dataclasses.replace(ONE, nics=nics, hour=hour, **changes)


class Journal:
    """What was told: problems, events, reads."""

    def __init__(self):
        self.problems, self.told, self.reads = [], [], 0

    def problem(self, code, said):
        self.problems.append(said)

    def solved(self, code, said):
        self.problems.clear()

    def tell(self, said):
        self.told.append(said)

    def policy_read(self):
        self.reads += 1


class TestKeeper(unittest.TestCase):
    def setUp(self):
        self.text, self.used, self.refuse = TEXT, [], False
        self.journal = Journal()
        self.changed = threading.Event()
        self.host = on()
        self.rendered = 0
        self.keeper = PolicyKeeper(self.read(), self.read, self.render, self.journal, self.changed)

    def read(self):
        return policy.parse(self.text, self.host)

    def render(self, old, host):
        self.rendered += 1
        return policy.parse(old.text, host)

    def use(self, taken):
        if self.refuse:
            raise StrategyError("no such strategy")
        self.used.append(taken)

    def late(self, host):
        """Look once, and have the answer come after the look."""
        gate = threading.Event()

        def waiting(call):
            def wait(*arguments):
                gate.wait(5.0)
                return call(*arguments)

            return wait

        self.keeper._question = Deadline(0.0, self.changed.set)
        self.keeper._read = waiting(self.read)
        self.keeper._render = waiting(self.render)
        self.keeper.look(host, self.use)
        gate.set()
        self.assertTrue(self.changed.wait(5.0))
        self.changed.clear()

    def look(self, host):
        """Look until what was asked has been answered."""
        self.host = host
        self.keeper.look(host, self.use)
        while self.keeper._question.asked:
            self.changed.wait(5.0)
            self.keeper.look(host, self.use)

    @property
    def most(self):
        return self.keeper.policy.parameters.ddio_ways_max

    def test_a_link_that_trains_after_the_start(self):
        """Its speed is in the policy at the next look, once, and it is told."""
        for speed, most in ((None, 3), (25.0, 6), (25.0, 6), (10.0, 3)):
            self.look(on(speed))
            self.assertEqual(most, self.most)
        self.assertEqual((2, 2), (self.rendered, len(self.used)))
        rendered = message("policy-rendered-again", facts=("nic_speed_gbps",))
        self.assertEqual([rendered] * 2, self.journal.told)
        self.assertEqual(0, self.journal.reads)

    def test_the_time_of_day(self):
        """An hour that changes nothing is not used; facts that are not asked for change nothing."""
        self.look(on(hour=13))
        self.assertEqual((1, []), (self.rendered, self.used))
        self.look(on(hour=13, weekday="sun"))
        self.look(on(hour=13, online_cpus=(0, 1)))
        self.assertEqual(1, self.rendered)
        self.look(on(hour=3))
        self.assertEqual(10.0, self.keeper.policy.parameters.interval_s)

    def test_a_file_that_is_being_edited(self):
        """What is on disk counts when somebody asks for it, not when the host changes."""
        self.text = "parameters: {ddio_ways_max: 4}"
        self.look(on(25.0))
        self.assertEqual(6, self.most)
        self.keeper.ask()
        self.assertTrue(self.changed.is_set())
        self.look(on(25.0))
        self.assertEqual((4, 1), (self.most, self.journal.reads))
        self.look(on(hour=1))  # of which it does not ask
        self.assertEqual(1, self.rendered)

    def test_facts_it_cannot_be_rendered_for(self):
        """The old one stays, tried once; other facts, or a reload, end it."""
        self.text = "parameters: {ddio_ways_max: {{ 12 // (hour - 6) }}}"
        self.keeper.ask()
        self.look(on())
        self.assertEqual(2, self.most)
        for _ in range(3):
            self.look(on(hour=6))
        self.assertEqual((1, 2), (self.rendered, self.most))
        refused = self.journal.problems[0]
        self.assertEqual(
            ("policy-facts-refused", ("hour",)), (refused.code, refused.values["facts"])
        )
        self.look(on(hour=8))
        self.assertEqual(([], 6), (self.journal.problems, self.most))

    def test_a_strategy_that_does_not_take_it(self):
        """As with what cannot be rendered; a reload that is refused counts as read."""
        self.refuse = True
        self.look(on(25.0))
        self.assertEqual(3, self.most)
        self.keeper.ask()
        self.look(on(25.0))
        self.assertEqual(1, self.journal.reads)
        self.assertEqual("policy-reload-failed", self.journal.problems[-1].code)

    def test_widths_count_for_every_policy(self):
        """Bounds and sizes are made of them, template or not."""
        self.text = "classes: [{name: a, ways: {min: 4MiB}}]"
        self.keeper.ask()
        self.look(on())
        least = functools.partial(lambda: self.keeper.policy.rules.classes[0].ways.min)
        self.assertEqual(2, least())
        (domain,) = ONE.domains
        self.look(on(domains=(dataclasses.replace(domain, way_bytes=1 << 20),)))
        self.assertEqual(4, least())

    def test_never(self):
        """Without a way to render it, it stays as it is."""
        keeper = PolicyKeeper(self.read(), self.read, None, self.journal, self.changed)
        keeper.look(on(25.0), self.use)
        self.assertEqual(3, keeper.policy.parameters.ddio_ways_max)

    def test_a_request_while_a_late_rendering_waits(self):
        """It is not forgotten until the next reading of the inventory, which may be a minute."""
        self.late(on(25.0))
        self.keeper.ask()
        self.changed.clear()  # by the loop, before its look
        self.keeper.look(on(25.0), self.use)
        self.assertTrue(self.changed.is_set())
        self.look(on(25.0))
        self.assertEqual(1, self.journal.reads)

    def test_a_request_while_a_late_reading_waits(self):
        """The reading of the earlier request is no answer to it."""
        self.keeper.ask()
        self.changed.clear()
        self.late(on())
        self.keeper.ask()
        self.keeper.look(on(), self.use)
        self.assertEqual((1, 0), (len(self.used), self.journal.reads))
        self.text = "colour: blue"
        self.look(on())
        self.assertEqual((1, 1), (len(self.used), self.journal.reads))
        self.assertTrue(self.keeper.refused)

    def test_an_error_that_nobody_expects(self):
        """It is a refused policy, with a traceback in the log; the loop goes on."""
        self.keeper._read = lambda: {}["no such"]
        self.keeper.ask()
        with self.assertLogs("iat_nova", "ERROR") as told:
            self.look(on())
        self.assertIn("Traceback", told.output[0])
        (problem,) = self.journal.problems
        self.assertIn("KeyError('no such')", sentences.text(problem))
        self.assertEqual((True, 1), (self.keeper.refused, self.journal.reads))
