# SPDX-License-Identifier: Apache-2.0
"""Way maps show every way, cut names, and let no name harm the terminal."""

import dataclasses
import itertools
import re
import unicodedata
import unittest

from hypothesis import given, settings
from hypothesis import strategies as st

from iat_nova.model import DevicePort, Group, Layout, PortGroup, PortRates, Sample, WayMask
from iat_nova.report import escape, waymap
from tests.unit import stories


class TestWayMap(unittest.TestCase):
    def draw(self, ddio_ways, width=60, **changes):
        inventory = dataclasses.replace(stories.inventory(), **changes)
        return waymap.text(stories.layout(ddio_ways), inventory, width=width)

    def test_one_line(self):
        """A box a tenant, dots for idle ways, DDIO's own ways at the top."""
        self.assertEqual("0 [vswit…][pc1       ][be1       ][..][~~ddio] 10", self.draw(2))

    def test_shared_ways_are_seen_one_by_one(self):
        """Of a tenant's three ways exactly those that DDIO shares are marked."""
        self.assertIn("[be1    ~~~][~~~~~~ddio]", self.draw(4))
        self.assertIn("[be1~~~ddio][~~~~~~ddio]", self.draw(5))

    def test_a_step_of_ddio_is_seen(self):
        """However narrow the map and long the name, one way more that is shared looks otherwise."""
        inventory = stories.inventory()
        (be,) = (one for one in inventory.tenants if one.id == stories.BE)
        widths = (40, 50, 71, 80, 100)
        for width, count, letters in itertools.product(widths, (1, 2, 3, 4), (3, 4, 7, 30)):
            named = dataclasses.replace(be, name="x" * letters)
            shown = dataclasses.replace(inventory, tenants=(named,))
            layout = Layout(WayMask(0), (Group((stories.BE,), WayMask.span(7, count)),))
            masks = (WayMask.span(7 + count - shared, shared) for shared in range(count + 1))
            drawn = [
                waymap.text(dataclasses.replace(layout, ddio=mask), shown, width=width)
                for mask in masks
            ]
            self.assertEqual(len(drawn), len(set(drawn)), drawn)

    def test_reserved(self):
        """Reserved ways are crossed out."""
        domain = dataclasses.replace(stories.DOMAIN, reserved_ways=WayMask(0x100))
        self.assertIn("[xx][~~ddio]", self.draw(2, domain=domain))

    def test_lent_ways(self):
        """What nobody is promised is a box of its own, beside the host's class or without it."""
        layout = stories.layout(2)
        groups = (*layout.groups[:2], Group((stories.BE,), WayMask(0x1E0)))
        for own, drawn in ((0x20, "[be1][be1 lent     ]"), (0x100, "[be1 lent     ][be1]")):
            lent = Group((stories.BE,), WayMask(own))
            lending = dataclasses.replace(layout, groups=groups, lent=lent)
            shown = waymap.text(lending, stories.inventory(), width=70)
            self.assertIn(drawn, shown)

    def test_ports(self):
        """Each set of ports has a sign of its own, and a line tells whose it is."""
        inventory = stories.inventory()
        nic, disk = (DevicePort(one, (one,)) for one in ("0000:3b:00.0", "0000:3c:00.0"))
        first, second, *others = inventory.tenants
        inventory = dataclasses.replace(
            inventory,
            domain=dataclasses.replace(inventory.domain, device_ports=(nic, disk)),
            tenants=(
                dataclasses.replace(first, ports=(nic.id,)),
                dataclasses.replace(second, ports=(nic.id,)),
                *others,
            ),
        )
        groups = (Group((first.id,), WayMask(0x00F)),)
        ports = (PortGroup((nic.id,), WayMask(0x0C)), PortGroup((disk.id,), WayMask(0x80)))
        layout = Layout(WayMask(0x600), groups, ports=ports)
        marked = [
            (one.kind.value, one.lowest, one.ddio) for one in waymap.segments(layout, inventory)
        ]
        self.assertEqual(
            [
                ("tenants", 0, 0x0C),
                ("idle", 4, 0),
                ("ddio", 7, 0x80),
                ("idle", 8, 0),
                ("ddio", 9, 0x600),
            ],
            marked,
        )
        lines = waymap.sets(layout, inventory, 80)
        self.assertEqual(
            [
                f"####.......  4 0xf   {first.name}",
                ".........~~  2 0x600 DDIO",
                f"..11.......  2 0xc   port 0000:3b:00.0 ({first.name}, {second.name})",
                ".......2...  1 0x80  port 0000:3c:00.0 (no tenant)",
            ],
            lines,
        )
        drawn = waymap.text(layout, inventory, width=60)
        self.assertEqual("0 [vswitch1111111][..........][22][..][~~ddio] 10", drawn)
        many = tuple(PortGroup((str(number),), WayMask(1)) for number in range(12))
        drawn = waymap.sets(dataclasses.replace(layout, ports=many), inventory, 80)[2:]
        signs = [one[0] for one in drawn]
        self.assertEqual("123456789+++", "".join(signs))

    def test_no_name_hides_a_sign(self):
        """The digit of ports and DDIO's mark are seen in the box of tenants with both."""
        inventory = stories.inventory()
        tenants = tuple(
            dataclasses.replace(one, name=name)
            for one, name in zip(inventory.tenants, ("database", "forwarder", "job"), strict=True)
        )
        inventory = dataclasses.replace(inventory, tenants=tenants)
        database, *others = (one.id for one in tenants)
        for width, first, below in itertools.product(range(60, 161), (5, 7, 8), (0xFF, 0x3F)):
            layout = Layout(
                WayMask(0x600),
                (Group((database,), WayMask(below)), Group(tuple(others), WayMask(0x7FF))),
                ports=(PortGroup(("0000:3c:00.0",), WayMask.span(first, 9 - first)),),
            )
            drawn = waymap.text(layout, inventory, width=width)
            boxes = drawn.removeprefix("0 ").removesuffix(" 10")
            self.assertIn("1", boxes)
            self.assertIn("~", boxes)
            self.assertLessEqual(len(drawn), width)
        layout = Layout(
            WayMask(0x600),
            (Group((database,), WayMask(0xFF)), Group(tuple(others), WayMask(0x7FF))),
            ports=(PortGroup(("0000:3c:00.0",), WayMask(0x100)),),
        )
        drawn = waymap.text(layout, inventory, width=80)
        self.assertTrue(drawn.endswith("[fo…1][for…~~ddio] 10"), drawn)

    def test_digits_of_names_are_no_marks(self):
        """Only the marks of DDIO and ports are red."""
        inventory = stories.inventory()
        first = inventory.tenants[1]
        layout = Layout(
            WayMask(0x600),
            (Group((first.id,), WayMask(0x7FF)),),
            ports=(PortGroup(("0000:3c:00.0",), WayMask(0x100)),),
        )
        drawn = waymap.text(layout, inventory, width=60, colour=True)
        red, rest = "\x1b[38;5;160m", "\x1b[38;5;16m"
        self.assertIn(f"{red}~~~ddio{rest}]", drawn)
        self.assertRegex(drawn, r"\[pc1 +" + re.escape(red) + "1+" + re.escape(rest))

    def test_a_map_with_everything(self):
        """Own, shared and DDIO's ways, and those of a port, at three widths and in colours."""
        domain = dataclasses.replace(stories.DOMAIN, ways=8)
        inventory = dataclasses.replace(stories.inventory(), domain=domain)
        layout = Layout(
            WayMask(0xC0),
            (Group(("stack",), WayMask(0x0F)), Group((stories.PC, stories.BE), WayMask(0x78))),
            ports=(PortGroup(("0000:3b:00.0",), WayMask(0x60)),),
        )
        for width, drawn in (
            (80, "0 [vswitch               ][vswit…][pc1+be111111111~~~ddio][~~ddio] 7"),
            (40, "0 [vswitch   ][v…][pc…1111~~~][~~] 7"),
            (20, "0 [vswitch][…][p…111~~][~] 7"),
        ):
            self.assertEqual(drawn, waymap.text(layout, inventory, width=width))
        red, black = "\x1b[38;5;160m", "\x1b[38;5;16m"
        self.assertEqual(
            "0 \x1b[48;5;153;38;5;16m[vswitch               ]\x1b[0m"
            "\x1b[48;5;252;38;5;16m[vswit…]\x1b[0m"
            f"\x1b[48;5;252;38;5;16m[pc1+be1{red}11111111{black}{red}~~~ddio{black}]\x1b[0m"
            "\x1b[48;5;209;38;5;16m[~~ddio]\x1b[0m 7",
            waymap.text(layout, inventory, width=80, colour=True),
        )
        self.assertEqual(
            [
                "####....  4 0xf  vswitch",
                "...####.  4 0x78 pc1, be1",
                "......~~  2 0xc0 DDIO",
                ".....11.  2 0x60 0000:3b:00.0 (no tenant)",
            ],
            waymap.sets(layout, inventory, 60),
        )
        self.assertEqual([], waymap.sets(stories.layout(4), stories.inventory(), 60))

    def test_colours_of_tenants(self):
        """Ten, by the place in the inventory; ways that critical tenants share have another."""
        grounds = [waymap.swatch(number) for number in range(10)]
        self.assertEqual(10, len(set(grounds)))
        self.assertEqual(grounds[1], waymap.swatch(11))
        grouped = Layout(WayMask(0), (Group(("stack", stories.PC), WayMask(0xFF)),))
        drawn = waymap.text(grouped, stories.inventory(), colour=True)
        self.assertIn("\x1b[48;5;110;38;5;16m[vswitch+pc1", drawn)
        self.assertIn("\x1b[2m[....", drawn)

    def test_counted_ports(self):
        """What each port holds and moves, as far as it is counted."""
        sample = Sample(
            0,
            1.0,
            1.0,
            {},
            ports={
                "a": PortRates(3 << 20, None),
                "b": PortRates(None, 2 << 30),
                "c": PortRates(None, None),
                "d": PortRates(0, 0.0),
            },
        )
        self.assertEqual(
            [
                "a (no tenant) 3.0 MiB in the LLC",
                "b (no tenant) 2.0 GiB/s to and from memory",
                "d (no tenant) 0 KiB in the LLC, 0 KiB/s to and from memory",
            ],
            waymap.counted_ports(sample, stories.inventory()),
        )

    def test_grouped_tenants_share_a_box(self):
        """Tenants with one mask are named together."""
        grouped = Layout(WayMask(0x600), (Group(("stack", stories.PC), WayMask(0x1FF)),))
        drawn = waymap.text(grouped, stories.inventory(), width=80)
        self.assertIn("[vswitch+pc1", drawn)

    def test_colour_changes_no_column(self):
        """With colours the same text is drawn, and the colours end with the line."""
        drawn = waymap.text(stories.layout(5), stories.inventory(), width=60, colour=True)
        bare = "".join(part.partition("m")[2] for part in ("m" + drawn).split("\x1b["))
        self.assertEqual(self.draw(5), bare)
        self.assertGreater(drawn.rfind("\x1b[0m"), drawn.rfind("\x1b[48"))

    @settings(derandomize=True, max_examples=150)
    @given(st.text(max_size=12), st.integers(1, 11), st.integers(40, 200))
    def test_any_name_fits(self, name, ddio_ways, width):
        """Whatever the name, the map has its width and nothing that moves the cursor."""
        drawn = waymap.text(stories.layout(ddio_ways), stories.inventory(name), width=width)
        cell = max(3, min(8, (width - 6) // 11))
        self.assertEqual(cell * 11 + 5, escape.width(drawn))
        self.assertFalse([one for one in drawn if unicodedata.category(one) in ("Cc", "Cf")])

    def test_segments_cover_every_way_once(self):
        """The segments are neighbours and together are the whole cache."""
        found = waymap.segments(stories.layout(4), stories.inventory())
        ways = [way for one in found for way in range(one.lowest, one.lowest + one.count)]
        self.assertEqual(list(range(11)), ways)
