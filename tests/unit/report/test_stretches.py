# SPDX-License-Identifier: Apache-2.0
"""The report tells why nothing was done, when no agent ran, and which tenant gained or lost."""

import dataclasses
from unittest import mock

from iat_nova.model import Group, WayMask
from iat_nova.report import html as report
from iat_nova.store.reader import HistoryReader
from tests.unit import stories
from tests.unit.report.test_moments import MomentCase


class StretchTest(MomentCase):
    def page(self) -> str:
        """Return the report."""
        self.assertTrue(self.history.flush(60.0), self.history.problem)
        with HistoryReader(self.path) as reader:
            return " ".join(report.write(reader).split())

    def test_a_stretch_without_a_decision_has_its_reason(self) -> None:
        """As a row among the decisions, newest first, and in the strip above the ways."""
        self.iterate(1, 40)
        page = self.page()
        row = page.index("nothing done for 38 s")
        self.assertLess(row, page.index('<td class="num inline">2</td>'))
        self.assertIn("no tenant is awake", page[row : row + 300])
        self.assertIn('<rect class="quiet"', page)
        self.assertIn("<b>97%</b>", page)

    def test_a_stretch_has_the_end_of_the_search(self) -> None:
        """The moves and what was against them were told once, at its begin."""
        self.iterate(1, 400, searched=4)
        page = self.page()
        row = page.index("nothing done for 6 min 38 s")
        self.assertIn("awake; at #4: nothing more to try: no move is", page[row : row + 300])

    def test_a_short_time_is_no_stretch(self) -> None:
        """Nine seconds without a decision are not listed."""
        self.iterate(1, 11)
        self.assertNotIn("nothing done for", self.page())

    def test_before_very_many_decisions_nothing_is_called_quiet(self) -> None:
        """Only the newest decisions are read: before the oldest of these there were others."""
        self.iterate(3, 20)
        self.iterate(1, 40)
        self.assertIn("nothing done for 19 s", self.page())
        with mock.patch.object(report, "TURNS", 1):
            self.assertNotIn("nothing done for 19 s", self.page())

    def test_no_decision_at_all(self) -> None:
        """A strategy that never moves a mask has a report: one stretch."""
        self.iterate(3, 40)
        page = self.page()
        self.assertIn("nothing done for 37 s", page)
        self.assertIn("<b>100%</b>", page)

    def test_masks_of_the_last_iteration(self) -> None:
        """What the last iteration decides is what holds at the end of the period."""
        self.iterate(1, 5)
        self.assertNotIn("masks overlap", self.page())
        self.clock.wall_s += 1
        made = stories.burst(6, self.clock.wall_s, inventory_id=self.row)
        groups = (Group(("stack",), WayMask(0x7FF)), Group((stories.PC, stories.BE), WayMask(0x7)))
        layout = dataclasses.replace(made.decision.layout, groups=groups)
        decision = dataclasses.replace(made.decision, layout=layout)
        self.history.record(dataclasses.replace(made, decision=decision))
        page = self.page()
        self.assertIn("masks overlap", page)
        self.assertIn("###........ 3 0x7 pc1, be1", page)

    def test_a_gap_has_its_cause(self) -> None:
        """Nothing is called quiet while no agent ran."""
        self.iterate(1, 30)
        self.event("agent-stopped")
        self.clock.wall_s += 600
        self.event("agent-started", version="1", pid=1)
        self.iterate(1, 30)
        page = self.page()
        row = page.index("no iterations for 10 min 1 s")
        self.assertIn("no agent ran: the agent stopped at", page[row : row + 300])
        self.assertIn("nothing done for 28 s", page)
        self.assertNotIn("nothing done for 10 min", page)
