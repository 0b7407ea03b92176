# SPDX-License-Identifier: Apache-2.0
"""The history's bench, on a host of two tenants."""

import unittest
from unittest import mock

from iat_nova.experiments.times import history as bench
from iat_nova.strategies.registry import StrategyError
from tests.unit.cmd.test_cli import CliCase


class TestRows(unittest.TestCase):
    def setUp(self):
        self.enterContext(mock.patch("iat_nova.store.writer.TRIM_EVERY", 32))

    def test_a_case(self):
        """Bytes and time are in proportion: a small host's history reaches back all of it."""
        (row,) = bench.rows(["iat"], sockets=1, tenants=2, iterations=240)
        self.assertEqual(("iat", 1, 2, 240), (row.strategy, row.sockets, row.tenants, 240))
        self.assertTrue(50 < row.row_bytes < 1000, row)
        # Whole pages are written, and into two files; but not for each iteration.
        day = bench.DAY_S * row.row_bytes
        self.assertTrue(2 * day < row.written_bytes_per_day < bench.DAY_S * 16384, row)
        self.assertEqual((24.0, bench.MAX_DAYS), (row.whole_hours, row.days))
        # The host is looked at once a minute; its guests' traffic is no new picture of it.
        self.assertLess(row.kept_bytes, 2200, row)

    def test_more_tenants_take_more(self):
        few, many = (
            next(bench.rows(["unmanaged"], sockets=1, tenants=tenants, iterations=240))
            for tenants in (1, 12)
        )
        self.assertGreater(many.row_bytes, few.row_bytes)

    def test_how_often_a_tenant_is_another(self):
        """For a minute after each of so many seconds."""
        inventory, clock = bench._inventory(bench._domain(0, 3)), bench.VirtualClock()
        counters = bench._Counters((inventory,), clock, 500)
        others = []
        for now_s in range(100, 1200, 100):
            before = counters.read()
            clock.now_s = float(now_s)
            after = counters.read()
            seconds = after.taken_at_s - before.taken_at_s
            rates = [(after.cores[n][0] - before.cores[n][0]) / seconds for n in range(3)]
            others.append([n for n, rate in enumerate(rates) if rate < 1e9])
        self.assertEqual([[], [], [], [], [1], [], [], [], [], [2], []], others)

    def test_unknown_strategy(self):
        with self.assertRaisesRegex(StrategyError, "magic"):
            next(bench.rows(["magic"], iterations=240))


class TestCommand(CliCase):
    def test_what_was_asked_is_measured(self):
        rows = self.enterContext(mock.patch.object(bench, "rows", return_value=iter(())))
        command = ("bench", "history", "--sockets", "1", "--tenants", "3", "--change-s", "60")
        self.assertEqual(0, self.run_it(*command)[0])
        self.assertEqual((1, 3, 3600, 60), rows.call_args.args[1:])

    def test_what_is_wrong_is_named(self):
        """Too few iterations show nothing; a strategy that does not exist."""
        status, _, err = self.run_it("bench", "history", "--iterations", "10")
        self.assertEqual(2, status)
        self.assertIn("--iterations 10: at least 600", err)
        status, _, err = self.run_it("bench", "history", "--strategy", "magic")
        self.assertEqual(2, status)
        self.assertNotIn("15 tenants", err)
        self.assertIn("magic", err)
