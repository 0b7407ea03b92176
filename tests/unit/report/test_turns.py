# SPDX-License-Identifier: Apache-2.0
"""Decisions as rows: each tenant has the name of its own cache domain's inventory."""

import dataclasses

from iat_nova.report.turns import Turns
from iat_nova.store.reader import HistoryReader
from tests.unit import stories
from tests.unit.report.test_moments import MomentCase


class TurnsTest(MomentCase):
    def test_two_cache_domains_of_one_inventory(self) -> None:
        """Of a host with two sockets, in either order."""
        other = dataclasses.replace(
            stories.inventory(),
            domain=dataclasses.replace(stories.DOMAIN, id=1),
            tenants=(dataclasses.replace(stories.inventory().tenants[0], name="second"),),
        )
        both = {0: stories.inventory(), 1: other}
        row = self.history.inventory(self.clock.wall_s, stories.facts(), both)
        for domain in (0, 1):
            made = stories.burst(1, self.clock.wall_s + domain, inventory_id=row)
            step = dataclasses.replace(made.decision.steps[0], subject="stack")
            decision = dataclasses.replace(made.decision, domain=domain, steps=(step,), moved=())
            self.history.record(dataclasses.replace(made, domain=domain, decision=decision))
        self.assertTrue(self.history.flush(60.0))
        with HistoryReader(self.path) as reader:
            turns = Turns(reader)
            names = [
                turn.name
                for recorded in reader.decisions(9)
                for turn in turns.of(recorded)
                if turn.subject == "stack"
            ]
        self.assertEqual(["second", "vswitch"], names)
