# SPDX-License-Identifier: Apache-2.0
"""bench llc as a person types it."""

import functools
import json
from unittest import mock

from iat_nova.experiments.times import llc as bench
from tests.unit.cmd.test_cli import CliCase


class TestBenchLlc(CliCase):
    def bench(self, *arguments):
        with (
            mock.patch.object(bench, "rows", functools.partial(bench.rows, 20_000)),
            mock.patch.object(bench, "testbed_rows", functools.partial(bench.testbed_rows, 0.002)),
        ):
            status, out, err = self.run_it("bench", "llc", *arguments)
        self.assertEqual(0, status, err)
        return out

    def test_json(self):
        """A program finds each trace, the engine and its accesses a second."""
        rows = [
            row for row in json.loads(self.bench("-f", "json")) if row["engine"] == bench.ENGINE
        ]
        self.assertEqual(
            ["hit-heavy", "llc-heavy", "miss-heavy", "dma"], [row["trace"] for row in rows]
        )
        for row in rows:
            self.assertGreater(row["accesses_per_s"], 0)
            self.assertIsNone(row["emulated_s_per_s"])

    def test_whole_server(self):
        """How many seconds are emulated a second is told with --testbed."""
        rows = json.loads(self.bench("--testbed", "-f", "json"))
        self.assertEqual(["testbed-7", "testbed-18"], [row["trace"] for row in rows])
        self.assertTrue(all(row["emulated_s_per_s"] > 0 for row in rows))

    def test_a_person_reads_no_none(self):
        """A trace has no emulated seconds."""
        self.assertNotIn("None", self.bench())
