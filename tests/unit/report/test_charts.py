# SPDX-License-Identifier: Apache-2.0
"""Where the report's charts draw what: one unit of the drawing is a second, in two hours' zone."""

import dataclasses
import math
import unittest
from xml.etree import ElementTree

from iat_nova.model import Group, Layout, PortGroup, WayMask
from iat_nova.report import charts
from iat_nova.report.charts import Axis, Curve, Span
from iat_nova.report.stretches import Stretch
from tests.unit import stories

AXIS = Axis(0.0, 916.0)
INVENTORY = stories.inventory()
COLOURS = {"stack": "hue0", stories.PC: "hue1", stories.BE: "hue2"}


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
        if one.attrib["class"] == "tick"
    ]


class AxisTest(unittest.TestCase):
    """The axis of time."""

    def test_places(self):
        """Times outside the period are at its ends; a period without length has one place."""
        for wall_s, x in (
            (-5.0, 72.0),
            (0.0, 72.0),
            (458.0, 530.0),
            (916.0, 988.0),
            (999.0, 988.0),
        ):
            self.assertEqual(x, AXIS.x(wall_s))
        self.assertEqual(72.0, Axis(5.0, 5.0).x(5.0))
        self.assertEqual(530.0, Axis(1000.0, 1010.0).x(1005.0))

    def test_ticks(self):
        """Round times, at most nine."""
        for begin_s, span_s, count, first, second in (
            (0.0, 0.0, 1, "00:00:00", None),
            (0.5, 0.4, 0, None, None),
            (0.5, 8.0, 8, "00:00:01", "00:00:02"),
            (0.0, 8.5, 5, "00:00:00", "00:00:02"),
            (1.0, 50.0, 5, "00:00:10", "00:00:20"),
            (0.0, 480.0, 9, "00:00", "00:01"),
            (1.0, 86399.0, 8, "03:00", "06:00"),
            (1.0, 86400.0, 8, "01 Jan 03:00", "01 Jan 06:00"),
            (1.0, 8 * 86400.0, 8, "02 Jan 00:00", "03 Jan 00:00"),
            (1.0, 9 * 86400.0, 4, "03 Jan 00:00", "05 Jan 00:00"),
        ):
            with self.subTest(begin_s=begin_s, span_s=span_s):
                found = Axis(begin_s, begin_s + span_s).ticks()
                self.assertEqual(count, len(found))
                texts = [text for _, text in found[:2]]
                self.assertEqual([one for one in (first, second) if one][:count], texts)
                self.assertTrue(all(begin_s <= at_s <= begin_s + span_s for at_s, _ in found))

    def test_moments(self):
        """Without the date where the page has no other, which a time outside has."""
        for axis, at_s, said in (
            (AXIS, 60.0, "00:01:00 UTC"),
            (AXIS, 86460.0, "1970-01-02 00:01:00 UTC"),
            (Axis(60.0, 86460.0), 60.0, "1970-01-01 00:01:00 UTC"),
        ):
            self.assertEqual(said, axis.moment(at_s))

    def test_steps(self):
        """From a second to a day, each a part of the next larger unit."""
        for span_s, second in (
            (8, "00:00:01"), (16, "00:00:02"), (40, "00:00:05"), (80, "00:00:10"),
            (120, "00:00:15"), (240, "00:00:30"), (480, "00:01"), (960, "00:02"), (2400, "00:05"),
            (4800, "00:10"), (7200, "00:15"), (14400, "00:30"), (28800, "01:00"),
            (57600, "02:00"), (86399, "03:00"), (172800, "01 Jan 06:00"), (345600, "01 Jan 12:00"),
            (691200, "02 Jan 00:00"), (1382400, "03 Jan 00:00"),
        ):  # fmt: skip
            self.assertEqual(second, Axis(0.0, span_s).ticks()[1][1], span_s)

    def test_labels_stay_inside_the_drawing(self):
        """The last one is moved to the left."""
        svg = charts.curves(Axis(0.0, 480.0), [])
        self.assertEqual("72.0 137.0 middle 00:00", labels(svg)[3])
        self.assertEqual("980.0 137.0 middle 00:08", labels(svg)[-1])
        (*_, rule) = shapes(svg.replace("tick-rule", "at"), ("line",))
        self.assertEqual("at 988.0 0 988.0 124.0 ", rule)


class WaysTest(unittest.TestCase):
    """Ways over time."""

    def bands(self, layout, begin_s=0.0, end_s=300.0, inventory=INVENTORY):
        span = Span(begin_s, end_s, layout, "", inventory)
        return charts.way_bands(AXIS, [span], 11, COLOURS)

    def test_a_period(self):
        """Way 0 at the bottom; the hatch of DDIO's ways above their users, names above both."""
        svg = self.bands(stories.layout(2))
        when = "00:00:00 to 00:05:00"
        self.assertEqual(
            [
                f"way hue0 72.0 216.0 300.0 48.0 vswitch: ways 0..1, {when}",
                f"way hue1 72.0 144.0 300.0 72.0 pc1: ways 2..4, {when}",
                f"way hue2 72.0 72.0 300.0 72.0 be1: ways 5..7, {when}",
                f"way idle 72.0 48.0 300.0 24.0 idle: ways 8..8, {when}",
                f"way ddio 72.0 0.0 300.0 48.0 ddio: ways 9..10, {when}",
                "hatch 72.0 0.0 300.0 48.0 DDIO: 2 ways, 0x600",
                "in-way hue0 77.0 244.0 start vswitch",
                "in-way hue1 77.0 184.0 start pc1",
                "in-way hue2 77.0 112.0 start be1",
                "ddio-name 366.0 14.0 end DDIO",
            ],
            shapes(svg),
        )
        self.assertEqual(["64.0 256.0 end 0", "64.0 232.0 end 1"], labels(svg)[:2])
        self.assertEqual("64.0 16.0 end 10", labels(svg)[10])
        self.assertIn('viewBox="0 0 1000 286"', svg)
        self.assertIn('aria-label="Ways over time"', svg)

    def test_lanes(self):
        """A lane a tenant, with a box for as long as its mask stays; DDIO's hatch lies above."""
        first, later = stories.layout(2), stories.layout(3)
        spans = [
            Span(0.0, 100.0, first, "a", INVENTORY),
            Span(100.0, 300.0, first, "b", INVENTORY),
            Span(400.0, 916.0, later, "b", INVENTORY),
        ]
        tenants = [("stack", "hue0", "vswitch", "stack"), ("gone", "hue1", "n" * 90, "BE")]
        svg = charts.tenant_lanes(AXIS, spans, 11, tenants)
        hatch = [
            "300.0 6.0 DDIO: 2 ways 0x600, 00:00:00 to 00:05:00",
            "516.0 9.0 DDIO: 3 ways 0x700, 00:06:40 to 00:15:16",
        ]
        self.assertEqual(
            [
                "lane-name 988.0 12.0 end vswitch stack",
                "lane 72.0 16.0 916.0 33.0 vswitch",
                "way in-lane hue0 72.0 43.0 300.0 6.0 vswitch: 2 ways 0x3, 00:00:00 to 00:05:00",
                "way in-lane hue0 472.0 43.0 516.0 6.0 vswitch: 2 ways 0x3, 00:06:40 to 00:15:16",
                f"lane-hatch 72.0 16.0 {hatch[0]}",
                f"lane-hatch 472.0 16.0 {hatch[1]}",
                f"lane-name 988.0 69.0 end {'n' * 79}… BE",
                f"lane 72.0 73.0 916.0 33.0 {'n' * 90}",
                f"lane-hatch 72.0 73.0 {hatch[0]}",
                f"lane-hatch 472.0 73.0 {hatch[1]}",
            ],
            shapes(svg),
        )
        self.assertIn('viewBox="0 0 1000 136"', svg)

    def test_shared_ways(self):
        """Ways of several tenants have a colour of their own, and are told to be DDIO's too."""
        for other, style in ((stories.PC, "shared-critical"), (stories.BE, "shared")):
            layout = Layout(WayMask(0x600), (Group(("stack", other), WayMask(0x7FF)),))
            name = f"vswitch+{'pc1' if other == stories.PC else 'be1'}"
            self.assertEqual(
                f"way {style} 72.0 0.0 300.0 264.0 {name}: ways 0..10, shared with DDIO, "
                "00:00:00 to 00:05:00",
                shapes(self.bands(layout))[0],
            )

    def test_room_for_names(self):
        """A name is cut to its period, and left out where not even three letters fit."""
        for width, shown in ((48.0, "vswi…"), (32.0, "vs…"), (31.0, None), (0.0, None)):
            found = shapes(self.bands(stories.layout(2), 100.0, 100.0 + width))
            names = [one.split()[-1] for one in found if one.startswith("in-way hue0")]
            self.assertEqual([shown] if shown else [], names)
            self.assertIn(f" {max(width, 0.8):.1f} 48.0 vswitch", found[0])
        for width, count in ((44.0, 0), (45.0, 1)):
            found = shapes(self.bands(stories.layout(2), 100.0, 100.0 + width))
            self.assertEqual(count, sum(one.startswith("ddio-name") for one in found))

    def test_no_edges_side_by_side(self):
        """Edges of very short periods would cover the colours between them."""
        for width, edge in ((5.0, " narrow"), (6.0, "")):
            found = shapes(self.bands(stories.layout(2), 100.0, 100.0 + width))
            self.assertTrue(found[0].startswith(f"way hue0{edge} 172.0 "), found)
            (hatch,) = (one for one in found if one.startswith("hatch"))
            self.assertTrue(hatch.startswith(f"hatch{edge} 172.0 "), hatch)

    def test_ports(self):
        """Ports with a class of their own are hatched, the first by its name."""
        ports = (
            PortGroup(("0000:3b:00.0",), WayMask(0x400)),
            PortGroup(("0000:3b:00.1", "a", "b"), WayMask(0x200)),
        )
        layout = dataclasses.replace(stories.layout(2), ddio=WayMask(0), ports=ports)
        found = shapes(self.bands(layout))
        self.assertIn("hatch 72.0 0.0 300.0 24.0 0000:3b:00.0 (no tenant): 1 way, 0x400", found)
        self.assertIn("ddio-name 366.0 14.0 end 0000:3b:00.0", found)
        self.assertIn("ddio-name 366.0 38.0 end 0000:3b:00.1 and 2 more", found)
        self.assertFalse([one for one in found if one.endswith("DDIO")])

    def test_colours(self):
        """Each tenant keeps the colour of its first appearance; there are seven."""
        tenants = [dataclasses.replace(INVENTORY.tenants[0], id=str(n)) for n in range(8)]
        inventories = [dataclasses.replace(INVENTORY, tenants=tuple(tenants)), INVENTORY]
        found = charts.hues(inventories)
        self.assertEqual([f"hue{n}" for n in (0, 1, 2, 3, 4, 5, 6, 0, 1, 2, 3)], [*found.values()])
        self.assertEqual(COLOURS, charts.hues([INVENTORY, INVENTORY]))


class StripTest(unittest.TestCase):
    """States and stretches without a decision."""

    def states(self, *spans):
        spans = [
            Span(begin, end, stories.layout(2), state, INVENTORY) for begin, end, state in spans
        ]
        return charts.state_strip(AXIS, spans, {"Low Keep": "low"})

    def test_states(self):
        """Periods of one state that follow each other are one box; a gap divides them."""
        svg = self.states(
            (0.0, 0.0, "I/O"), (0.0, 100.0, "Low Keep"), (100.0, 300.0, "Low Keep"),
            (310.0, 400.0, "Low Keep"), (400.0, 500.0, "I/O"), (500.0, 500.0, "Low Keep"),
        )  # fmt: skip
        self.assertEqual(
            [
                " 72.0 1 0.8 22 2 I/O, from 00:00:00 to 00:00:00",
                "low 72.0 1 300.0 22 2 Low Keep, from 00:00:00 to 00:05:00",
                "on-low 222.0 16.0 middle Low Keep",
                "low 382.0 1 90.0 22 2 Low Keep, from 00:05:10 to 00:06:40",
                "on-low 427.0 16.0 middle Low Keep",
                " 472.0 1 100.0 22 2 I/O, from 00:06:40 to 00:08:20",
                "on- 522.0 16.0 middle I/O",
                "low 572.0 1 0.8 22 2 Low Keep, from 00:08:20 to 00:08:20",
            ],
            shapes(svg),
        )
        self.assertEqual(["64.0 16.0 end state"], labels(svg))
        self.assertIn('viewBox="0 0 1000 24"', svg)

    def test_room_for_a_state(self):
        """Its name is left out where its box is narrower."""
        for width, count in ((57.0, 1), (58.0, 2)):
            self.assertEqual(count, len(shapes(self.states((100.0, 100.0 + width, "Low Keep")))))

    def test_quiet(self):
        """A gap without an agent, a quiet time and a busy one differ."""
        svg = charts.quiet_strip(
            AXIS,
            [
                Stretch(0.0, 100.0, "idle", busy=False, decided=True),
                Stretch(100.0, 100.0, "pressed", busy=True, decided=True),
                Stretch(200.0, 300.0, "no agent", busy=False, decided=False),
            ],
        )
        self.assertEqual(
            [
                "quiet 72.0 1.0 100.0 14.0 00:00:00 to 00:01:40: idle",
                "quiet busy 172.0 1.0 0.8 14.0 00:01:40 to 00:01:40: pressed",
                "gap 272.0 1.0 100.0 14.0 00:03:20 to 00:05:00: no agent",
            ],
            shapes(svg),
        )
        self.assertEqual(["64.0 12.0 end quiet"], labels(svg))
        self.assertIn('viewBox="0 0 1000 16"', svg)


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
                "rule 72.0 120.0 988.0 120.0 ",
                "rule 72.0 64.0 988.0 64.0 ",
                "note at-right 988.0 78.0 end 30 M/s",
                "rule 72.0 8.0 988.0 8.0 ",
                "note at-right 988.0 22.0 end 60 M/s",
                "line a M72.0 120.0L172.0 64.0M372.0 36.0M473.0 8.0L572.0 120.0 misses",
                "limit 72.0 64.0 988.0 64.0 ",
                "note 984.0 59.0 end busy",
            ],
            shapes(svg, ("line", "path", "text")),
        )
        self.assertEqual(
            ["64.0 124.0 end 0 M/s", "64.0 68.0 end 30 M/s", "64.0 12.0 end 60 M/s"],
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
            self.assertEqual(f"64.0 12.0 end {top}", labels(svg)[2])

    def test_a_small_curve(self):
        """Its title has the most; a curve of zeros lies at the bottom."""
        for points, path, title in (
            (((0.0, 1.0), (916.0, 2.0)), "M72.0 24.0L988.0 8.0", "ipc: at most 2"),
            (((0.0, 1.0), (916.0, math.nan)), "M72.0 8.0", "ipc: at most 1"),
            (((0.0, 0.0), (916.0, None)), "M72.0 40.0", "ipc: at most 0"),
            (((0.0, None),), "", "ipc: not known"),
        ):
            svg = charts.small_curve(AXIS, Curve("ipc", "b", points), unit="{:g}".format)
            self.assertEqual([f"line b {path} "], shapes(svg, ("path",)))
            self.assertIn(f"<title>{title}</title>", svg)
        self.assertIn('viewBox="72 4 916 40"', svg)
