# SPDX-License-Identifier: Apache-2.0
"""IAT's figures 12 to 14: starts, runs, judgement and drawing."""

import dataclasses
import itertools
import unittest
from unittest import mock

import matplotlib.figure

from iat_nova.experiments.papers import catalogue, claims, consolidation, definition
from iat_nova.experiments.runs.run import run
from iat_nova.experiments.scenarios.reader import load_scenario
from iat_nova.model import WayMask


class TestStarts(unittest.TestCase):
    """Where tenants lie at first."""

    def test_everybody_has_his_ways_for_himself(self):
        """Masks have the tenants' sizes and do not overlap, whatever the seed."""
        for seed in range(1, 41):
            masks = consolidation.start_masks(seed)
            self.assertEqual(consolidation.WAYS, {n: mask.count for n, mask in masks.items()})
            self.assertTrue(all(mask.is_contiguous for mask in masks.values()))
            self.assertFalse(any(a & b for a, b in itertools.combinations(masks.values(), 2)))

    def test_ddios_ways_go_round(self):
        """Four seeds put each tenant on DDIO's ways once; the others' places differ by seed."""
        tops = [
            name
            for seed in range(1, 5)
            for name, mask in consolidation.start_masks(seed).items()
            if mask.overlaps(WayMask(0x600))
        ]
        self.assertEqual(sorted(consolidation.WAYS), sorted(tops))
        starts = {consolidation.start_masks(seed)["net"] for seed in range(1, 41)}
        self.assertGreater(len(starts), 4)


class TestFigures(unittest.TestCase):
    """Each figure measures, judges all of its claims and draws."""

    def rows(self, figure, columns):
        """Make up what a run finds: the worse the less managed."""
        harm = {"solo": 1.0, "iat": 0.98, "baseline": 0.9}
        for point in figure.points(2):
            share = harm[point["strategy"]] - (0.02 * point["seed"] if "b" in point["app"] else 0)
            traffic = {"ddio_lines_per_s": 1e6}
            yield {
                **point,
                **traffic,
                **{name: 1 / share if sign < 0 else share for name, sign in columns},
            }

    def check(self, figure, columns):
        rows = list(self.rows(figure, columns))
        expected = {id for id, claim in claims.load().items() if claim.figure == figure.name}
        self.assertEqual(expected, {finding.claim for finding in figure.judge(rows)})
        canvas = matplotlib.figure.Figure(figsize=(9, 5))
        figure.draw(canvas, rows)
        self.assertTrue(all(axes.has_data() for axes in canvas.axes))

    def test_judge_and_draw(self):
        """Findings name the figure's claims, all of them; every panel shows something."""
        figures = catalogue.figures()
        self.check(figures["iat-12"], [("work_per_s", 1)])
        self.check(figures["iat-13"], [("weighted_latency_us", -1)])
        columns = [("requests_per_s", 1), ("latency_us", -1), ("latency_p95_us", -1)]
        self.check(figures["iat-14"], columns)

    def test_published_ranges(self):
        """What is drawn as published is what the claims are judged by."""
        figure = catalogue.figures()["iat-12"]
        rows = list(self.rows(figure, [("work_per_s", 1)]))
        other = {
            "iat-12-redis": dataclasses.replace(claims.load()["iat-12-redis"], published=(40, 50))
        }
        canvas = matplotlib.figure.Figure()
        with mock.patch.object(claims, "load", return_value={**claims.load(), **other}):
            figure.draw(canvas, rows)
        (band,) = (
            one for one in canvas.axes[0].patches if one.get_label() == "published, baseline"
        )
        self.assertEqual((40, 50), (band.get_bbox().y0, band.get_bbox().y1))
        with self.assertRaisesRegex(TypeError, "iat-12-spread: no value was published"):
            claims.ends("iat-12-spread")

    def test_measure(self):
        """A moment of a run through the real loop gives the columns of each figure."""
        for one, column in zip(
            definition.read("consolidation"),
            ("work_per_s", "weighted_latency_us", "latency_p95_us"),
            strict=True,
        ):
            quick = dataclasses.replace(one.run, marks_s=(0.2,))
            figure = catalogue.figure(
                dataclasses.replace(one, run=quick, let={**one.let, "length": "300ms"})
            )
            row = figure.measure(figure.points(1)[-1])
            self.assertGreater(row[column], 0, figure.name)

    def test_only_a_strategy_that_shuffles_leaves_ddios_ways(self):
        """Baseline keeps the random start; IAT brings the application out of DDIO's ways."""
        masks = consolidation.start_masks(1)
        point = {"app": "mcf", "network": "redis", "strategy": "iat", "seed": 1}
        made = catalogue.definitions()["iat-12"].made(point)
        for strategy, overlaps in (("baseline", True), ("iat", False)):
            last = run(made, strategy, 1, seconds=0.3).last
            (app,) = [group for group in last.layout.groups if group.tenants[0].endswith("/2")]
            self.assertEqual(overlaps, app.mask.overlaps(last.layout.ddio), strategy)
            if strategy == "baseline":
                self.assertEqual(masks["app"], app.mask)


class TestConsolidatedHost(unittest.TestCase):
    """The scenario that ships."""

    def test_the_database_leaves_ddios_ways(self):
        """It begins there, stays there under baseline and is out of them under IAT."""
        scenario = dataclasses.replace(load_scenario("consolidated-host"), compression=0.01)
        for strategy, overlaps in (("baseline", True), ("iat", False)):
            result = run(scenario, strategy, seconds=1.0)
            (database,) = [one.id for one in result.inventory.tenants if one.name == "database"]
            self.assertEqual(overlaps, database in result.last.layout.overlaps_ddio, strategy)
