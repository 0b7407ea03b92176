# SPDX-License-Identifier: Apache-2.0
"""Prediction against what came: two short runs, and the rank correlation."""

import dataclasses
import json
import re
import unittest
from unittest import mock

from iat_nova.experiments.compare import worth
from iat_nova.experiments.runs import parallel
from iat_nova.experiments.scenarios.reader import load_scenario
from tests.unit import pages
from tests.unit.cmd.test_cli import CliCase
from tests.unit.experiments.sim.in_process import executor


def row(likely, came):
    return worth.Row("host", likely, 1.0, 1.0, came)


class Correlation(unittest.TestCase):
    def test_order_alone_counts(self):
        """Any growing relation is 1, a falling one -1; equal values share their rank."""
        rows = [row(x, x**3) for x in (0.1, 0.4, 0.2, 0.3)]
        self.assertAlmostEqual(1.0, worth.rank_correlation(rows)[0])
        rows = [row(x, -x) for x in (0.1, 0.4, 0.2)]
        self.assertAlmostEqual(-1.0, worth.rank_correlation(rows)[0])
        tied = [row(0.1, 0.0), row(0.1, 0.1), row(0.2, 0.2), row(0.3, 0.3)]
        self.assertAlmostEqual(0.9486833, worth.rank_correlation(tied)[0])

    def test_what_is_not_known_is_left_out(self):
        """Few hosts, or hosts all alike, have no correlation."""
        rows = [row(0.1, 0.1), row(None, 0.2), row(0.2, None), row(0.3, 0.3)]
        self.assertEqual((None, 2), worth.rank_correlation(rows))
        self.assertEqual((None, 3), worth.rank_correlation([row(0.1, 0.1)] * 3))


class Page(unittest.TestCase):
    def test_what_the_page_shows(self):
        """As many hosts as the command on the page draws; parts that leave none out."""
        drawn = pages.extension("drawn_records")
        text = (pages.SOURCE / "operator/metrics.rst").read_text(encoding="utf-8")
        (count,) = re.findall(r"--random (\d+) --seed 9001 ", text)
        self.assertEqual(int(count), len(json.loads(drawn.WORTH.read_text(encoding="utf-8"))))
        pairs = drawn.estimates(drawn.WORTH)
        found = [(list(likely), list(came)) for likely, came in drawn.parts(pairs, 3)]
        self.assertEqual([likely for likely, _ in pairs], [x for part, _ in found for x in part])
        self.assertEqual([came for _, came in pairs], [x for _, part in found for x in part])


class Runs(unittest.TestCase):
    def test_a_host(self):
        """A streamer beside a database and a forwarder: both sides are known, and positive."""
        scenario = dataclasses.replace(load_scenario("be-streamer"), length_s=6.0, compression=0.01)
        with executor() as runs:
            (found,) = worth.rows([scenario], "pollute-buffer", 2, executor=runs)
            (first,) = worth.rows([scenario], "pollute-buffer", 1, executor=runs)
        self.assertEqual("be-streamer", found.host)
        self.assertNotEqual(first.came, found.came)  # a mean of two seeds
        self.assertGreater(found.likely, 0.0)
        self.assertGreaterEqual(found.most, found.likely)
        self.assertIsNotNone(found.came)


class Option(CliCase):
    def test_compare(self):
        """A row for each host, as data and for people; the correlation beside it."""
        shown = dataclasses.replace(row(0.1, 0.2), host="quickstart")
        words = ("simulate", "compare", "quickstart", "--worth", "--out", str(self.folder / "out"))
        with (
            mock.patch.object(worth, "rows", side_effect=lambda *_, **__: iter([shown])) as rows,
            mock.patch.object(parallel, "executor", executor),
        ):
            status, out, err = self.run_it(*words, "-f", "json")
            self.assertEqual((0, [dataclasses.asdict(shown)]), (status, json.loads(out)))
            self.assertIn("likely and actual gain: unknown (1 of 1 hosts)", err)
            self.assertEqual(("pollute-buffer", 1), rows.call_args.args[1:])
            self.assertRegex(self.run_it(*words)[1], r"quickstart +\| 10.0% ")
            self.run_it(*words, "--seeds", "3")
            self.assertEqual(("pollute-buffer", 3), rows.call_args.args[1:])
