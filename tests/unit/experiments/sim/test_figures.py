# SPDX-License-Identifier: Apache-2.0
"""Published figures: claims are judged, points are kept, what came of it is written."""

import csv
import dataclasses
import json
import pathlib
import tempfile
import unittest
from unittest import mock

from iat_nova.experiments.papers import catalogue, claims, heads, pages, runner
from iat_nova.experiments.papers.api import REFUSED, ClaimFinding, Figure
from iat_nova.experiments.runs import parallel
from iat_nova.hardware.api import HardwareError
from iat_nova.hardware.counters import perf_event
from tests.unit import pages as documentation
from tests.unit.experiments.sim import in_process

ROWS = pathlib.Path(__file__).parents[4] / "doc" / "source" / "figures"


def _points(seeds):
    return [{"ring": ring, "seed": seed} for ring in (64, 1024) for seed in range(1, seeds + 1)]


def _measure(point):
    if point["ring"] == 7:
        raise ValueError("no such ring")
    if point["ring"] == 9:
        return {REFUSED: "no right"}
    return {"rate_mpps": point["ring"] / 64 + point["seed"]}


def _judge(rows):
    by_ring = {row["ring"]: row["rate_mpps"] for row in rows}
    yield ClaimFinding("iat-3a-64", 100 * by_ring[64] / by_ring[1024], "made up")
    yield ClaimFinding("iat-3a-mono", by_ring[64] < by_ring[1024], "made up")


def _draw(canvas, rows):
    canvas.subplots().plot([row["rate_mpps"] for row in rows])


FIGURE = Figure("iat-3a", "Rings", "nowhere", "made up", _points, _measure, _judge, _draw)


class ClaimsTest(unittest.TestCase):
    def test_all_are_read(self):
        """Each claim of the list has an id of its own, a figure, and a range if it is a value."""
        found = claims.load()
        self.assertEqual(claims.SOURCE.read_text().count("- {id:"), len(found))
        self.assertEqual(-13.0, found["iat-3a-512"].published)
        self.assertEqual((53.6, 111.5), found["iat-10a-base"].published)
        self.assertEqual(35.2, found["a4-8b"].parts["0x1e0"])
        self.assertIsNone(found["iat-9-knee"].published)

    def test_the_allowance(self):
        """From outside a range a quarter of its nearer end is allowed, whatever the sign."""
        for measured, published, met in (
            (-13, -13.0, True),
            (-16.25, -13.0, True),
            (-16.3, -13.0, False),
            (-9.74, -13.0, False),
            (0, (0.0, 10.0), True),
            (-0.1, (0.0, 10.0), False),
            (12.5, (0.0, 10.0), True),
            (-65, (-52.2, -34.5), True),
            (-65.3, (-52.2, -34.5), False),
            (-26, (-52.2, -34.5), True),
            (-25, (-52.2, -34.5), False),
        ):
            with self.subTest(measured=measured, published=published):
                self.assertEqual(met, claims.meets(measured, published))
        self.assertTrue(claims.meets(4.9, 0.3, points=5))
        self.assertFalse(claims.meets(5.4, 0.3, points=5))

    def test_parts_and_spreads(self):
        """Parts come in the list's order; of a spread both ends count; an order is as found."""
        verdicts = claims.judge(
            [
                ClaimFinding("a4-8b", 36.0, "", part="0x1e0"),
                ClaimFinding("a4-8b", 10.0, "", part="0x1c0"),
                ClaimFinding("iat-12-redis", (2.5, 30.0), ""),
                ClaimFinding("iat-9-knee", True, ""),
                ClaimFinding("a4-3b-min", 4.0, "", part="0x600", published=0.3, points=5.0),
            ]
        )
        self.assertEqual(
            [("a4-8b/0x1e0", 35.2, True), ("a4-8b/0x1c0", 29.3, False),
             ("iat-12-redis", (2.5, 14.8), False), ("iat-9-knee", None, True),
             ("a4-3b-min/0x600", 0.3, True)],
            [(verdict.claim, verdict.published, verdict.met) for verdict in verdicts],
        )  # fmt: skip

    def test_misspelt_parts(self):
        """A finding or a calibration that names no published part is refused."""
        with self.assertRaisesRegex(KeyError, "0x1f0"):
            claims.judge([ClaimFinding("a4-8b", 36.0, "", part="0x1f0")])
        item = {"id": "x", "figure": "x", "claim": "x", "kind": "value", "parts": {"1 way": 2}}
        with self.assertRaisesRegex(ValueError, "x: calibration names .*2 ways.*1 way"):
            claims._claim({**item, "calibration": ["2 ways"]})

    def test_ends_of_spreads(self):
        """Each end of a spread is held against its own published end."""
        for claim, measured, met in (
            ("iat-10a-base", (41.6, 44.1), False),
            ("iat-10a-base", (54.0, 110.0), True),
            ("iat-10b-base", (-31.9, -30.6), False),
            ("iat-10b-base", (-50.0, -30.6), True),
            ("iat-12-fc", (4.4, 18.0), False),
            ("iat-12-fc", (3.6, 24.0), True),
        ):
            with self.subTest(claim=claim, measured=measured):
                (verdict,) = claims.judge([ClaimFinding(claim, measured, "")])
                self.assertEqual(met, verdict.met)

    def test_strictly(self):
        """Without the tolerance a value lies in the range, or rounds to what is in print."""
        for claim, measured, met, strict in (
            ("iat-10a-base", (54.0, 110.0), True, True),
            ("iat-10a-base", (53.0, 110.0), True, False),
            ("iat-10b-base", (-50.0, -30.6), True, False),
            ("iat-8-bw", -15.64, True, True),
            ("iat-8-bw", -15.66, True, False),
            ("iat-8-ipc", 5.4, True, True),
            ("iat-8-ipc", 5.6, True, False),
            ("a4-8b-fio", (10.46, 10.54), True, True),
            ("a4-8b-fio", (10.4, 10.6), True, False),
            ("iat-9-knee", True, True, True),
            ("iat-9-knee", None, False, False),
        ):
            with self.subTest(claim=claim, measured=measured):
                (verdict,) = claims.judge([ClaimFinding(claim, measured, "")])
                self.assertEqual((met, strict), (verdict.met, verdict.strict))

    def test_bounds(self):
        """An upper bound has no tolerance."""
        for claim, measured, met in (
            ("iat-15", 800.0, True),
            ("iat-15", 801.0, False),
            ("iat-12-iat", 5.1, False),
        ):
            with self.subTest(claim=claim, measured=measured):
                (verdict,) = claims.judge([ClaimFinding(claim, measured, "")])
                self.assertEqual((met, met), (verdict.met, verdict.strict))

    def test_sets(self):
        """A claim on which a constant was fitted is known as such, as is a single part of one."""
        verdicts = claims.judge(
            [
                ClaimFinding("iat-3a-512", -13.0, ""),
                ClaimFinding("iat-3a-mono", True, ""),
                ClaimFinding("a4-8b", 30.0, "", part="0x1e0"),
                *(
                    ClaimFinding("pool-crcoff5", 50.0, "", part=f"{n} instances")
                    for n in (1, 2, 4, 8, 12)
                ),
            ]
        )
        fitted = [verdict.claim for verdict in verdicts if verdict.set == "calibration"]
        self.assertEqual(["iat-3a-512", "a4-8b/0x1e0", "pool-crcoff5/12 instances"], fitted)
        self.assertEqual("calibration", claims.missing("iat-8", [])[2].set)

    def test_reasons_of_misses(self):
        """A claim of which every recorded part is met explains no miss."""
        recorded = json.loads((documentation.SOURCE / "figures" / "verdicts.json").read_text())
        missed = {row["claim"].partition("/")[0] for row in recorded if not row["met"]}
        explained = {claim.id for claim in claims.load().values() if claim.why}
        self.assertEqual(set(), explained - missed)

    def test_why(self):
        """A missed claim names its mechanism, a met one does not."""
        missed, met = claims.judge(
            [ClaimFinding("adca-8-dca", value, "SPEC") for value in (9.0, 2.1)]
        )
        self.assertRegex(missed.reason, "^SPEC. Why: the stand-in for fp misses at random")
        self.assertEqual("SPEC", met.reason)

    def test_what_nobody_measured(self):
        """A claim without a finding is not met, and says so; so is each part of one."""
        found = claims.judge([ClaimFinding("iat-3a-mono", True, "")])
        left = claims.missing("iat-3a", found)
        self.assertEqual(["iat-3a-512", "iat-3a-64"], [verdict.claim for verdict in left])
        self.assertFalse(any(verdict.met for verdict in left))
        found = claims.judge([ClaimFinding("a4-8b", 36.0, "", part="0x1e0")])
        left = claims.missing("a4-8b", found)
        self.assertEqual([29.3, 24.1, 20.3, 16.6, 10.5], [verdict.published for verdict in left])
        self.assertEqual("a4-8b/0x1c0", left[0].claim)


class RunTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="iat-figures-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def measure(self, figure=FIGURE, seeds=2, executor=in_process.executor):
        told = []
        with mock.patch.object(parallel, "executor", executor):
            rows = runner.measure(
                [figure], seeds, self.folder / "points", 1, lambda *a: told.append(a)
            )
        return rows, told

    def test_measured_once(self):
        """Rows come in the order of the points; what is kept is not measured again."""
        rows, told = self.measure(executor=parallel.executor)
        self.assertEqual([2.0, 3.0, 17.0, 18.0], [row["rate_mpps"] for row in rows["iat-3a"]])
        self.assertEqual([(done, 4) for done in range(1, 5)], told)
        with (self.folder / "points" / "iat-3a.jsonl").open("a") as file:
            file.write('{"sources": "half a li')  # killed while it wrote
        again, told = self.measure()
        self.assertEqual((rows, []), (again, told))

    def test_other_sources(self):
        """What other sources measured does not count."""
        self.measure(seeds=1)
        path = self.folder / "points" / "iat-3a.jsonl"
        path.write_text(path.read_text().replace('"sources": "', '"sources": "0'))
        _, told = self.measure(seeds=1)
        self.assertEqual(2, len(told))

    def test_what_counts_as_sources(self):
        """A figure depends on its own files, not on other figures, claims nor pages."""
        found = {source.name for source in runner.sources("consolidation")}
        helpers = {"consolidation.py", "consolidation.yaml", "definition.py", "measure.py"}
        self.assertLessEqual(helpers | {"server.py", "controller.py"}, found)
        self.assertFalse(
            {"iat_8.py", "iat_8.yaml", "pages.py", "charts.py", "claims.py", "claims.yaml",
             "page.html.j2", "main.py"} & found
        )  # fmt: skip

    def test_a_machine_that_refuses(self):
        """What it does not let be measured is asked again the next time."""
        refused = Figure("iat-3a", "", "", "", lambda seeds: [{"ring": 9, "seed": 1}],
                         _measure, _judge, _draw)  # fmt: skip
        for _ in range(2):
            rows, told = self.measure(refused)
            self.assertEqual("no right", rows["iat-3a"][0][REFUSED])
            self.assertEqual([(1, 1)], told)

    def test_loop_without_counters(self):
        """Where perf is shut the loop's time is no number, and the reason is told."""
        figure = catalogue.figures()["iat-15"]
        point = figure.points(1)[0]
        refusal = HardwareError("processor 0: Permission denied")
        with mock.patch.object(perf_event, "_open", side_effect=refusal):
            row = {**point, **figure.measure(point)}
        verdicts = pages.write(self.folder, {"iat-15": figure}, {"iat-15": [row]})
        self.assertEqual({(None, False)}, {(one.measured, one.met) for one in verdicts})
        for verdict in verdicts:
            self.assertRegex(verdict.reason, "^not measured: processor 0: Permission denied")
        self.assertIn("not measured", (self.folder / "iat-15.svg").read_text())

    def test_a_point_that_fails(self):
        """The error names figure and point."""
        bad = Figure("iat-3a", "", "", "", lambda seeds: [{"ring": 7, "seed": 1}],
                     _measure, _judge, _draw)  # fmt: skip
        with self.assertRaisesRegex(runner.PointError, 'iat-3a, {"ring": 7.*no such ring'):
            self.measure(bad)

    def test_pages(self):
        """Data, picture, verdicts and the page are there and agree."""
        rows, _ = self.measure()
        verdicts = pages.write(self.folder, {"iat-3a": FIGURE}, rows)
        self.assertEqual([False, True, False], [verdict.met for verdict in verdicts])
        record = json.loads((self.folder / "iat-3a.json").read_text())
        self.assertEqual(rows["iat-3a"], record["rows"])
        with (self.folder / "iat-3a.csv").open() as file:
            self.assertEqual("18.0", list(csv.DictReader(file))[-1]["rate_mpps"])
        self.assertIn("<svg", (self.folder / "iat-3a.svg").read_text())
        page = (self.folder / pages.PAGE).read_text()
        self.assertIn("Judged claims met within 25 %: 1 of 2;", page)
        kept = json.loads((self.folder / pages.VERDICTS).read_text())
        self.assertEqual([verdict.claim for verdict in verdicts], [one["claim"] for one in kept])

    def test_counts(self):
        """The page counts what is met within the tolerance and strictly, each set apart."""
        spread = Figure("iat-4", "", "", "", _points, _measure,
                        lambda rows: [ClaimFinding("iat-4-thru", -26.0, ""),
                                      ClaimFinding("iat-4-lat", 38.0, "")], _draw)  # fmt: skip
        rows, _ = self.measure()
        pages.write(self.folder, {"iat-4": spread}, {"iat-4": rows["iat-3a"]})
        page = (self.folder / pages.PAGE).read_text()
        self.assertIn("Judged claims met within 25 %: 1 of 1; strictly:\n0.", page)
        self.assertIn("(calibration), met within 25 %:\n1 of 1;", page)

    def test_recorded(self):
        """What a folder holds can be judged again; what is no record is named."""
        rows, _ = self.measure()
        pages.write(self.folder, {"iat-3a": FIGURE}, rows)
        self.assertEqual(rows, pages.recorded(self.folder, ["iat-3a", "iat-4"]))
        for text in ("", "{}", "[]", '{"rows": 3}'):
            (self.folder / "iat-3a.json").write_text(text)
            with (
                self.subTest(text),
                self.assertRaisesRegex(pages.FigureRecordError, "iat-3a.json is no"),
            ):
                pages.recorded(self.folder, ["iat-3a"])


class CatalogueTest(unittest.TestCase):
    def test_heads(self):
        """The list that is read without the emulated server has each figure, in the same order."""
        figures = catalogue.figures().values()
        listed = [dataclasses.astuple(one) for one in heads.heads()]
        self.assertEqual([(one.name, one.title, one.source) for one in figures], listed)

    def test_each_figure(self):
        """A figure has points, each of them once."""
        for name, figure in catalogue.figures().items():
            with self.subTest(name):
                self.assertEqual(name, figure.name)
                points = [json.dumps(point, sort_keys=True) for point in figure.points(3)]
                self.assertTrue(points)
                self.assertEqual(len(points), len(set(points)))

    def test_each_claim(self):
        """Each claim is one of a figure that there is, and each of its parts is judged."""
        figures = catalogue.figures()
        self.assertLessEqual({claim.figure for claim in claims.load().values()}, figures.keys())
        for name, figure in figures.items():
            with self.subTest(name):
                record = json.loads((ROWS / f"{name}.json").read_text())
                verdicts = claims.judge(figure.judge(record["rows"]))
                self.assertEqual([], claims.missing(name, verdicts))
                self.assertTrue(all(verdict.figure == name for verdict in verdicts))

    def test_reasons(self):
        """Each claim that the recorded rows miss has a mechanism, but the validation's errors."""
        for name in catalogue.figures():
            record = json.loads((ROWS / f"{name}.json").read_text())
            for verdict in record["verdicts"]:
                if not verdict["met"] and verdict["set"] != "validation":
                    with self.subTest(verdict["claim"]):
                        self.assertTrue(claims.load()[verdict["claim"].split("/")[0]].why)

    def test_recorded_verdicts(self):
        """The recorded verdicts are what the recorded rows give, so the page is not older."""
        for name, figure in catalogue.figures().items():
            with self.subTest(name):
                record = json.loads((ROWS / f"{name}.json").read_text())
                found = claims.judge(figure.judge(record["rows"]))
                found += claims.missing(name, found)
                fresh = json.loads(json.dumps([dataclasses.asdict(one) for one in found]))
                self.assertEqual(record["verdicts"], fresh)
