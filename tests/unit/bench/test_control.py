# SPDX-License-Identifier: Apache-2.0
"""bench control as a person types it."""

import json

from tests.unit.cmd.test_cli import CliCase


class TestBenchControl(CliCase):
    def test_json(self):
        """A program finds each strategy's regret, who starves and how much moves at rest."""
        asked = ("bench", "control", "--hosts", "2", "--jobs", "1", "--strategy", "baseline")
        status, out, err = self.run_it(*asked, "--strategy", "unmanaged", "-f", "json")
        self.assertEqual(0, status, err)
        rows = json.loads(out)
        self.assertEqual(["baseline", "unmanaged"], [row["strategy"] for row in rows])
        columns = [
            "strategy",
            "noise",
            "regret_mean",
            "regret_p90",
            "starved",
            "changes_per_minute",
        ]
        for row in rows:
            self.assertEqual(columns, list(row))
            self.assertEqual((0.01, 0.0), (row["noise"], row["changes_per_minute"]))
        self.assertGreater(rows[0]["regret_mean"], 0.0)

    def test_what_is_wrong_is_named(self):
        """An unknown strategy, a noise that is none."""
        for arguments in (("--strategy", "magic"), ("--noise", "loud")):
            status, _, err = self.run_it("bench", "control", "--hosts", "1", *arguments)
            self.assertEqual(2, status)
            self.assertIn(arguments[1], err)
