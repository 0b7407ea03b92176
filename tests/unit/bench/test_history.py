# SPDX-License-Identifier: Apache-2.0
"""The history's bench, on a host of two tenants."""

import unittest
from unittest import mock

from iat_nova.bench import history as bench
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

    def test_a_restless_host_decides_more(self):
        calm, restless = (
            next(bench.rows(["pollute-buffer"], 1, 2, 200, change_s)) for change_s in (1000, 70)
        )
        self.assertGreater(restless.decisions, calm.decisions)

    def test_unknown_strategy(self):
        with self.assertRaisesRegex(StrategyError, "magic"):
            next(bench.rows(["magic"], iterations=240))


class TestCommand(CliCase):
    def test_what_is_wrong_is_named(self):
        """Too few iterations show nothing; a strategy that does not exist."""
        status, _, err = self.run_it("bench", "history", "--iterations", "10")
        self.assertEqual(2, status)
        self.assertIn("--iterations 10: at least 600", err)
        status, _, err = self.run_it("bench", "history", "--strategy", "magic")
        self.assertEqual(1, status)
        self.assertIn("magic", err)
