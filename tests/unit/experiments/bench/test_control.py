# SPDX-License-Identifier: Apache-2.0
"""bench control as a person types it."""

import json

from tests.unit.cmd.test_cli import CliCase


class TestBenchControl(CliCase):
    def test_json(self):
        """A program finds each strategy's regret, who starves and how much moves at rest."""
        asked = ("bench", "control", "--hosts", "1", "--jobs", "1", "--strategy", "baseline")
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

    def test_a_seed_draws_hosts_and_families_are_left_out(self):
        """Equal seeds, equal rows; another seed has other hosts."""
        asked = ("bench", "control", "--hosts", "1", "--jobs", "1", "--strategy", "pollute-buffer")
        asked += ("--without", "confine-single,buffer-size", "-f", "json")
        first, again, other = (
            json.loads(self.run_it(*asked, "--seed", seed)[1]) for seed in ("1", "1", "2")
        )
        self.assertEqual(first, again)
        self.assertEqual(
            ["pollute-buffer", "pollute-buffer without confine-single,buffer-size"],
            [row["strategy"] for row in first],
        )
        self.assertNotEqual(first[0]["regret_mean"], other[0]["regret_mean"])

    def test_what_is_wrong_is_named(self):
        """An unknown strategy, an unknown family, a noise that is none, one above 100 %."""
        wrong = (
            ("--strategy", "magic"), ("--without", "lend"),
            ("--noise", "loud"), ("--noise", "200%"),
        )  # fmt: skip
        for arguments in wrong:
            status, _, err = self.run_it("bench", "control", "--hosts", "1", *arguments)
            self.assertEqual(2, status)
            self.assertIn(arguments[1], err)
