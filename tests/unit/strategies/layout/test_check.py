# SPDX-License-Identifier: Apache-2.0
"""What a layout may not be, whoever decided it."""

import dataclasses
import unittest

from iat_nova.model import (
    CacheDomain,
    DcaPort,
    DevicePort,
    DomainInventory,
    Group,
    Layout,
    PortGroup,
    TenantKind,
    WayMask,
)
from iat_nova.strategies.layout.check import InvalidLayout, check
from tests.unit.build import domain, tenant
from tests.unit.strategies.iat.worlds import guest

DDIO = WayMask(0x600)


class CheckTest(unittest.TestCase):
    def faults(self, cache: CacheDomain, *groups: tuple[str, int], ddio: int = DDIO) -> str:
        """What is said of a layout for tenants a and b; nothing when it is valid."""
        layout = Layout(WayMask(ddio), tuple(Group((t,), WayMask(mask)) for t, mask in groups))
        try:
            check(DomainInventory(cache, (guest("a"), guest("b"))), layout)
        except InvalidLayout as error:
            return str(error)
        return ""

    def test_wide_masks_with_others_inside_are_valid(self) -> None:
        """Masks may overlap one another and DDIO's."""
        self.assertEqual("", self.faults(domain(), ("a", 0x7FF), ("b", 0x00C)))

    def test_every_tenant_has_one_mask(self) -> None:
        """None is forgotten, named twice or invented."""
        text = self.faults(domain(), ("a", 3), ("a", 3), ("c", 4))
        self.assertIn("a has 2 masks, expected 1; b has 0 masks, expected 1; c has 1 mask", text)

    def test_what_a_mask_may_not_be(self) -> None:
        """Each rule of the hardware is named."""
        for cache, mask, fault in (
            (domain(), 0x800, "is beyond the 11 ways"),
            (domain(), 0, "has fewer than 1 ways; a: mask 0x0 is not contiguous"),
            (domain(min_ways=2), 1, "has fewer than 2 ways"),
            (domain(), 5, "is not contiguous"),
            (domain(reserved_ways=WayMask(1)), 3, "has reserved ways (0x1)"),
            (domain(coerced_ways=WayMask(0x600)), 0x300, "divides ways that come together (0x600)"),
            (domain(coerced_ways=WayMask(0x003)), 0x00E, "divides ways that come together (0x3)"),
        ):
            with self.subTest(fault):
                text = self.faults(cache, ("a", mask), ("b", 0x0C0))
                self.assertEqual(f"invalid layout: a: mask {mask:#x} {fault}", text)
        self.assertEqual("", self.faults(domain(sparse_masks=True), ("a", 5), ("b", 0x70)))

    def test_classes_suffice(self) -> None:
        """The default class is always there, so one less than the machine has."""
        self.assertIn("2 groups, there are 1", self.faults(domain(classes=2), ("a", 1), ("b", 2)))
        self.assertEqual("", self.faults(domain(classes=3), ("a", 1), ("b", 2)))
        alone = DomainInventory(domain(classes=1), (tenant("host", kind=TenantKind.HOST),))
        check(alone, Layout(DDIO, (Group(("host",), WayMask(1)),)))

    def test_root_ports(self) -> None:
        """Only those that the operator lets be switched."""
        cache = domain(dca_ports=(DcaPort("0000:3a:00.0", ()),))
        check(DomainInventory(cache, ()), Layout(DDIO, (), dca_off=("0000:3a:00.0",)))
        with self.assertRaisesRegex(InvalidLayout, "root port 0000:3b:00.0 is none"):
            check(DomainInventory(cache, ()), Layout(DDIO, (), dca_off=("0000:3b:00.0",)))

    def test_ports_of_devices(self) -> None:
        """Only ports that there are, with one mask each, as the hardware takes masks of tenants."""
        nic, disk = (DevicePort(one, (one,)) for one in ("0000:3b:00.0", "0000:3c:00.0"))
        cache = domain(classes=3, device_ports=(nic, disk), reserved_ways=WayMask(1))
        own = Group(("a",), WayMask(2))

        def faults(*groups: tuple[tuple[str, ...], int]) -> str:
            ports = tuple(PortGroup(members, WayMask(mask)) for members, mask in groups)
            try:
                check(DomainInventory(cache, (guest("a"),)), Layout(DDIO, (own,), ports=ports))
            except InvalidLayout as error:
                return str(error)
            return ""

        self.assertEqual("", faults(((nic.id, disk.id), 0x40)))
        two = (guest("a"), guest("b"))
        port = PortGroup((nic.id,), WayMask(4))
        for tenants, classes, fits in ((1, 3, True), (1, 2, False), (2, 4, True), (2, 3, False)):
            groups = tuple(Group((one.id,), WayMask(2)) for one in two[:tenants])
            inventory = DomainInventory(dataclasses.replace(cache, classes=classes), two[:tenants])
            try:
                check(inventory, Layout(DDIO, groups, ports=(port,)))
            except InvalidLayout as error:
                self.assertIn(f"{tenants} groups and 1 of ports, there are", str(error))
                self.assertFalse(fits)
            else:
                self.assertTrue(fits)
        for groups, fault in (
            ([(("0000:3d:00.0",), 2)], "port 0000:3d:00.0 is none that may have ways"),
            ([((nic.id,), 2), ((nic.id, disk.id), 4)], "port 0000:3b:00.0 has 2 masks, expected 1"),
            ([((nic.id,), 0)], "port 0000:3b:00.0: mask 0x0 has fewer than 1 ways"),
            ([((nic.id,), 0x800)], "port 0000:3b:00.0: mask 0x800 is beyond the 11 ways"),
            ([((nic.id, disk.id), 3)], "0000:3b:00.0, 0000:3c:00.0: mask 0x3 has reserved ways"),
            ([((), 2)], "mask 0x2 is of no port"),
            ([((nic.id,), 2), ((disk.id,), 4)], "1 groups and 2 of ports, there are 2 classes"),
        ):
            with self.subTest(fault):
                self.assertIn(fault, faults(*groups))

    def test_ports_of_several_domains_share_classes(self) -> None:
        """A group of resctrl takes a class in all domains; a domain does not know the others'."""
        nic, disk = (DevicePort(one, (one,)) for one in ("0000:3b:00.0", "0000:3c:00.0"))
        groups = PortGroup((nic.id,), WayMask(2)), PortGroup((disk.id,), WayMask(4))
        for shared, ports, fault in ((0, 2, False), (1, 1, False), (1, 2, True), (3, 2, False)):
            cache = domain(device_ports=(nic, disk), shared_port_classes=shared)
            with self.subTest(shared=shared, ports=ports):
                layout = Layout(DDIO, (), ports=groups[:ports])
                text = ""
                try:
                    check(DomainInventory(cache, ()), layout)
                except InvalidLayout as error:
                    text = str(error)
                self.assertEqual(fault, "2 groups of ports, but cache domains share 1" in text)
                self.assertEqual(fault, bool(text))

    def test_ddio(self) -> None:
        """Never empty, never beyond the cache; as it was found is always valid."""
        self.assertIn("DDIO's mask 0x0", self.faults(domain(), ("a", 1), ("b", 2), ddio=0))
        self.assertIn("DDIO's mask 0x1800", self.faults(domain(), ("a", 1), ("b", 2), ddio=0x1800))
        strange = dataclasses.replace(domain(), ddio_found=WayMask(0x1800))
        for cache, ddio in ((domain(), 0x600), (domain(), 0x700), (strange, 0x1800)):
            self.assertEqual("", self.faults(cache, ("a", 1), ("b", 2), ddio=ddio))
