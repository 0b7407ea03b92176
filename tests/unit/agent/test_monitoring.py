# SPDX-License-Identifier: Apache-2.0
"""Groups follow masks and tenants, and are tried again after a refusal."""

import unittest
from unittest import mock

from iat_nova.agent.monitoring import Following
from iat_nova.hardware.api import Counts, HardwareError, TenantCounts
from iat_nova.model import Message, message, verbatim
from iat_nova.model.reasons import Code


def _not_monitored(why: str) -> Message:
    return message("not-monitored", error=verbatim(why))


class FollowingTest(unittest.TestCase):
    def setUp(self) -> None:
        self.monitor = mock.Mock(full=None)
        self.journal = mock.Mock()
        self.clock = mock.Mock()
        self.clock.now.return_value = 0.0
        self.following = Following(self.monitor, self.journal, self.clock)
        self.tenants = {0: mock.sentinel.first}

    def told(self) -> Message | None:
        """Return the latest problem."""
        code, problem, _ = self.journal.note.call_args.args
        self.assertIs(Code.NOT_MONITORED, code)
        return problem

    def test_only_what_changed_is_looked_at(self) -> None:
        """A write of masks, or other tenants; nothing while nothing of ours is written."""
        self.following.follow(self.tenants, 0)
        self.monitor.watch.assert_not_called()
        for writes, tenants, looks in (
            (1, self.tenants, 1),
            (1, self.tenants, 1),
            (2, self.tenants, 2),
            (2, {0: mock.sentinel.second}, 3),
        ):
            self.following.follow(tenants, writes)
            self.assertEqual(looks, self.monitor.watch.call_count)
        self.monitor.close.reset_mock()
        self.following.follow(self.tenants, 0)
        self.monitor.close.assert_called_once_with()

    def test_a_refusal(self) -> None:
        """It is told, and tried again after a pause though nothing changed."""
        self.monitor.watch.side_effect = HardwareError("Out of RMIDs")
        self.following.follow(self.tenants, 1)
        self.assertEqual(_not_monitored("Out of RMIDs"), self.told())
        self.following.follow(self.tenants, 1)
        self.assertEqual(1, self.monitor.watch.call_count)
        self.clock.now.return_value = 11.0
        self.monitor.watch.side_effect = None
        self.following.follow(self.tenants, 1)
        self.assertIsNone(self.told())

    def test_too_few(self) -> None:
        """Why nobody is monitored is told, and tried again after a pause."""
        self.monitor.full = "9 tenants need an RMID each, but only 1 of 9 are free"
        self.following.follow(self.tenants, 1)
        self.assertEqual(_not_monitored(self.monitor.full), self.told())
        self.clock.now.return_value = 11.0
        self.monitor.full = None
        self.following.follow(self.tenants, 1)
        self.assertIsNone(self.told())

    def test_readings_have_both(self) -> None:
        """The CPUs' counts, and the tenants'."""
        counts = {(0, "a"): TenantCounts(1, 2)}
        self.monitor.read.return_value = counts
        both = self.following.added_to(Counts(1.0, {}, {}))
        self.assertEqual(Counts(1.0, {}, {}, monitored=counts), both)
