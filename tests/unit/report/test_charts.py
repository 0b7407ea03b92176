# SPDX-License-Identifier: Apache-2.0
"""Where the report's charts draw what: one unit of the drawing is a second, in two hours' zone."""

import dataclasses
import math
import unittest
from xml.etree import ElementTree

from iat_nova.model import DDIO, PortGroup, WayMask
from iat_nova.report import charts
from iat_nova.report.charts import Axis, Curve, Row, Span
from iat_nova.report.stretches import Stretch
from tests.unit import stories

AXIS = Axis(0.0, 856.0)


def shapes(svg, kinds=("rect", "text")):
    """Return the shapes of a chart: attributes and text of each."""
    found = []
    for shape in ElementTree.fromstring(str(svg)):
        if shape.tag in kinds and not shape.attrib["class"].startswith("tick"):
            found.append(" ".join([*shape.attrib.values(), "".join(shape.itertext())]))
    return found


def labels(svg):
    """Return the labels of axes: place, height and text."""
    found = ElementTree.fromstring(str(svg)).iter("text")
    return [
        f"{one.attrib['x']} {one.attrib['y']} {one.attrib['text-anchor']} {one.text}"
        for one in found
        if one.attrib["class"].startswith("tick")
    ]


class AxisTest(unittest.TestCase):
    """The axis of time."""

    def test_places(self):
        """Times outside the period are at its ends; a period without length has one place."""
        for wall_s, x in (
            (-5.0, 132.0),
            (0.0, 132.0),
            (428.0, 560.0),
            (856.0, 988.0),
            (999.0, 988.0),
        ):
            self.assertEqual(x, AXIS.x(wall_s))
        self.assertEqual(132.0, Axis(5.0, 5.0).x(5.0))
        self.assertEqual(560.0, Axis(1000.0, 1010.0).x(1005.0))

    def test_ticks(self):
        """Round times inside the period, at most nine, from a second to days apart."""
        for begin_s, span_s, count, second in (
            (0.0, 0.0, 1, None), (0.5, 0.4, 0, None), (0.5, 8.0, 8, "00:00:02"),
            (0, 8.5, 5, "00:00:02"), (0, 40, 9, "00:00:05"), (1, 50.0, 5, "00:00:20"),
            (0, 120, 9, "00:00:15"), (0, 240, 9, "00:00:30"), (0, 480, 9, "00:01"),
            (0, 2400, 9, "00:05"), (0, 7200, 9, "00:15"), (0, 28800, 9, "01:00"),
            (1, 86399, 8, "06:00"), (1, 86400, 8, "01 Jan 06:00"), (0, 345600, 9, "01 Jan 12:00"),
            (1, 691200, 8, "03 Jan 00:00"), (1, 9 * 86400, 4, "05 Jan 00:00"),
        ):  # fmt: skip
            with self.subTest(begin_s=begin_s, span_s=span_s):
                ticks = Axis(begin_s, begin_s + span_s).ticks()
                self.assertEqual(count, len(ticks))
                self.assertEqual([second] if second else [], [text for _, text in ticks[1:2]])
                self.assertTrue(all(begin_s <= at_s <= begin_s + span_s for at_s, _ in ticks))

    def test_moments(self):
        """Without the date where the page has no other, which a time outside has."""
        for axis, at_s, said in (
            (AXIS, 60.0, "00:01:00 UTC"),
            (AXIS, 86460.0, "1970-01-02 00:01:00 UTC"),
            (Axis(60.0, 86460.0), 60.0, "1970-01-01 00:01:00 UTC"),
        ):
            self.assertEqual(said, axis.moment(at_s))

    def test_labels_stay_inside_the_drawing(self):
        """The last one is moved to the left."""
        svg = charts.curves(Axis(0.0, 480.0), [])
        self.assertEqual("132.0 137.0 middle 00:00", labels(svg)[3])
        self.assertEqual("980.0 137.0 middle 00:08", labels(svg)[-1])
        (*_, rule) = shapes(svg.replace("tick-rule", "at"), ("line",))
        self.assertEqual("at 988.0 0.0 988.0 124.0 ", rule)


class WaysTest(unittest.TestCase):
    """Ways over time, states, and stretches without a decision."""

    def test_rows(self):
        """A box for as long as a mask stays, DDIO's hatch above, and the number where it fits."""
        first, later = stories.layout(2), stories.layout(3)
        spans = [
            Span(0.0, 100.0, first, "a"),
            Span(100.0, 300.0, first, "b"),
            Span(400.0, 417.0, later, "b"),
        ]
        rows = [Row(DDIO, "ddio", "DDIO", "devices"), Row("gone", "hue1", "n" * 90, "BE")]
        svg = charts.way_rows(AXIS, spans, 11, rows)
        early, late = "00:00:00 to 00:05:00: ", "00:06:40 to 00:06:57: "
        self.assertEqual(
            [
                "row-name 124.0 29.0 end DDIO",
                "row 132.0 15.0 856.0 33.0 00:00:00 to 00:14:16: DDIO",
                f"way ddio 132.0 15.0 300.0 6.0 {early}DDIO, 2 ways 0x600",
                f"way ddio 532.0 15.0 17.0 9.0 {late}DDIO, 3 ways 0x700",
                f"hatch 132.0 15.0 300.0 6.0 {early}DDIO, 2 ways 0x600",
                f"hatch 532.0 15.0 17.0 9.0 {late}DDIO, 3 ways 0x700",
                "count 282.0 36.0 middle 2",
                "count 540.5 36.0 middle 3",
                "row-name 124.0 77.0 end nnnnnn…nnnnnn",
                f"row 132.0 63.0 856.0 33.0 00:00:00 to 00:14:16: {'n' * 90}",
                f"hatch 132.0 63.0 300.0 6.0 {early}DDIO, 2 ways 0x600",
                f"hatch 532.0 63.0 17.0 9.0 {late}DDIO, 3 ways 0x700",
            ],
            shapes(svg),
        )
        self.assertEqual(["124.0 44.0 end devices", "124.0 92.0 end BE"], labels(svg)[:2])
        self.assertIn('viewBox="0 0 1000 118"', svg)

    def test_room_for_a_number(self):
        """A number is left out where its box is narrower; a box is never too narrow to see."""
        rows = [Row("stack", "hue0", "vswitch", "stack")]
        for width, count in ((0.0, 0), (9.0, 0), (10.0, 1)):
            span = Span(100.0, 100.0 + width, stories.layout(2), "a")
            found = shapes(charts.way_rows(AXIS, [span], 11, rows))
            self.assertEqual(count, sum(one.startswith("count") for one in found))
            self.assertIn(f"way hue0 232.0 42.0 {max(width, 0.8)} 6.0 ", found[2])

    def test_ports(self):
        """The ways of a port with a class of its own have its row, and are hatched in all rows."""
        port = "0000:3b:00.0"
        ports = (PortGroup((port, "b"), WayMask(0x400)),)
        layout = dataclasses.replace(stories.layout(2), ddio=WayMask(0), ports=ports)
        rows = [Row("stack", "hue0", "vswitch", "stack"), Row(port, "ddio", port, "port")]
        found = shapes(charts.way_rows(AXIS, [Span(0.0, 300.0, layout, "")], 11, rows))
        text = "300.0 3.0 00:00:00 to 00:05:00: 0000:3b:00.0, 1 way 0x400"
        for style in ("hatch 132.0 15.0", "hatch 132.0 63.0", "way ddio 132.0 63.0"):
            self.assertIn(f"{style} {text}", found)
        self.assertFalse([one for one in found if "DDIO, " in one])

    def test_strips(self):
        """States that follow each other are one box; kinds of stretches differ."""
        states = [
            (0.0, 0.0, "I/O"), (0.0, 100.0, "Low Keep"), (100.0, 300.0, "Low Keep"),
            (310.0, 400.0, "Low Keep"), (400.0, 472.0, "Low Need"),
        ]  # fmt: skip
        spans = [Span(begin, end, stories.layout(2), state) for begin, end, state in states]
        stretches = [
            Stretch(0.0, 100.0, "idle", busy=False, decided=True),
            Stretch(100.0, 100.0, "pressed", busy=True, decided=True),
            Stretch(200.0, 300.0, "no agent", busy=False, decided=False),
        ]
        svg = charts.strips(AXIS, spans, {"Low Keep": "low"}, stretches)
        self.assertEqual(
            [
                " 132.0 1.0 0.8 22.0 00:00:00 to 00:00:00: I/O",
                "low 132.0 1.0 300.0 22.0 00:00:00 to 00:05:00: Low Keep",
                "on-low 282.0 16.0 middle Low Keep",
                "low 442.0 1.0 90.0 22.0 00:05:10 to 00:06:40: Low Keep",
                "on-low 487.0 16.0 middle Low Keep",
                " 532.0 1.0 72.0 22.0 00:06:40 to 00:07:52: Low Need",
                "quiet 132.0 29.0 100.0 14.0 00:00:00 to 00:01:40: idle",
                "quiet busy 232.0 29.0 0.8 14.0 00:01:40 to 00:01:40: pressed",
                "gap 332.0 29.0 100.0 14.0 00:03:20 to 00:05:00: no agent",
            ],
            shapes(svg),
        )
        self.assertEqual(["124.0 16.0 end state", "124.0 40.0 end quiet"], labels(svg))
        self.assertIn('viewBox="0 0 1000 46"', svg)


class CurveTest(unittest.TestCase):
    """Curves from zero."""

    POINTS = ((0.0, 0.0), (100.0, 30.0), (200.0, None), (300.0, 45.0), (401.0, 60.0), (500.0, 0.0))

    def test_a_curve_with_a_limit(self):
        """The line breaks at a missing value and at a gap; the limit has its name."""
        curve = Curve("misses", "a", self.POINTS)
        svg = charts.curves(
            AXIS, [curve], limit=(30.0, "busy"), gap_s=100.0, unit="{:g} M/s".format
        )
        self.assertEqual(
            [
                "rule 132.0 120.0 988.0 120.0 ",
                "rule 132.0 64.0 988.0 64.0 ",
                "rule 132.0 8.0 988.0 8.0 ",
                "line a M132.0 120.0L232.0 64.0M432.0 36.0M533.0 8.0L632.0 120.0 misses",
                "limit 132.0 64.0 988.0 64.0 ",
                "note 984.0 59.0 end busy",
            ],
            shapes(svg, ("line", "path", "text")),
        )
        self.assertEqual(
            ["124.0 124.0 end 0 M/s", "124.0 68.0 end 30 M/s", "124.0 12.0 end 60 M/s"],
            labels(svg)[:3],
        )
        self.assertIn('viewBox="0 0 1000 142"', svg)
        self.assertIn('aria-label="misses"', svg)

    def test_the_highest_value(self):
        """The next round number, above a limit as well; without values 1."""
        for values, limit, top in (
            ((), None, "1.0"), ((0.0,), None, "1.0"), ((1.0,), None, "1.0"), ((0.5,), None, "0.5"),
            ((1.2,), None, "2.0"),
            ((2.5,), None, "3.0"), ((3.5,), None, "4.0"), ((45.0,), None, "50.0"),
            ((55.0,), None, "60.0"), ((61.0,), None, "80.0"), ((85.0,), None, "100.0"),
            ((math.inf,), None, "1.0"), ((1.0,), (38.0, ""), "50.0"), ((1.0,), (36.0, ""), "40.0"),
        ):  # fmt: skip
            curve = Curve("", "", [(0.0, one) for one in values])
            svg = charts.curves(AXIS, [curve], limit=limit)
            self.assertEqual(f"124.0 12.0 end {top}", labels(svg)[2])
