# SPDX-License-Identifier: Apache-2.0
"""Ways promised to no one are lent to the host's class: masks change, counts and others do not."""

import unittest

from iat_nova.model import Group, Layout, WayMask
from iat_nova.strategies.iat.masks import lend
from tests.unit.build import domain

DDIO = WayMask(0x600)


def layout(*groups):
    return Layout(DDIO, tuple(Group((name,), WayMask(mask)) for name, mask in groups))


class LendTest(unittest.TestCase):
    def test_the_longest_run(self):
        """The host's mask is the longest run of ways that are nobody's, and never DDIO's."""
        for groups, expected in (
            ([("host", 0x1)], 0x1FF),
            ([("stack", 0x3), ("host", 0x4)], 0x1FC),
            ([("stack", 0x3), ("host", 0x4), ("be", 0x18)], 0x1E0),
            ([("stack", 0x3), ("be", 0xF8), ("host", 0x100)], 0x100),  # one for one is no gain
            ([("host", 0x2), ("be", 0x1F8)], 0x7),
        ):
            before = layout(*groups)
            found = lend(domain(), "host", before)
            self.assertEqual(WayMask(expected), found.mask_of("host"))
            self.assertEqual(before, found.counted)
            self.assertEqual(found.lent is not None, before != found)
            self.assertEqual([g.mask for g in found.groups], sorted(g.mask for g in found.groups))

    def test_the_hardware(self):
        """Reserved ways are not lent; ways that come together are, or not, as one."""
        before = layout(("host", 0x4), ("be", 0x100))
        self.assertEqual(
            0xFC, lend(domain(reserved_ways=WayMask(0x3)), "host", before).mask_of("host")
        )
        coerced = domain(coerced_ways=WayMask(0x180))
        self.assertEqual(0x7F, lend(coerced, "host", before).mask_of("host"))

    def test_nobody_else(self):
        """Guests are lent nothing, nor is a host's class that shares their mask."""
        for before in (
            layout(("stack", 0x3), ("be", 0x4)),
            Layout(DDIO, (Group(("be", "host"), WayMask(0x3)),), grouped=True),
        ):
            self.assertIs(before, lend(domain(), "host", before))
            self.assertIs(before, lend(domain(), None, before))
