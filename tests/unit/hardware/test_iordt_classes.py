# SPDX-License-Identifier: Apache-2.0
"""DDIO's ways by a class of devices: the contract, the order of writes, and the way back."""

import dataclasses
import json
import unittest
from unittest import mock

from iat_nova.hardware.api import ClassMask, DomainOffline, HardwareError, TenantCounts
from iat_nova.hardware.cat.cpuid import IoRdtFeatures
from iat_nova.hardware.cat.resctrl import Resctrl
from iat_nova.hardware.cat.resctrl_fs import PORTS
from iat_nova.hardware.counters import events
from iat_nova.hardware.ddio import irdt
from iat_nova.hardware.ddio.iordt import IoRdt, tag_registers
from iat_nova.hardware.ddio.iordt_classes import GROUP, DeviceClass, check_usable
from iat_nova.hardware.ddio.iordt_registers import Tag
from iat_nova.hardware.ddio.ways import MsrDdio
from iat_nova.hardware.host.probe import Host
from iat_nova.hardware.kernel.shape import check
from iat_nova.model import DevicePort, DomainInventory, PortGroup, WayMask, message
from tests.proofs import proves
from tests.said import codes
from tests.unit import build
from tests.unit.hardware import contract, irdt_tables, trees
from tests.unit.hardware.enforcement import test_restore
from tests.unit.hardware.registers import FakeMemory, FakeMsr
from tests.unit.hardware.test_ddio import Folder

SWITCH = 0xC83
BASE = 0xFE00_0000
TOP = 0x8000


class Tree(trees.KernelTree):
    """resctrl of a CPU whose class registers can be read: `msr` shows what the kernel wrote."""

    msr = None

    def _put(self, name, text):
        super()._put(name, text)
        if self.msr is not None and name.endswith("schemata"):
            group = name.rpartition("schemata")[0].rstrip("/")
            for domain, mask in self.masks(group, "L3").items():
                cpu = min(self.cpus.packages[domain])
                self.msr.set(cpu, 0xC90 + self._closid(group), int(mask))


class Case(Folder):
    """Two packages of a CPU with I/O RDT, and the devices of `irdt_tables.server`."""

    debug = True

    def make(self):
        self.cpus = trees.Cpus(self.folder / "cpu", packages=((0, 1), (2, 3)))
        self.msr = FakeMsr({0: 0, 1: 0, 2: 1, 3: 1})
        self.tree = Tree(self.folder / "resctrl", self.cpus, debug=self.debug)
        self.tree.msr = self.msr
        self.table = self.folder / "IRDT"
        self.table.write_bytes(irdt_tables.server(BASE))
        self.memory = FakeMemory(irdt.read(irdt_tables.server(BASE)))
        self.allocator = Resctrl(self.tree, self.cpus.topology)
        self.found = MsrDdio(self.msr, self.allocator.domains, self.cpus.topology)
        return self.fresh(), self.allocator.domains()[0]

    def tags(self):
        return tag_registers(self.memory, self.table)

    def fresh(self):
        """Return the class of another process."""
        topology, domains = self.cpus.topology, self.allocator.domains
        return DeviceClass(self.tree, self.msr, topology, self.tags, domains, self.found)

    def switches(self):
        return [self.msr.get(cpu, SWITCH) for cpu in (0, 2)]


@proves("ways of devices: I/O RDT", on=(events.GRANITE_RAPIDS.name,))
class Contract(Case, contract.DdioContract, unittest.TestCase):
    """All that a back end of DDIO's ways must do, with the class's number from the kernel."""

    def test_order(self):
        """Devices keep their ways until the switch is on: group, tags, switch, new ways."""
        steps = []
        self.memory.before_write = lambda: steps.append(("tag", self.switches()))
        wrote = self.msr.pwrite

        def pwrite(cpu, register, data):
            steps.append(("switch", self.tree.masks(GROUP, "L3"), set(self.memory.values.values())))
            wrote(cpu, register, data)

        self.msr.pwrite = pwrite
        self.msr.set(2, 0xC8B, 0x700)
        self.ddio.write(0, WayMask(0x7C0))
        self.assertEqual([("tag", [0, 0])] * 8, steps[:8])
        # 0: registers of RMIDs, which stay
        self.assertEqual([("switch", {0: 0x600, 1: 0x7FF}, {0, 1, 0x8001, 0x8000_0001})], steps[8:])
        self.assertEqual([1, 0], self.switches())
        self.assertEqual({0: 0x7C0, 1: 0x7FF}, self.tree.masks(GROUP, "L3"))
        self.assertEqual((0x7C0, 0x700), (self.ddio.read(0), self.ddio.read(1)))
        self.ddio.write(1, WayMask(0x600))
        self.assertEqual(("switch", {0: 0x7C0, 1: 0x700}), steps[9][:2])
        self.assertEqual([1, 1], self.switches())
        self.assertEqual({0: 0x7C0, 1: 0x600}, self.tree.masks(GROUP, "L3"))
        self.assertEqual(8, len(self.memory.writes))
        self.assertEqual((0x600, 0x700), (self.msr.get(0, 0xC8B), self.msr.get(2, 0xC8B)))

    def test_restored(self):
        """Switches and tags as found, by any process, once; the group goes last."""
        self.memory.values[BASE + 0x100] = 0x7FFF_0007
        before = dict(self.memory.values)
        saved = json.loads(json.dumps(self.ddio.save()))
        check(self.ddio.shape, saved)
        for domain in (0, 1):
            self.ddio.write(domain, WayMask(0x7C0))
        for process in (self.ddio, self.fresh()):
            done = process.restore(saved)
            if process is self.ddio:
                self.assertEqual(11, len(done))
            else:
                self.assertEqual((), done)
            self.assertEqual(([0, 0], before), (self.switches(), self.memory.values))
        self.assertEqual(0x600, self.ddio.read(0))
        self.assertEqual((), self.tree.groups())

    def test_refused_steps(self):
        """Each refused write is undone with all before it; the next try begins anew."""
        before = (dict(self.memory.values), self.tree.state())

        def refuse(after):
            def count():
                nonlocal after
                after -= 1
                if after == 0:
                    raise HardwareError("refused")

            self.memory.before_write = count

        for n in range(1, 9):
            refuse(n)
            with self.assertRaises(HardwareError):
                self.ddio.write(0, WayMask(0x7C0))
            self.assertEqual(before, (self.memory.values, self.tree.state()))
            self.assertEqual([0, 0], self.switches())
        self.memory.before_write = lambda: None
        self.msr.stuck.add(SWITCH)
        with self.assertRaises(HardwareError) as caught:
            self.ddio.write(0, WayMask(0x7C0))
        self.assertIn("iordt-switch-differs", codes(caught.exception.message))
        self.assertEqual(before, (self.memory.values, self.tree.state()))
        self.msr.stuck.clear()
        self.assertEqual(0x7C0, self.ddio.write(0, WayMask(0x7C0)))

    def test_on_already(self):
        """Classes of devices that somebody else switched on are not touched."""
        self.msr.set(2, SWITCH, 1)
        with self.assertRaises(HardwareError) as caught:
            self.ddio.write(0, WayMask(0x7C0))
        self.assertEqual(message("iordt-on-already", domain=1), caught.exception.state)
        self.assertEqual(([], ()), (self.memory.writes, self.tree.groups()))
        saved = self.ddio.save()
        self.assertEqual(((), [0, 1]), (self.ddio.restore(saved), self.switches()))

    def test_ways_that_nobody_knows(self):
        """Devices would lose their present ways at the switch: nothing is tagged or switched on."""
        self.msr.set(2, 0xC8B, 0)
        with self.assertRaises(HardwareError) as caught:
            self.ddio.write(1, WayMask(0x7C0))
        self.assertEqual(message("iordt-ways-unknown", domain=1), caught.exception.state)
        self.assertEqual(([], ()), (self.memory.writes, self.tree.groups()))
        self.assertEqual([0, 0], self.switches())

    def test_other_bits_of_the_switch(self):
        """Monitoring of devices stays on, and off."""
        self.msr.set(0, SWITCH, 2)
        saved = self.ddio.save()
        self.ddio.write(0, WayMask(0x7C0))
        self.assertEqual([3, 0], self.switches())
        self.ddio.restore(saved)
        self.assertEqual([2, 0], self.switches())

    def test_another_hand(self):
        """Tags, switches and a group that others change are told."""
        self.assertEqual((), self.ddio.inspect())
        self.ddio.write(0, WayMask(0x7C0))
        self.assertEqual((), self.ddio.inspect())
        self.memory.values[BASE + 0x1100] = 3
        self.msr.set(0, SWITCH, 0)
        told = (
            message("iordt-tags-changed", channels=("0.1.0",)),
            message("iordt-switch-changed", domain=0),
        )
        self.assertEqual(told, self.ddio.inspect())
        self.tree.rmdir(GROUP)
        self.assertIsNone(self.ddio.read(0))

    def test_forged(self):
        """A restore sets the switch's bit, and tags of channels in the table, and nothing else."""
        self.msr.set(0, SWITCH, 6)
        self.memory.values[BASE + 0x100] = 0x7FFF_0000
        with self.assertRaises(ValueError):
            check(self.ddio.shape, {"switches": {"0": 2}, "tags": []})
        forged = {"switches": {"0": 1}, "tags": [[0, 0, 0, 0xFFFF_0003]]}
        check(self.ddio.shape, forged)
        self.ddio.restore(forged)
        self.assertEqual(([7, 0], 0x7FFF_0003), (self.switches(), self.memory.values[BASE + 0x100]))
        for channel in ([0, 0, 7], [0, 9, 0], [9, 0, 0]):
            with self.assertRaises(HardwareError) as caught:
                self.ddio.restore({"switches": {}, "tags": [[*channel, 0]]})
            self.assertIn("iordt-channel-absent", codes(caught.exception.message))
        self.assertEqual([(BASE + 0x100, 0x7FFF_0003)], self.memory.writes)

    def test_a_domain_off_line(self):
        """Its switch stays until a CPU is back; the other one and the tags are restored."""
        saved = self.ddio.save()
        for domain in (0, 1):
            self.ddio.write(domain, WayMask(0x7C0))
        for cpu in (2, 3):
            self.tree.unplug(cpu)
            self.msr.off.add(cpu)
        with self.assertRaises(DomainOffline):
            self.ddio.read(1)
        reach = self.ddio.reachable(saved)
        self.assertEqual((message("iordt-switch-offline", domain="1"),), reach.places)
        self.assertEqual(10, len(self.ddio.restore(reach.now)))
        self.assertEqual((), self.ddio.restore(reach.now))
        self.tree.plug(2)
        self.msr.off.clear()
        self.assertEqual([0, 1], self.switches())
        reach = self.fresh().reachable(reach.later)
        self.assertIsNone(reach.later)
        self.assertEqual(1, len(self.fresh().restore(reach.now)))
        self.assertEqual([0, 0], self.switches())

    def test_a_domain_online_after_the_saving(self):
        """Its switch could not be restored: it stays off until the next saving."""
        for cpu in (2, 3):
            self.tree.unplug(cpu)
            self.msr.off.add(cpu)
        self.ddio.save()
        self.msr.off.clear()
        for cpu in (2, 3):
            self.tree.plug(cpu)
        with self.assertRaises(DomainOffline):
            self.ddio.write(1, WayMask(0x7C0))
        self.ddio.write(0, WayMask(0x7C0))
        self.assertEqual([1, 0], self.switches())
        self.ddio.save()
        self.ddio.write(1, WayMask(0x7C0))
        self.assertEqual([1, 1], self.switches())


NIC0, NIC1, DISK, SHARED = "0000:3b:00.0", "0000:3b:00.1", "0000:3d:00.0", "0000:af:00.0"


class PortsCase(Case):
    """Ports of domain 0 with ways of their own."""

    def setUp(self):
        super().setUp()
        self.ddio, _ = self.make()

    def place(self, *groups, domain=0):
        made = tuple(PortGroup(ports, WayMask(mask)) for ports, mask in groups)
        return self.ddio.place(domain, made)

    def classes(self):
        """Return the class of each channel, by name."""
        values = self.tags().read(Tag.CLASS)
        return {str(one): value & 0x7FFF for one, value in values.items()}

    def masks(self):
        """Return the mask in domain 0 of each of our groups, by the class's number."""
        return {
            self.tree.hardware_class(group): int(self.tree.masks(group, "L3")[0])
            for group in self.tree.groups()
        }


@proves("ways of single ports: I/O RDT", on=(events.GRANITE_RAPIDS.name,))
class Ports(PortsCase, unittest.TestCase):
    """Ways of single ports, beside the class of all devices."""

    def test_placed(self):
        """Each group of ports has a class with its mask; all others have that of all devices."""
        self.assertEqual({}, self.place())
        self.assertEqual(((), []), (self.tree.groups(), self.memory.writes))
        placed = self.place(((NIC0,), 0x0F0), ((DISK, SHARED), 0x00F))
        self.assertEqual({NIC0: 0x0F0, DISK: 0x00F, SHARED: 0x00F}, placed)
        self.assertEqual({1: 0x600, 2: 0x0F0, 3: 0x00F}, self.masks())
        self.assertEqual(
            {"0.0.0": 2, "0.0.1": 1, "0.1.0": 1, "0.2.0": 3, "1.0.0": 1, "1.0.1": 3, "1.0.2": 1,
             "1.0.3": 1}, self.classes(),
        )  # fmt: skip
        self.assertEqual(([1, 0], 0x600), (self.switches(), self.ddio.read(0)))
        self.assertEqual(((), placed), (self.ddio.inspect(), self.ddio.placed(0)))

    def test_moved(self):
        """Masks follow, ports change their class, and groups without ports go."""
        self.place(((NIC0,), 0x0F0), ((DISK, SHARED), 0x00F))
        self.ddio.write(0, WayMask(0x700))
        wrote = len(self.memory.writes)
        self.assertEqual({NIC0: 0x030, DISK: 0x00F, SHARED: 0x00F},
                         self.place(((NIC0,), 0x030), ((DISK, SHARED), 0x00F)))  # fmt: skip
        self.assertEqual(wrote, len(self.memory.writes))
        self.place(((NIC0, SHARED), 0x030))
        self.assertEqual({1: 0x700, 2: 0x030}, self.masks())
        self.assertEqual((2, 1, 2), tuple(map(self.classes().get, ("0.0.0", "0.2.0", "1.0.1"))))
        self.place()
        self.assertEqual({1: 0x700}, self.masks())
        self.assertEqual({1}, set(self.classes().values()))

    def test_order(self):
        """A port gets its class once the mask is there, and leaves before its group goes."""
        steps = []
        self.memory.before_write = lambda: steps.append(self.masks())
        rmdir = self.tree.rmdir

        def removed(name):
            steps.append(self.classes()["0.0.0"])
            rmdir(name)

        self.tree.rmdir = removed
        self.place(((NIC0,), 0x0F0))
        self.assertEqual({1: 0x600, 2: 0x0F0}, steps[-1])
        self.place()
        self.assertEqual([{1: 0x600, 2: 0x0F0}, 1], steps[-2:])

    def test_refused_steps(self):
        """Each refused write is undone with all before it, also with the class of all devices."""
        before = (dict(self.memory.values), self.tree.state())
        for groups in ((((NIC0,), 0x0F0), ((DISK,), 0x00F)), (((DISK,), 0x030),)):
            for refused in range(1, 99):
                left = [refused]

                def count(left=left):
                    left[0] -= 1
                    if left[0] == 0:
                        raise HardwareError("refused")

                self.memory.before_write = count
                try:
                    self.place(*groups)
                except HardwareError:
                    self.assertEqual(before, (self.memory.values, self.tree.state()))
                else:
                    break
            before = (dict(self.memory.values), self.tree.state())
        self.assertEqual({DISK: 0x030}, self.ddio.placed(0))

    def test_refused(self):
        """Masks that the hardware does not take, and ports that are none."""
        for groups, code in (
            ((((NIC0,), 0x500),), "mask-with-gap"),
            ((((NIC0,), 0),), "mask-empty"),
            (((("0000:99:00.0",), 0x3),), "iordt-port-absent"),
        ):
            with self.assertRaises(HardwareError) as caught:
                self.place(*groups)
            self.assertIn(code, codes(caught.exception.message))
            self.assertEqual((), self.tree.groups())

    def test_another_hand(self):
        """A mask, a group and a tag that others change are seen."""
        self.place(((NIC0,), 0x0F0))
        self.tree.write(f"{GROUP}.1/schemata", "L3:0=3\n")
        self.assertEqual({NIC0: 0x3}, self.ddio.placed(0))
        self.tree.rmdir(f"{GROUP}.1")
        self.assertEqual({}, self.ddio.placed(0))
        self.memory.values[BASE + 0x100] = 1
        told = (message("iordt-tags-changed", channels=("0.0.0",)),)
        self.assertEqual(told, self.ddio.inspect())

    def test_a_domain_that_was_off_line(self):
        """The kernel gave its groups all ways: the same ways are written again."""
        for cpus in ((0, 1), (0,)):
            ports = ((NIC0,), 0x0F0), ((DISK,), 0x00F)
            placed = self.place(*ports)
            for cpu in cpus:
                self.tree.unplug(cpu)
            for cpu in cpus:
                self.tree.plug(cpu)
            reset = len(cpus) == 2
            self.assertEqual(not reset, placed == self.ddio.placed(0))
            self.assertEqual({NIC0: 0x0F0, DISK: 0x00F}, self.place(*ports))

    def test_at_the_limit_of_classes(self):
        """Other ports take over the classes of those that leave, and fill no ways but their own."""
        self.place(((NIC0, DISK), 0x0F0), ((SHARED,), 0x00F))
        self.tree.closids = 4
        own = {NIC0: {0x0F0}, DISK: {0x0F0}, SHARED: {0x00F}, NIC1: set()}
        first = {NIC0: "0.0.0", NIC1: "0.0.1", DISK: "0.2.0", SHARED: "1.0.1"}
        put = self.tree._put

        def look():
            tags, masks = self.classes(), self.masks()
            for port, channel in first.items():
                self.assertIn(masks[tags[channel]], {0x600} | own[port])

        def seen(name, text):
            put(name, text)
            if name.endswith("schemata"):
                look()

        self.tree._put, self.memory.before_write = seen, look
        for groups in (
            (((DISK,), 0x0F0), ((SHARED,), 0x00F)),
            (((NIC1,), 0x030), ((NIC0,), 0x0C0)),
            (((NIC1, NIC0), 0x003),),
            (((SHARED,), 0x030), ((NIC0,), 0x100)),
        ):
            for ports, mask in groups:
                for port in ports:
                    own[port].add(mask)
            placed = self.place(*groups)
            self.assertEqual({port: mask for ports, mask in groups for port in ports}, placed)
            self.assertEqual(1 + len(groups), len(self.tree.groups()))
            own = {port: {placed[port]} if port in placed else set() for port in own}

    def test_two_domains(self):
        """Ports of another domain have the same classes, with masks of that domain."""
        self.place(((NIC0,), 0x0F0), ((DISK,), 0x00F))
        self.assertEqual({SHARED: 0x030}, self.place(((SHARED,), 0x030), domain=1))
        self.assertEqual((GROUP, f"{GROUP}.1", f"{GROUP}.2"), self.tree.groups())
        self.assertEqual({0: 0x0F0, 1: 0x030}, self.tree.masks(f"{GROUP}.1", "L3"))
        self.place()
        self.assertEqual((GROUP, f"{GROUP}.1"), self.tree.groups())
        self.assertEqual({SHARED: 0x030}, self.ddio.placed(1))
        self.assertEqual((1, 2), tuple(map(self.classes().get, ("0.0.0", "1.0.1"))))
        self.place(domain=1)
        self.assertEqual((GROUP,), self.tree.groups())

    def test_too_many_classes(self):
        """Told before anything is written."""
        for number in range(1, 7):
            self.tree.mkdir(f"iat-nova.{number}")
        with self.assertRaises(HardwareError) as caught:
            self.place(((NIC0,), 0x0F0), ((DISK,), 0x00F))
        self.assertIn("classes-too-many", codes(caught.exception.message))
        self.assertEqual(([], 6), (self.memory.writes, len(self.tree.groups())))

    def test_a_group_that_is_not_removed(self):
        """It stays ours, without ports, until it is removed or has ports again."""
        rmdir = self.tree.rmdir

        def refused(name):
            raise OSError(16, "Device or resource busy")

        for groups, left in ((), 1), ((((DISK,), 0x00F),), 2):
            self.place(((NIC0,), 0x0F0))
            self.tree.rmdir = refused
            with self.assertRaises(HardwareError):
                self.place()
            self.assertEqual({}, self.ddio.placed(0))
            self.tree.rmdir = rmdir
            self.place(*groups)
            self.assertEqual(left, len(self.tree.groups()))

    def test_restored(self):
        """Tags and switches as found; then ports begin anew."""
        saved = json.loads(json.dumps(self.ddio.save()))
        before = dict(self.memory.values)
        self.place(((NIC0,), 0x0F0), ((DISK,), 0x00F))
        self.ddio.restore(saved)
        self.assertEqual((before, [0, 0]), (self.memory.values, self.switches()))
        self.assertEqual(((), {}), (self.tree.groups(), self.ddio.placed(0)))
        self.assertEqual({NIC0: 0x00F}, self.place(((NIC0,), 0x00F)))


class PortsWithoutDebug(PortsCase, unittest.TestCase):
    """The classes' numbers from their registers."""

    debug = False

    def test_the_classes_are_found(self):
        """Once each: a group with ports keeps its mask while others are looked for."""
        self.place(((NIC0,), 0x0F0))
        seen = []
        wrote = self.tree.write

        def write(name, text):
            seen.append(name)
            wrote(name, text)

        self.tree.write = write
        self.place(((NIC0,), 0x0F0), ((DISK,), 0x0F0))
        self.assertEqual({f"{GROUP}.2/schemata"}, set(seen))
        self.assertEqual((2, 3, 1), tuple(map(self.classes().get, ("0.0.0", "0.2.0", "0.1.0"))))


class WithoutDebug(Case, contract.DdioContract, unittest.TestCase):
    """The class's number from its register, which follows the group's mask."""

    debug = False

    def test_the_class_is_found(self):
        """Among classes of others with the same masks."""
        for n in range(3):
            self.tree.mkdir(f"theirs{n}")
            self.tree.write(f"theirs{n}/schemata", f"L3:0={(0x600, 0x7FF, 0x3)[n]:x}\n")
        self.ddio.write(0, WayMask(0x600))
        self.assertEqual({0, 4, TOP | 4, 1 << 31 | 4}, set(self.memory.values.values()))

    def test_no_class_is_found(self):
        """Registers that do not follow: nothing is tagged or switched on."""
        self.tree.msr = None
        with self.assertRaises(HardwareError) as caught:
            self.ddio.write(0, WayMask(0x7C0))
        self.assertEqual("iordt-class-unknown", caught.exception.state.code)
        self.assertEqual(([], ()), (self.memory.writes, self.tree.groups()))


class Usable(Case, unittest.TestCase):
    """A CPU and a mount with which all devices can have a class."""

    def setUp(self):
        super().setUp()
        self.make()

    def check(self, fs, *, classes=True):
        check_usable(IoRdt(IoRdtFeatures(classes, True, True), self.tags(), {}), fs)

    def test_refused(self):
        """A CPU that only counts devices, and a mount that keeps code and data apart."""
        self.check(self.tree)
        with self.assertRaises(HardwareError) as caught:
            self.check(self.tree, classes=False)
        self.assertEqual(message("iordt-without-classes"), caught.exception.message)
        apart = trees.KernelTree(self.folder / "apart", self.cpus, cdp=True)
        with self.assertRaises(HardwareError) as caught:
            self.check(apart)
        self.assertEqual(
            (message("iordt-with-cdp"), message("mount-resctrl-without-cdp")),
            (caught.exception.state, caught.exception.remedy),
        )


class Killed(BaseException):
    """The agent is no more."""


class AgentCase(test_restore.MachineCase):
    """An agent with ddio_interface = iordt on a whole host."""

    def setUp(self):
        self.memory = FakeMemory(irdt.read(irdt_tables.server(BASE)))
        self.left = None
        super().setUp()
        self.be("granite rapids")
        self.roots.irdt.write_bytes(irdt_tables.server(BASE))
        self.tree.debug = True
        for cpu in range(4):
            trees.put_cpuid(self.roots.msr, cpu, io_rdt=True)
        self.memory.before_write = self.count
        changed, wrote = self.tree._change, self.msr.pwrite

        def change(text):
            self.count()
            changed(text)

        def pwrite(cpu, register, data):
            self.count()
            wrote(cpu, register, data)

        self.tree._change, self.msr.pwrite = change, pwrite
        self.counting = False

    def count_ports(self):
        """Have resctrl show RMIDs, and the agent count all ports."""
        self.counting = True
        self.tree.monitoring(32)
        self.tree._put("ctrl_hw_id", 0)
        (self.tree.root / "mon_groups").mkdir(exist_ok=True)
        self.found = self.tree.state()

    def count(self):
        """End the process before this write if it is the last."""
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                raise Killed

    def host(self):
        host = Host(self.roots, fs=self.tree, msr=self.msr)
        host.memory = self.memory
        return host

    def owned(self, **changes):
        usual = {"ddio_interface": "iordt", "monitor_tenants": self.counting}
        return super().owned(**{**usual, **changes})

    def change_all(self, owned):
        super().change_all(owned)
        owned.machine.ddio.write(1, WayMask(0x700))
        for ports in ((DISK,), (DISK, SHARED), ()):
            groups = (PortGroup((NIC0,), WayMask(0x0F0)), PortGroup(ports, WayMask(0x00F)))
            owned.machine.port_ways.place(0, groups if ports else groups[:1])
        if self.counting:
            self.watch(owned)

    def watch(self, owned, ports=(NIC0, DISK, SHARED)):
        """Count ports of domain 0; return the monitor."""
        (domain, *_) = owned.machine.allocator.domains()
        devices = tuple(DevicePort(one, (one,)) for one in ports)
        domain = dataclasses.replace(domain, device_ports=devices)
        owned.machine.monitor.watch({0: DomainInventory(domain, ())})
        self.assertIsNone(owned.machine.monitor.full)
        return owned.machine.monitor

    def assert_as_found(self):
        super().assert_as_found()
        self.assertEqual({0}, set(self.memory.values.values()))
        self.assertEqual([0, 0], [self.msr.get(cpu, SWITCH) for cpu in (0, 2)])

    def kill_at_each_write(self):
        """Check that after each moment at which an agent may end, restore puts all back."""
        for ended in range(99):
            owned = self.owned()
            owned.snapshot.protect()
            self.left = ended
            try:
                self.change_all(owned)
                done = True
            except Killed:
                done = False
            self.left = None
            self.assertEqual(0, self.run_it("restore")[0])
            self.assert_as_found()
            if done:
                break
        self.assertGreater(ended, 16)


class Agent(AgentCase):
    """What such an agent leaves."""

    def test_a_class_of_devices_and_back(self):
        """Tenants have one class less, and one a group of ports; the host ends as found."""
        owned = self.owned()
        domain = owned.machine.allocator.domains()[0]
        self.assertEqual((self.tree.closids - 1, 0x600), (domain.classes, domain.ddio_found))
        with owned.held():
            owned.snapshot.protect()
            self.change_all(owned)
            self.assertEqual(((), ()), (owned.owners(), owned.machine.inspect()))
            many = (ClassMask(f"{n}", (), WayMask(0x3)) for n in range(domain.classes - 2))
            owned.machine.allocator.apply(0, tuple(many))
            self.memory.values[BASE + 0x100] = 0
            (told,) = owned.machine.inspect()
            self.assertEqual("iordt-tags-changed", told.code)
        self.assert_as_found()

    def test_the_group_goes_last(self):
        """Its class is free for others only when no device has it: at the end, and by restore."""
        removed, rmdir = [], self.tree.rmdir

        def look(name):
            if name == GROUP:
                tags = {value & 0x7FFF for value in self.memory.values.values()}
                removed.append(([self.msr.get(cpu, SWITCH) for cpu in (0, 2)], tags))
            rmdir(name)

        self.tree.rmdir = look
        owned = self.owned()
        with owned.held():
            owned.snapshot.protect()
            self.change_all(owned)
        self.crash()
        self.assertEqual(0, self.run_it("restore")[0])
        self.assertEqual([([0, 0], {0})] * 2, removed)

    def test_killed_at_each_write(self):
        """After each moment at which an agent may end, restore puts everything back."""
        self.kill_at_each_write()

    def test_killed_while_it_restores(self):
        """A restore that was ended is repeated, and leaves nothing."""
        for ended in range(99):
            self.crash()
            self.left = ended
            try:
                self.run_it("restore")
                done = True
            except Killed:
                done = False
            self.left = None
            if done:
                break
            self.assertEqual(0, self.run_it("restore")[0])
            self.assert_as_found()
        self.assertGreater(ended, 10)

    def lose_the_snapshot(self):
        """Leave the host as a killed agent does whose snapshot was lost."""
        self.crash()
        self.settings().snapshot_path.unlink()

    def test_without_a_snapshot(self):
        """Devices leave classes that others may get: their tags and switches are as at a boot."""
        self.count_ports()
        self.lose_the_snapshot()
        self.assertEqual([3, 3], [self.msr.get(cpu, SWITCH) | 2 for cpu in (0, 2)])
        with self.assertLogs("iat_nova", "WARNING"), self.owned().held():
            self.assert_as_found()
        self.lose_the_snapshot()
        self.assertEqual(1, self.run_it("restore")[0])
        self.assert_as_found()
        self.assertEqual((0, "nothing to restore\n", ""), self.run_it("restore"))

    def test_without_a_snapshot_and_table(self):
        """A group without a table of devices is of no device."""
        self.tree.mkdir(GROUP)
        self.roots.irdt.unlink()
        self.assertEqual(1, self.run_it("restore")[0])
        self.assert_as_found()

    def test_tags_that_cannot_be_restored(self):
        """The groups whose classes devices have stay, and nobody else gets these classes."""
        for lose in (self.crash, self.lose_the_snapshot):
            lose()
            with mock.patch.object(self.memory, "before_write", side_effect=self.refuse):
                self.assertEqual(1, self.run_it("restore")[0])
            self.assertEqual((GROUP, f"{GROUP}.1"), self.tree.groups())
            self.assertEqual([0, 0], [self.msr.get(cpu, SWITCH) for cpu in (0, 2)])
            self.run_it("restore")
            self.assert_as_found()

    def refuse(self):
        raise HardwareError("refused")

    def test_without_the_driver_of_cpuid(self):
        """A restore needs the table and the registers alone."""
        self.crash()
        for cpu in range(4):
            (self.roots.msr / f"{cpu}/cpuid").unlink()
        self.assertEqual(0, self.run_it("restore")[0])
        self.assert_as_found()

    def test_memory_that_refuses(self):
        """Devices leave the class all the same; the tags stay in the snapshot until they can be."""
        self.crash()
        self.memory.refuse = HardwareError("denied")
        status, _, err = self.run_it("restore")
        self.assertEqual(1, status)
        self.assertIn("ddio iordt: denied", err)
        self.assertEqual([0, 0], [self.msr.get(cpu, SWITCH) for cpu in (0, 2)])
        self.memory.refuse = None
        self.assertEqual(0, self.run_it("restore")[0])
        self.assert_as_found()

    def test_only_observing(self):
        """An agent that writes no masks writes no register."""
        with self.owned().held():
            pass
        self.assertEqual(([], []), (self.memory.writes, self.msr.writes))
        self.assert_as_found()

    def test_refused_at_the_start(self):
        """Where devices cannot all be tagged the interface cannot be had; nothing is written."""
        flags = irdt_tables.RMIDS
        for table, code in (
            (irdt_tables.unit(irdt_tables.link(0, 1, flags, BASE)), "iordt-channels-untagged"),
            (
                irdt_tables.unit(
                    irdt_tables.link(0, 1, irdt_tables.CLASSES | irdt_tables.RMID_ENABLE, BASE)
                ),
                "iordt-enable-unknown",
            ),
        ):
            self.roots.irdt.write_bytes(irdt_tables.table(table))
            self.memory = FakeMemory(irdt.read(irdt_tables.table(table)))
            with self.assertRaises(HardwareError) as caught:
                self.owned()
            self.assertIn(code, codes(caught.exception.message))
        self.roots.irdt.unlink()
        with self.assertRaises(HardwareError) as caught:
            self.owned()
        self.assertIn("iordt-no-table", codes(caught.exception.message))


@proves("occupancy and traffic of ports: I/O RDT", on=(events.GRANITE_RAPIDS.name,))
class CountedPorts(AgentCase):
    """Ports with RMIDs of their own."""

    def test_ports_are_counted(self):
        """Each by an RMID of its own, beside classes and tenants; the host ends as found."""
        self.count_ports()
        owned = self.owned()
        with owned.held():
            owned.snapshot.protect()
            self.change_all(owned)
            monitor = self.watch(owned)
            tags = [self.memory.values[BASE + at] for at in (0, 4, 0x2000, 0x3000, 0x3004)]
            self.assertEqual([1, 0, TOP | 2, 0, 1 << 31 | 3], tags)
            self.assertEqual([3, 1], [self.msr.get(cpu, SWITCH) for cpu in (0, 2)])
            self.assertEqual([], [one.code for one in owned.machine.inspect()])
            data = f"mon_groups/{PORTS}1/mon_data/mon_L3_00"
            self.tree._put(f"{data}/llc_occupancy", 7)
            self.tree._put(f"{data}/mbm_total_bytes", "Unavailable")
            read = monitor.read()
            self.assertEqual({(0, NIC0), (0, DISK), (0, SHARED)}, read.keys())
            self.assertEqual(TenantCounts(7, None), read[0, DISK])
            written = len(self.memory.writes)
            self.watch(owned)
            self.assertEqual(written, len(self.memory.writes))
            self.watch(owned, (DISK,))
            self.assertEqual({(0, DISK)}, monitor.read().keys())
            self.assertEqual(0, self.memory.values[BASE])
            monitor.close()
            monitor.close()
            self.assertEqual({}, monitor.read())
            self.assertEqual([1, 1], [self.msr.get(cpu, SWITCH) for cpu in (0, 2)])
            self.assertEqual({}, self.tree.monitors())
        self.assert_as_found()

    def test_what_the_agent_never_wrote(self):
        """The switches of a domain, and RMIDs of ports, that an operator sets meanwhile stay."""
        self.count_ports()
        owned = self.owned()
        with owned.held():
            owned.snapshot.protect()
            self.msr.set(2, SWITCH, 3)
            self.memory.values[BASE] = 5
        self.assertEqual(([0, 3], 5), (self.switches(), self.memory.values[BASE]))
        self.msr.set(2, SWITCH, 0)
        self.memory.values[BASE] = 0
        with owned.held():
            owned.snapshot.protect()
            owned.machine.ddio.write(0, WayMask(0x700))
            self.watch(owned, (DISK,))
            self.msr.set(2, SWITCH, 3)
            self.memory.values[BASE] = 5
        self.assertEqual(([0, 3], 5), (self.switches(), self.memory.values[BASE]))
        self.assertEqual(({}, ()), (self.tree.monitors(), self.tree.groups()))
        with owned.held():  # nothing is counted before the settings are saved again
            (domain, *_) = owned.machine.allocator.domains()
            domain = dataclasses.replace(domain, device_ports=(DevicePort(DISK, (DISK,)),))
            written = len(self.memory.writes)
            owned.machine.monitor.watch({0: DomainInventory(domain, ())})
            self.assertEqual(written, len(self.memory.writes))

    def test_other_ports_are_counted_while_an_operator_counts(self):
        """The operator's switch and RMID, which the agent never wrote, stay at each change."""
        self.count_ports()
        owned = self.owned()
        with owned.held():
            owned.snapshot.protect()
            self.watch(owned, (DISK,))
            self.msr.set(2, SWITCH, 2)
            self.memory.values[BASE] = 5
            monitor = self.watch(owned, (SHARED,))
            self.assertEqual(([2, 2], 5), (self.switches(), self.memory.values[BASE]))
            monitor.close()
            self.assertEqual(([0, 2], 5), (self.switches(), self.memory.values[BASE]))
        self.assertEqual(([0, 2], 5), (self.switches(), self.memory.values[BASE]))

    def switches(self):
        return [self.msr.get(cpu, SWITCH) for cpu in (0, 2)]

    def test_ports_that_cannot_be_counted(self):
        """Tenants are counted all the same; each step is undone."""
        self.count_ports()
        owned = self.owned()
        with owned.held():
            owned.snapshot.protect()
            self.change_all(owned)
            owned.machine.monitor.close()
            before = dict(self.memory.values)
            self.tree.debug = False
            (domain, *_) = owned.machine.allocator.domains()
            domain = dataclasses.replace(domain, device_ports=(DevicePort(DISK, (DISK,)),))
            owned.machine.monitor.watch({0: DomainInventory(domain, ())})
            self.assertEqual("ports-not-monitored", owned.machine.monitor.full.code)
            self.assertEqual(({}, before), (self.tree.monitors(), self.memory.values))
        self.assert_as_found()

    def test_a_domain_off_line_while_ports_are_counted(self):
        """The others' ports are counted on; its own again when a CPU of it is back."""
        self.count_ports()
        owned = self.owned()
        with owned.held():
            owned.snapshot.protect()
            self.change_all(owned)
            domains = owned.machine.allocator.domains()
            first, second = (
                DomainInventory(
                    dataclasses.replace(domain, device_ports=(DevicePort(port, (port,)),)), ()
                )
                for domain, port in zip(domains, (NIC0, SHARED), strict=True)
            )
            monitor = owned.machine.monitor
            monitor.watch({0: first, 1: second})
            self.assertEqual({(0, NIC0), (1, SHARED)}, monitor.read().keys())
            for cpu in (2, 3):
                self.tree.unplug(cpu)
                self.msr.off.add(cpu)
            monitor.watch({0: first})
            self.assertIsNone(monitor.full)
            self.assertEqual({(0, NIC0)}, monitor.read().keys())
            self.msr.off.clear()
            for cpu in (2, 3):
                self.tree.plug(cpu)
            monitor.watch({0: first, 1: second})
            self.assertIsNone(monitor.full)
            self.assertEqual({(0, NIC0), (1, SHARED)}, monitor.read().keys())
            monitor.close()
            self.assertEqual([1, 1], [self.msr.get(cpu, SWITCH) for cpu in (0, 2)])

    def test_a_domain_that_the_snapshot_does_not_have(self):
        """No port is counted there before it is saved: a restore after a kill would leave it on."""
        self.count_ports()
        for cpu in (2, 3):
            self.tree.unplug(cpu)
            self.msr.off.add(cpu)
        owned = self.owned()
        owned.snapshot.protect()
        self.msr.off.clear()
        for cpu in (2, 3):
            self.tree.plug(cpu)
        inventories = {
            domain.id: DomainInventory(
                dataclasses.replace(domain, device_ports=(DevicePort(port, (port,)),)), ()
            )
            for domain, port in zip(owned.machine.allocator.domains(), (NIC0, SHARED), strict=True)
        }
        monitor = owned.machine.monitor
        monitor.watch(inventories)
        self.assertEqual({(0, NIC0)}, monitor.read().keys())
        self.assertEqual([2, 0], [self.msr.get(cpu, SWITCH) for cpu in (0, 2)])
        owned.snapshot.extend()
        monitor.watch(inventories)
        self.assertEqual({(0, NIC0), (1, SHARED)}, monitor.read().keys())
        self.assertEqual(0, self.run_it("restore")[0])
        self.assert_as_found()

    def test_tenants_get_rmids_before_ports(self):
        """Each class of service may need an RMID; ports give way as soon as tenants lack one."""
        self.count_ports()
        owned = self.owned()
        classes = self.tree.closids
        with owned.held():
            owned.snapshot.protect()
            self.change_all(owned)
            monitor = self.watch(owned)
            self.assertEqual(3, len(monitor.read()))
            (domain, *_) = owned.machine.allocator.domains()
            ports = tuple(DevicePort(one, (one,)) for one in (NIC0, DISK, SHARED))
            domain = dataclasses.replace(domain, device_ports=ports)
            tenants = (build.tenant("t0", 0), build.tenant("t1", 1))
            self.tree._put("info/L3_MON/num_rmids", classes + 4)
            for _ in range(3):
                monitor.watch({0: DomainInventory(domain, tenants)})
                self.assertEqual({"t0", "t1"}, {one for _, one in monitor.read()})
                self.assertIn("port-rmids-too-few", codes(monitor.full))
            monitor.close()

    def test_rmids_of_an_offline_domain_that_others_count(self):
        """A switch that was never ours is as found when its domain is back."""
        self.count_ports()
        owned = self.owned()
        with owned.held():
            owned.snapshot.protect()
            self.msr.set(2, SWITCH, 2)
            monitor = self.watch(owned, (NIC0,))
            for cpu in (2, 3):
                self.tree.unplug(cpu)
                self.msr.off.add(cpu)
            self.watch(owned, (DISK,))
            self.msr.off.clear()
            for cpu in (2, 3):
                self.tree.plug(cpu)
            self.watch(owned, (NIC0,))
            monitor.close()
            self.assertEqual(2, self.msr.get(2, SWITCH))
            self.msr.set(2, SWITCH, 0)

    def test_rmids_of_others_are_left_alone(self):
        """Where somebody else has switched RMIDs of devices on, no port is counted."""
        self.count_ports()
        owned = self.owned()
        with owned.held():
            owned.snapshot.protect()
            self.msr.set(0, SWITCH, 2)
            domain = owned.machine.allocator.domains()[0]
            domain = dataclasses.replace(domain, device_ports=(DevicePort(DISK, (DISK,)),))
            owned.machine.monitor.watch({0: DomainInventory(domain, ())})
            full = owned.machine.monitor.full
            self.assertIn("iordt-rmids-on-already", codes(full))
            self.assertEqual(([], 2), (self.memory.writes, self.msr.get(0, SWITCH)))
            self.msr.set(0, SWITCH, 0)

    def test_rmids_that_cannot_be_restored(self):
        """The groups whose RMIDs devices have stay, and nobody else gets these RMIDs."""
        self.count_ports()

        def lose_the_snapshot():
            self.crash()
            self.settings().snapshot_path.unlink()

        for lose in (self.crash, lose_the_snapshot):
            lose()
            refused = HardwareError("refused")
            with mock.patch.object(self.memory, "before_write", side_effect=refused):
                self.assertEqual(1, self.run_it("restore")[0])
            self.assertEqual({f"{PORTS}{n}" for n in range(3)}, self.tree.monitors().keys())
            self.run_it("restore")
            self.assert_as_found()

    def test_only_rmids_left_over(self):
        """Without a snapshot, and where no class is left, the ports' RMIDs are given back."""
        self.count_ports()
        owned = self.owned()
        owned.snapshot.protect()
        self.watch(owned)
        self.settings().snapshot_path.unlink()
        self.assertEqual(1, self.run_it("restore")[0])
        self.assert_as_found()
        self.tree.add_monitor(f"{PORTS}0", "")
        self.roots.irdt.unlink()
        self.assertEqual(1, self.run_it("restore")[0])
        self.assertEqual({}, self.tree.monitors())

    def test_ports_are_not_counted_without_numbers(self):
        """Without resctrl's debug, or where nobody asked for it, no register is written."""
        self.count_ports()
        self.assertIn("iordt rmids", self.owned().machine.parts)
        self.assertNotIn("iordt rmids", self.owned(monitor_tenants=False).machine.parts)
        (self.tree.root / "ctrl_hw_id").unlink()
        self.assertNotIn("iordt rmids", self.owned().machine.parts)

    def test_killed_at_each_write_while_ports_are_counted(self):
        """As without counting: RMIDs, groups and switches are as found."""
        self.count_ports()
        self.kill_at_each_write()
