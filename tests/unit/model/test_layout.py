# SPDX-License-Identifier: Apache-2.0
"""What a layout says of tenants, and of ports with ways of their own."""

import unittest

from iat_nova.model import Allocation, Group, Layout, PortGroup, WayMask

NIC, DISK = "0000:3b:00.0", "0000:3c:00.0"
GROUPS = (Group(("a",), WayMask(0x00F)), Group(("b",), WayMask(0x0F0)))


def placed(**ports: int) -> Layout:
    """Return a layout with ways of the card, of the disk, or both."""
    ids = {"nic": NIC, "disk": DISK}
    own = tuple(PortGroup((ids[name],), WayMask(mask)) for name, mask in ports.items())
    return Layout(WayMask(0x600), GROUPS, ports=own)


class AllocationTest(unittest.TestCase):
    def test_counts(self) -> None:
        """Each tenant has the ways of its mask, shared or not; without a mask none."""
        shared = Layout(WayMask(0x600), (*GROUPS[:1], Group(("b", "c"), WayMask(0x7))))
        counts = {"b": 3, "a": 4, "new": 0, "c": 3}
        self.assertEqual(Allocation(2, counts), shared.allocation(iter(counts)))


class PortsTest(unittest.TestCase):
    def test_masks(self) -> None:
        """A port has the mask of its group; one without a group has none of its own."""
        layout = placed(nic=0x030)
        self.assertEqual((0x030, None), (layout.mask_of(NIC), layout.mask_of(DISK)))
        self.assertEqual(0x630, layout.inbound)
        self.assertEqual(("b",), layout.overlaps_ddio)

    def test_moved(self) -> None:
        """A port moves from DDIO's ways to its own, between its own, and back."""
        for before, after, moved in (
            (placed(), placed(nic=0x030), (NIC,)),
            (placed(nic=0x030), placed(nic=0x030), ()),
            (placed(nic=0x030), placed(nic=0x060, disk=0x600), (NIC,)),
            (placed(nic=0x030, disk=0x001), placed(), (NIC, DISK)),
        ):
            self.assertEqual(moved, after.moved_since(before))
        self.assertEqual(("a", "b", NIC, "ddio"), placed(nic=0x030).moved_since(None))
