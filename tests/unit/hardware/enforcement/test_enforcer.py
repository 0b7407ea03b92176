# SPDX-License-Identifier: Apache-2.0
"""A layout reaches the hardware whole, only when it changed, and is undone when refused."""

import dataclasses
import unittest

from iat_nova.experiments.times.fake import SKYLAKE, FakeAllocator, FakeDdio
from iat_nova.hardware.api import DEFAULT_CLASS, DomainOffline, ForeignHand, HardwareError
from iat_nova.hardware.enforcement.enforcer import Enforcer
from iat_nova.hardware.enforcement.snapshot import Restored, SnapshotError
from iat_nova.model import (
    BandwidthControl,
    DomainInventory,
    Group,
    Layout,
    PortGroup,
    TenantKind,
    WayMask,
    message,
)
from tests.said import raises
from tests.unit.build import tenant

UUID = "6c0d3f0e-0000-4000-8000-000000000001"


HOST = tenant("host", 0, 1, kind=TenantKind.HOST)
GUEST = tenant(f"{UUID}/7", 4, 5)
STACK = tenant("stack", 2, 3, kind=TenantKind.STACK)
INVENTORY = DomainInventory(SKYLAKE, (HOST, GUEST, STACK))


def layout(ddio: int, **masks: int) -> Layout:
    by_name = {"host": HOST.id, "guest": GUEST.id, "stack": STACK.id}
    groups = tuple(Group((by_name[name],), WayMask(mask)) for name, mask in masks.items())
    return Layout(WayMask(ddio), groups)


FIRST = layout(0x600, host=0x003, guest=0x03C, stack=0x0C0)


def placed(ports: dict[str, int], **masks: int) -> Layout:
    """Return a layout with these ways of ports, each with a class of its own."""
    groups = tuple(PortGroup((port,), WayMask(mask)) for port, mask in ports.items())
    return dataclasses.replace(layout(0x600, **(masks or {"guest": 0x03C})), ports=groups)


class FakePorts:
    """`hardware.api.PortWays` in memory."""

    def __init__(self) -> None:
        self.masks: dict[str, WayMask] = {}

    def place(self, domain: int, groups: tuple[PortGroup, ...]) -> dict[str, WayMask]:
        self.masks = {port: group.mask for group in groups for port in group.ports}
        return self.placed(domain)

    def placed(self, domain: int) -> dict[str, WayMask]:
        return dict(self.masks)


class EnforcerTest(unittest.TestCase):
    def setUp(self) -> None:
        self.allocator = FakeAllocator()
        self.ddio = FakeDdio()
        self.enforcer = Enforcer(self.allocator, self.ddio)

    def test_classes_are_named_after_who_owns_them(self) -> None:
        """The host is the default class, a guest its UUID without the run, the stack itself."""
        self.enforcer.apply(INVENTORY, FIRST)
        self.assertEqual(
            {DEFAULT_CLASS: 0x003, UUID: 0x03C, "stack": 0x0C0}, self.allocator.effective(0)
        )
        self.assertEqual(UUID, self.allocator.class_of(5))

    def test_a_group_that_contains_the_host_is_the_default_class(self) -> None:
        """Wherever in the group the host comes: housekeeping has no class of its own."""
        for members in ((GUEST.id, HOST.id), (HOST.id, GUEST.id)):
            with self.subTest(members):
                groups = (Group(members, WayMask(0x00F)), Group((STACK.id,), WayMask(0x0F0)))
                self.setUp()
                self.enforcer.apply(INVENTORY, Layout(WayMask(0x600), groups))
                self.assertEqual(
                    {DEFAULT_CLASS: 0x00F, "stack": 0x0F0}, self.allocator.effective(0)
                )

    def test_wide_masks_with_others_inside_are_written(self) -> None:
        """A layout whose masks overlap reaches the machine as it is."""
        self.enforcer.apply(INVENTORY, layout(0x600, host=0x7FF, guest=0x7FF, stack=0x003))
        self.assertEqual(
            {DEFAULT_CLASS: 0x7FF, UUID: 0x7FF, "stack": 0x003}, self.allocator.effective(0)
        )

    def test_what_the_machine_made_of_it_is_returned(self) -> None:
        """Skylake ties the two I/O ways: 0x400 is read back as 0x600."""
        effective = self.enforcer.apply(INVENTORY, layout(0x600, guest=0x400, stack=0x00F))
        self.assertEqual(0x600, effective.tenants[GUEST.id])
        self.assertEqual(0x600, effective.ddio)

    def test_nothing_is_written_when_nothing_changed(self) -> None:
        """The second time costs no write."""
        self.enforcer.apply(INVENTORY, FIRST)
        before = len(self.allocator.writes)
        self.enforcer.apply(INVENTORY, FIRST)
        self.assertEqual(before, len(self.allocator.writes))
        self.assertEqual([], self.ddio.writes)

    def test_other_processors_are_written_although_the_masks_stay(self) -> None:
        """A guest that was pinned elsewhere takes its class along."""
        self.enforcer.apply(INVENTORY, FIRST)
        moved = dataclasses.replace(INVENTORY, tenants=(HOST, tenant(GUEST.id, 8), STACK))
        self.enforcer.apply(moved, FIRST)
        self.assertEqual(UUID, self.allocator.class_of(8))
        self.assertIsNone(self.allocator.class_of(5))

    def test_tenants_of_one_group_share_one_class(self) -> None:
        """One class holds the CPUs of both."""
        shared = Layout(WayMask(0x600), (Group((STACK.id, GUEST.id), WayMask(0x0F)),))
        effective = self.enforcer.apply(INVENTORY, shared)
        self.assertEqual({"stack": 0x0F}, self.allocator.effective(0))
        self.assertEqual({STACK.id: 0x0F, GUEST.id: 0x0F}, effective.tenants)

    def test_limits_of_bandwidth_are_written(self) -> None:
        """With the same masks too; the default class has none, and a limit ends with its group."""
        limited = dataclasses.replace(
            FIRST,
            groups=tuple(
                dataclasses.replace(group, bandwidth=40) if GUEST.id in group.tenants else group
                for group in FIRST.groups
            ),
        )
        self.enforcer.apply(INVENTORY, FIRST)
        before = len(self.allocator.writes)
        self.enforcer.apply(INVENTORY, limited)
        self.assertEqual({UUID: 40, "stack": 100}, self.allocator.bandwidth(0))
        self.assertEqual(before, len(self.allocator.writes))  # of masks
        self.enforcer.apply(INVENTORY, FIRST)
        self.assertEqual({UUID: 100, "stack": 100}, self.allocator.bandwidth(0))

    def test_limits_in_gbps_are_written(self) -> None:
        """AMD's eighths of a GB/s, of what the operator says; else refused, and nothing written."""
        control = BandwidthControl(1, 1, 2048, percent=False, whole=381)
        half = dataclasses.replace(FIRST, groups=(Group((GUEST.id,), WayMask(0x03C), 50),))
        for whole, expected in ((381, {UUID: 191}), (None, {})):
            domain = dataclasses.replace(
                SKYLAKE, bandwidth=dataclasses.replace(control, whole=whole)
            )
            allocator = FakeAllocator((domain,))
            enforcer = Enforcer(allocator, self.ddio)
            inventory = dataclasses.replace(INVENTORY, domain=domain)
            if whole is None:
                with raises(self, HardwareError, "50 % of .*: the value .* is unknown; .*_gbps"):
                    enforcer.apply(inventory, half)
            else:
                enforcer.apply(inventory, half)
            self.assertEqual(expected, allocator.bandwidth(0))

    def test_limits_in_gbps_are_shared(self) -> None:
        """AMD's are those of all CPUs of a class together: each of its tenants has its part."""
        control = BandwidthControl(1, 1, 2048, percent=False, whole=400)
        inventory = DomainInventory(
            dataclasses.replace(SKYLAKE, bandwidth=control), (HOST, GUEST, STACK)
        )
        allocator = FakeAllocator((inventory.domain,))
        enforcer = Enforcer(allocator, self.ddio)
        for percent, limit in ((30, 240), (49, 392), (50, 2048)):
            both = Group((GUEST.id, STACK.id), WayMask(0x03C), percent)
            enforcer.apply(inventory, dataclasses.replace(FIRST, groups=(both,)))
            self.assertEqual({UUID: limit}, allocator.bandwidth(0))

    def test_a_limit_that_is_refused(self) -> None:
        """The layout before lies there again, with its limits."""
        limited = Group((GUEST.id,), WayMask(0x03C), 40)
        good = dataclasses.replace(FIRST, groups=(limited,))
        self.enforcer.apply(INVENTORY, good)
        for limit in (5, 45, 110):
            bad = dataclasses.replace(good, groups=(dataclasses.replace(limited, bandwidth=limit),))
            with raises(self, HardwareError, f"bandwidth {limit} is not between 10"):
                self.enforcer.apply(INVENTORY, bad)
            self.assertEqual({UUID: 40}, self.allocator.bandwidth(0))

    def test_ddio_shrinks_before_and_grows_after_the_classes_move(self) -> None:
        """On the way nobody shares ways with DDIO who does in neither layout."""
        order: list[str] = []

        class Allocator(FakeAllocator):
            def apply(self, domain, classes):
                order.append("classes")
                return super().apply(domain, classes)

        class Ddio(FakeDdio):
            def write(self, domain, mask):
                order.append("ddio")
                return super().write(domain, mask)

        enforcer = Enforcer(Allocator(), Ddio())
        enforcer.apply(INVENTORY, layout(0x700, guest=0x0C0))
        enforcer.apply(INVENTORY, layout(0x600, guest=0x180))
        self.assertEqual(["classes", "ddio", "ddio", "classes"], order)

    def test_ports_leave_before_and_arrive_after_the_classes_move(self) -> None:
        """On the way no port fills ways that it fills in neither layout, except DDIO's."""
        order: list[object] = []

        class Allocator(FakeAllocator):
            def apply(self, domain, classes):
                order.append("classes")
                return super().apply(domain, classes)

        class Ports(FakePorts):
            def place(self, domain, groups):
                found = super().place(domain, groups)
                order.append(dict(found))
                return found

        enforcer = Enforcer(Allocator(), FakeDdio(), port_ways=Ports())
        for first, second, between in (
            ({"a": 0x0F0, "b": 0x00F}, {"a": 0x030, "b": 0x00F}, {"a": 0x030, "b": 0x00F}),
            ({"a": 0x0F0, "b": 0x00F}, {"a": 0x10F, "b": 0x00F}, {"b": 0x00F}),
            ({"a": 0x0F0}, {}, {}),
        ):
            enforcer.apply(INVENTORY, placed(first))
            order.clear()
            effective = enforcer.apply(INVENTORY, placed(second))
            self.assertEqual(second, effective.ports)
            self.assertEqual([between, "classes", second], order)

    def test_ports_are_given_back(self) -> None:
        """At the end no port has ways of its own; after a refused layout it has the former."""
        ports = FakePorts()
        enforcer = Enforcer(self.allocator, self.ddio, port_ways=ports)
        enforcer.apply(INVENTORY, placed({"a": 0x0F0}))
        self.allocator.refuse = UUID
        with self.assertRaises(HardwareError):
            enforcer.apply(INVENTORY, placed({"a": 0x00F}, guest=0x300))
        self.assertEqual({"a": 0x0F0}, ports.placed(0))
        enforcer.restore()
        self.assertEqual({}, ports.placed(0))

    def test_a_hand_on_the_ports(self) -> None:
        """Another program's ways of a port are not written over."""
        ports = FakePorts()
        enforcer = Enforcer(self.allocator, self.ddio, port_ways=ports)
        enforcer.apply(INVENTORY, placed({"a": 0x0F0}))
        self.assertEqual((), enforcer.foreign_ddio())
        ports.place(0, placed({"a": 0x00F}).ports)
        with raises(self, ForeignHand, "domain 0: another program changed the ways of port a"):
            enforcer.apply(INVENTORY, placed({"a": 0x030}))
        self.assertEqual(["port-ways-changed"], [one.code for one in enforcer.foreign_ddio()])

    def test_a_refused_write_leaves_the_last_good_layout(self) -> None:
        """Masks and DDIO are what they were, and the caller is told."""
        self.enforcer.apply(INVENTORY, FIRST)
        self.allocator.refuse = "stack"
        with raises(self, HardwareError, "stack"):
            self.enforcer.apply(INVENTORY, layout(0x400 | 0x200, guest=0x0F0, stack=0x00C))
        self.assertEqual(0x03C, self.allocator.effective(0)[UUID])
        self.assertEqual(0x600, self.ddio.read(0))

    def test_a_refused_ddio_write_undoes_the_classes(self) -> None:
        """The two belong together: half a layout does not stay."""
        self.enforcer.apply(INVENTORY, FIRST)
        self.ddio.refuse = True
        with self.assertRaises(HardwareError):
            self.enforcer.apply(INVENTORY, layout(0x780, guest=0x00C))
        self.assertEqual(0x03C, self.allocator.effective(0)[UUID])

    def test_a_knob_that_cannot_be_turned_is_not_turned(self) -> None:
        """Where DDIO is fixed only the classes are written."""
        fixed = dataclasses.replace(
            INVENTORY, domain=dataclasses.replace(SKYLAKE, ddio_resizable=False)
        )
        effective = self.enforcer.apply(fixed, layout(0x780, guest=0x00C))
        self.assertEqual([], self.ddio.writes)
        self.assertEqual(0x600, effective.ddio)

    def test_a_knob_that_tells_nothing_yet_is_turned(self) -> None:
        """As AMD's io_alloc while it is disabled: the first write enables it."""
        self.ddio.read = lambda domain: self.ddio.writes[-1] if self.ddio.writes else None
        self.ddio.write = lambda domain, mask: self.ddio.writes.append(mask) or mask
        for _ in range(2):
            effective = self.enforcer.apply(INVENTORY, FIRST)
            self.assertEqual(0x600, effective.ddio)
        self.assertEqual([0x600], self.ddio.writes)

    def test_restore_leaves_the_machine_as_found(self) -> None:
        """No class of ours, DDIO's own mask; a second time does no harm."""
        self.enforcer.apply(INVENTORY, layout(0x780, guest=0x00C))
        self.enforcer.restore()
        self.enforcer.restore()
        self.assertEqual({}, self.allocator.effective(0))
        self.assertEqual(0x600, self.ddio.read(0))

    def test_a_restore_that_ddio_does_not_follow(self) -> None:
        """Its register takes the write and reads otherwise: a restore is still due."""
        self.enforcer.apply(INVENTORY, layout(0x780, guest=0x00C))
        self.ddio.stuck = True
        with self.assertRaises(HardwareError) as caught:
            self.enforcer.restore()
        self.assertEqual(
            message("ddio-not-restored", domain=0, found=WayMask(0x600), now=WayMask(0x780)),
            caught.exception.message,
        )
        self.assertTrue(self.enforcer.wrote)
        self.ddio.stuck = False
        self.enforcer.restore()
        self.assertEqual(({}, 0x600), (self.allocator.effective(0), self.ddio.read(0)))

    def test_restore_before_any_write_writes_nothing(self) -> None:
        """Who only observed has nothing to undo."""
        self.enforcer.restore()
        self.assertEqual(([], []), (self.allocator.writes, self.ddio.writes))

    def test_a_refused_first_layout_leaves_the_machine_as_found(self) -> None:
        """There is no last good layout: classes are given up, DDIO is where it was."""
        self.ddio.refuse = True
        with raises(self, HardwareError, "DDIO"):
            self.enforcer.apply(INVENTORY, layout(0x780, guest=0x00C))
        self.assertEqual({}, self.allocator.effective(0))
        self.assertFalse(self.enforcer.wrote)

    def test_a_hand_that_the_inventory_tells_of(self) -> None:
        """Where the facts say who turned DDIO's knob, and to what, the agent goes on from there."""
        self.enforcer.apply(INVENTORY, FIRST)
        self.ddio.write(0, WayMask(0x780))
        told = dataclasses.replace(
            INVENTORY, domain=dataclasses.replace(SKYLAKE, ddio_found=WayMask(0x780))
        )
        after = layout(0x780, host=0x003, guest=0x00C, stack=0x030)
        self.assertEqual(0x780, self.enforcer.apply(told, after).ddio)
        self.ddio.write(0, WayMask(0x7E0))
        with self.assertRaises(ForeignHand):
            self.enforcer.apply(told, FIRST)

    def test_a_hand_between_the_classes_and_ddio(self) -> None:
        """DDIO's ways are not written over; with the restore the machine is as found."""

        class Allocator(FakeAllocator):
            def apply(inner, domain, classes):
                if classes:
                    self.ddio.write(0, WayMask(0x7E0))
                return super().apply(domain, classes)

        for ddio in (0x600, 0x780, 0x400):
            with self.subTest(ddio=ddio):
                self.ddio = FakeDdio()
                allocator = Allocator()
                enforcer = Enforcer(allocator, self.ddio)
                with raises(self, ForeignHand, "is at 0x7e0"):
                    enforcer.apply(INVENTORY, layout(ddio, guest=0x00C))
                self.assertEqual(0x7E0, self.ddio.read(0))
                enforcer.restore()
                self.assertEqual({}, allocator.effective(0))
                self.assertEqual(0x600, self.ddio.read(0))

    def test_a_domain_that_goes_off_line(self) -> None:
        """Nothing of it is undone, none of it is a foreign hand's, and it is written when back."""
        self.enforcer.apply(INVENTORY, FIRST)
        apply, read = self.allocator.apply, self.ddio.read

        def offline(domain, *_arguments):
            raise DomainOffline(domain)

        self.ddio.read = offline
        self.assertEqual((), self.enforcer.foreign_ddio())
        self.ddio.read, self.allocator.apply = read, offline
        with raises(self, DomainOffline, "^cache domain 0: none of its .*online$"):
            self.enforcer.apply(INVENTORY, layout(0x400, guest=0x00C))
        self.allocator.apply = apply
        self.enforcer.apply(INVENTORY, FIRST)
        self.assertEqual(0x600, self.ddio.read(0))

    def test_an_undo_that_fails_tells_both(self) -> None:
        """Why it was refused, why it could not be undone, and what to do."""
        self.enforcer.apply(INVENTORY, FIRST)

        def jammed(domain, classes):
            raise HardwareError(f"jammed at {len(classes)}")

        self.allocator.apply = jammed
        with raises(self, HardwareError, "jammed at 1; .*jammed at 3; .*restore"):
            self.enforcer.apply(INVENTORY, layout(0x600, guest=0x00C))


class Keeper:
    """A snapshot that notes when it was asked, and can refuse."""

    def __init__(self, allocator: FakeAllocator) -> None:
        self.allocator = allocator
        self.writes_at_protect: list[int] = []
        self.writes_at_extend: list[int] = []
        self.refuse = False
        self.failed: tuple[str, ...] = ()
        self.restored = 0

    def protect(self) -> None:
        if self.refuse:
            raise SnapshotError("no snapshot; without a snapshot nothing is written")
        self.writes_at_protect.append(len(self.allocator.writes))

    def extend(self) -> None:
        self.writes_at_extend.append(len(self.allocator.writes))

    def restore(self) -> Restored:
        self.restored += 1
        return Restored((), self.failed)


class GuardedTest(unittest.TestCase):
    """The snapshot comes before the first write and after the last."""

    def setUp(self) -> None:
        self.allocator, self.ddio = FakeAllocator(), FakeDdio()
        self.snapshot = Keeper(self.allocator)
        self.enforcer = Enforcer(self.allocator, self.ddio, self.snapshot)

    def test_protected_before_the_first_write(self) -> None:
        """Nothing was written when the snapshot was asked."""
        self.enforcer.apply(INVENTORY, FIRST)
        self.assertEqual([0], self.snapshot.writes_at_protect)

    def test_a_further_domain_is_saved_before_its_first_write(self) -> None:
        """A socket that was offline when the snapshot was taken is in it, too."""
        other = dataclasses.replace(SKYLAKE, id=1)
        domains = (SKYLAKE, other)
        self.snapshot.allocator = self.allocator = FakeAllocator(domains)
        enforcer = Enforcer(self.allocator, FakeDdio(domains), self.snapshot)
        enforcer.apply(INVENTORY, FIRST)
        self.assertEqual([0], self.snapshot.writes_at_extend)
        written = len(self.allocator.writes)
        for _ in range(2):
            enforcer.apply(DomainInventory(other, INVENTORY.tenants), FIRST)
        self.assertEqual([0, written], self.snapshot.writes_at_extend)

    def test_without_a_snapshot_nothing_is_written(self) -> None:
        """A snapshot that cannot save stops the write before it begins."""
        self.snapshot.refuse = True
        with raises(self, SnapshotError, "nothing is written"):
            self.enforcer.apply(INVENTORY, layout(0x780, guest=0x00C))
        self.assertEqual(([], []), (self.allocator.writes, self.ddio.writes))

    def test_restored_by_the_guard_and_protected_anew(self) -> None:
        """After a restore the next write is the first again."""
        self.enforcer.apply(INVENTORY, FIRST)
        self.enforcer.restore()
        self.assertFalse(self.enforcer.wrote)
        self.enforcer.apply(INVENTORY, FIRST)
        self.assertEqual((1, 2), (self.snapshot.restored, len(self.snapshot.writes_at_protect)))

    def test_a_restore_that_fails_is_told_and_tried_again(self) -> None:
        """What lies on the hardware is not forgotten."""
        self.enforcer.apply(INVENTORY, FIRST)
        self.snapshot.failed = ("ddio msr: the register is gone",)
        with raises(self, HardwareError, "the register is gone"):
            self.enforcer.restore()
        self.assertTrue(self.enforcer.wrote)
        self.allocator.apply(0, ())  # this much of the restore worked
        self.enforcer.apply(INVENTORY, FIRST)  # the same layout is written anew
        self.assertNotEqual({}, self.allocator.effective(0))

    def test_a_first_layout_half_written_is_not_forgotten(self) -> None:
        """Where neither the first write nor its undo works, a restore is still due."""
        self.ddio.refuse = True

        def jammed(domain, classes):
            raise HardwareError("jammed")

        self.allocator.apply = jammed
        with raises(self, HardwareError, "jammed; and the previous settings could not"):
            self.enforcer.apply(INVENTORY, layout(0x780, guest=0x00C))
        self.assertTrue(self.enforcer.wrote)
        self.enforcer.restore()
        self.assertFalse(self.enforcer.wrote)
