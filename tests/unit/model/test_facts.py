# SPDX-License-Identifier: Apache-2.0
"""What of a picture of the host lasts."""

import dataclasses
import typing
import unittest

from iat_nova.model import (
    Attachment,
    AttachmentKind,
    BandwidthControl,
    CacheDomain,
    DeviceModel,
    DevicePort,
    Facts,
    Guest,
    HostFacts,
    Message,
    PmdThread,
    SwitchPort,
    VirtualSwitch,
    WayMask,
    verbatim,
)
from tests.unit.build import domain, problems

# Numbers of a host that stay until somebody changes it.
LASTING = {
    *("id", "cpus", "ways", "classes", "min_ways", "way_bytes", "numa_nodes", "numa_node"),
    *("online_cpus", "dedicated_cpus", "floating_cpus", "emulator_cpus", "pmd_cpus"),
    *("offline_cpus", "unseen_domains", "shared_port_classes"),
    *("run", "rx_descriptors", "rx_queues", "mtu", "speed_gbps", "least", "step", "most", "whole"),
}


def look(value: int) -> Facts:
    """Return one look at a host of which everything that changes by itself has a value."""
    attachment = Attachment(
        AttachmentKind.TAP, "tap1", packets=value, packets_per_s=float(value), numa_node=1
    )
    guest = Guest("u", 1, "i-1", "web", None, None, None, (4,), (), attachments=(attachment,))
    port = SwitchPort("tap1", "br-int", "system", packets=value, drops=value, mtu=1500)
    thread = PmdThread(2, value / 10, value, value, value)
    switch = VirtualSwitch({}, (port,), (2,), pmd_threads=(thread,), drops_per_s=float(value))
    host = HostFacts("h", (), (2, 4), hour=value, weekday=("mon", "tue")[value])
    return Facts(host, (guest,), switch)


def numbers(kind, seen):
    """Yield the names of fields with numbers in a type, and in those of its fields."""
    if dataclasses.is_dataclass(kind) and kind not in seen and kind is not Message:  # as a text
        seen.add(kind)
        for name, hint in typing.get_type_hints(kind).items():
            inner = {hint, *typing.get_args(hint)}
            inner |= {one for part in inner for one in typing.get_args(part)}
            if inner & {int, float}:
                yield name
            for one in inner:
                yield from numbers(one, seen)


class TestLasting(unittest.TestCase):
    def test_two_looks_at_traffic(self):
        """What was counted, and when, differs; what lasts does not, and is there."""
        self.assertNotEqual(look(0), look(1))
        self.assertEqual(look(0).lasting, look(1).lasting)
        ((attachment,),) = (guest.attachments for guest in look(1).lasting.guests)
        self.assertEqual(
            ("tap1", 1, None), (attachment.device, attachment.numa_node, attachment.packets)
        )
        silent = dataclasses.replace(look(0), problems=problems((verbatim("a source is silent"),)))
        self.assertNotEqual(look(0).lasting, silent.lasting)

    def test_every_number(self):
        """Of a new one somebody has to say whether it lasts; if not, `look` gives it values."""
        changing = {"packets", "packets_per_s", "drops", "drops_per_s", "hour"}
        changing |= {field.name for field in dataclasses.fields(PmdThread)} - {"cpu"}
        self.assertEqual(LASTING | changing | {"cpu"}, set(numbers(Facts, set())))


class DeviceTest(unittest.TestCase):
    def test_models(self) -> None:
        """A guest that owns its device has buffers of its own; the kernel's stack has no CPUs."""
        kind, model = AttachmentKind, DeviceModel
        expected = {
            kind.VF: model.SLICING,
            kind.PF: model.SLICING,
            kind.MACVTAP: model.SLICING,
            kind.VDPA: model.SLICING,
            kind.VHOST_USER: model.AGGREGATION,
            kind.TAP: model.NONE,
            kind.PCI: model.NONE,
            kind.TARGET: model.NONE,
        }
        self.assertEqual(set(kind), set(expected))
        for one, of_kind in expected.items():
            with self.subTest(one):
                self.assertIs(of_kind, Attachment(one, "d").model)
                self.assertIs(model.NONE, Attachment(one, "d", exclusive=False).model)


class BandwidthTest(unittest.TestCase):
    """From a percentage of memory bandwidth to a limit as the hardware has it."""

    def test_gbps(self) -> None:
        """AMD's eighths of a GB/s, rounded up, of what the operator says is all of it."""
        control = BandwidthControl(1, 1, 2048, percent=False, whole=381)
        for percent, limit in ((1, 4), (12, 46), (25, 96), (50, 191), (99, 378), (100, 381)):
            self.assertEqual(limit, control.limit(percent))
        self.assertEqual((1, 1), control.percents)
        self.assertEqual(23.875, control.gbps(50))
        self.assertEqual(50.0, control.felt_below(381e9 / 8 / 2))

    def test_percents(self) -> None:
        """The least percentage and the step, whole numbers that are limits of their own."""
        for least, step, whole, expected in (
            (1, 1, 8, (13, 13)),
            (1, 1, 99, (2, 2)),
            (3, 1, 100, (3, 1)),
            (8, 8, 500, (2, 2)),
            (20, 8, 2048, (1, 1)),
            (30, 20, 1000, (4, 2)),
            (45, 10, 1000, (5, 1)),
        ):
            with self.subTest(least=least, step=step, whole=whole):
                control = BandwidthControl(least, step, 2048, percent=False, whole=whole)
                self.assertEqual(expected, control.percents)

    def test_percentages_are_different_limits(self) -> None:
        """Also where a percent is less than a step, of a slow memory or a coarse limit."""
        for least, step, whole in ((1, 1, 8), (1, 1, 99), (3, 1, 100), (8, 8, 500), (20, 8, 2048)):
            control = BandwidthControl(least, step, 2048, percent=False, whole=whole)
            assert control.percents is not None
            lowest, between = control.percents
            limits = [control.limit(percent) for percent in range(lowest, 101, between)]
            self.assertEqual(sorted(set(limits)), limits)
            self.assertGreaterEqual(limits[0], least)
            self.assertEqual({0}, {limit % step for limit in limits[1:]})
            for percent, limit in zip(range(lowest, 101, between), limits, strict=True):
                self.assertGreaterEqual(100 * limit, percent * whole)

    def test_not_beyond_what_limits_nothing(self) -> None:
        """Of more than the registers hold."""
        self.assertEqual(64, BandwidthControl(1, 1, 64, percent=False, whole=100).limit(90))

    def test_percent(self) -> None:
        """Intel's own."""
        control = BandwidthControl(10, 10, 100, percent=True)
        self.assertEqual(((10, 10), 40), (control.percents, control.limit(40)))
        self.assertIsNone(control.gbps(40))
        self.assertEqual(100.0, control.felt_below(1e9))

    def test_nobody_said(self) -> None:
        """Then there is no percentage."""
        control = BandwidthControl(1, 1, 2048, percent=False)
        self.assertEqual((None, None), (control.percents, control.gbps(40)))
        self.assertEqual(100.0, control.felt_below(1e9))
        with self.assertRaisesRegex(ValueError, "what 100 % of memory bandwidth is"):
            control.limit(40)


class CacheDomainTest(unittest.TestCase):
    def test_reserving(self) -> None:
        """Ways that the cache does not have are left out; coerced ways are reserved together."""
        found = domain(11, reserved_ways=WayMask(0x3), coerced_ways=WayMask(0x600))
        self.assertEqual(0x7, found.reserving(WayMask(0x804)))
        self.assertEqual(0x603, found.reserving(WayMask(0x400)))

    def test_ports_of_devices(self) -> None:
        """A port counts for each of its devices, and once for several."""
        ports = (DevicePort("a", ("a", "a1")), DevicePort("b", ("b",)), DevicePort("c", ("c",)))
        found = domain(device_ports=ports)
        self.assertEqual(("a", "c"), found.ports_of(("a1", "a", None, "c", "d")))
        self.assertEqual((), found.ports_of((None,)))

    def test_usual(self) -> None:
        """Unless told otherwise a cache takes any contiguous mask; DDIO is counted and sized."""
        found = CacheDomain(0, (), 11, 16)
        self.assertEqual((1, False), (found.min_ways, found.sparse_masks))
        self.assertEqual((True, True), (found.ddio_resizable, found.ddio_counters))
        self.assertEqual(0, found.coerced_ways | found.reserved_ways)
        self.assertEqual(((), 0), (found.device_ports, found.shared_port_classes))
        self.assertEqual(0, HostFacts("h", (found,), ()).unseen_domains)

    def test_cachetune(self) -> None:
        """libvirt allocates no cache to a guest unless its domain says so."""
        self.assertFalse(look(0).guests[0].cachetune)
