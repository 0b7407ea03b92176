# SPDX-License-Identifier: Apache-2.0
"""The cache pressure of an iteration, where masks are written and where the agent observes."""

import dataclasses
import unittest

from iat_nova.model import Priority
from iat_nova.report import pressures
from iat_nova.strategies.outlook import Outlook
from iat_nova.strategies.prospect import Prospect
from tests.unit import stories


class PressureTest(unittest.TestCase):
    """A quiet iteration of the three tenants."""

    inventory = stories.inventory()
    written = stories.quiet(1, stories.NIGHT)
    observed = dataclasses.replace(written, effective=None)

    def test_without_written_masks_everybody_shares_all_ways(self) -> None:
        """A guest loses more to the others, and a new guest finds more room."""
        both = (self.written, self.observed)
        lost = [pressures.losses(self.inventory, one)[stories.BE].likely for one in both]
        self.assertLess(*lost)
        found = [pressures.newcomers(self.inventory, one)[Priority.PC] for one in both]
        self.assertEqual([1.5, 2.65], found)
        shares = [pressures.fills(self.inventory, one)["stack"].share for one in both]
        self.assertEqual([0.18, 0.39], [round(one, 2) for one in shares])

    def test_what_enforcing_could_give(self) -> None:
        """Only while nothing is written."""
        self.assertIsNone(pressures.worth(self.inventory, self.written))
        found = pressures.worth(self.inventory, self.observed)
        assert found is not None
        self.assertEqual(1, found.guests)
        self.assertEqual(
            "likely 2.5% (at most 30%; cost of a miss known for 1 of 2 critical guests)",
            pressures.worth_words(Prospect(0.025, 0.3, 1, 2)),
        )

    def test_whether_a_move_is_left(self) -> None:
        """Not known before the strategy has said."""
        for outlook, expected in (
            (Outlook.UNKNOWN, None), (Outlook.ALL_FAILED, True), (Outlook.NO_PROMISE, True),
        ):  # fmt: skip
            one = dataclasses.replace(self.written, outlook=outlook)
            self.assertIs(expected, pressures.exhausted(one))
