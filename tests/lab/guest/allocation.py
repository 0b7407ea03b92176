# SPDX-License-Identifier: Apache-2.0
"""CAT and DDIO against a real kernel: what was asked for is what the registers hold."""

import json
import os
import subprocess
import unittest

from iat_nova.hardware.api import DEFAULT_CLASS, ClassMask, DomainOffline, HardwareError
from iat_nova.hardware.cat.resctrl import Resctrl
from iat_nova.hardware.cat.resctrl_fs import PREFIX, ResctrlFs
from iat_nova.hardware.ddio.ways import MsrDdio
from iat_nova.hardware.host import probe
from iat_nova.hardware.kernel.msr import L3_MASK, Msr
from iat_nova.model import WayMask, message
from tests.lab.guest.machine import TOPOLOGY, Registers, mount, plug
from tests.proofs import proves
from tests.said import raises
from tests.unit.hardware import contract

REGISTERS = Registers()


class Mounted:
    """Has resctrl mounted and checks after each test that the machine is as it was found."""

    options = ()

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        mount(*cls.options)

    def setUp(self):
        self.msr = Msr()
        self.addCleanup(self.msr.close)
        self.found = REGISTERS.everything()
        super().setUp()

    def make(self):
        allocator = Resctrl(ResctrlFs(), TOPOLOGY, coupled=True, read_register=self.read_register)
        saved = json.loads(json.dumps(allocator.save()))
        self.addCleanup(self.check_restored, allocator, saved)
        return allocator

    read_register = None

    def check_restored(self, allocator, saved):
        allocator.restore(saved)
        self.assertEqual((), allocator.restore(saved))
        left = REGISTERS.everything()
        self.assertEqual(self.found["classes"], left["classes"])
        # The kernel resets the registers of a removed group when it makes the next one.
        for what in ("cbm", "mba"):
            default = [words[0] for words in left[what]]
            self.assertEqual([words[0] for words in self.found[what]], default)
        self.assertEqual((), tuple(n for n in ResctrlFs().groups() if n.startswith(PREFIX)))

    def class_of(self, cpu):
        return REGISTERS.pqr_assoc(cpu)[0] or None


@proves("resctrl")
class ResctrlContract(Mounted, contract.AllocatorContract, unittest.TestCase):
    """The contract of every allocator on the kernel's resctrl."""


@proves("resctrl")
class DebugContract(Mounted, contract.AllocatorContract, unittest.TestCase):
    """The same with masks read back from the registers."""

    options = ("debug",)

    def read_register(self, cpu, number):
        return WayMask(self.msr.read(cpu, L3_MASK + number))

    def test_a_register_behind_the_kernels_back(self):
        """What another tool writes into a register is told; the kernel's files do not show it."""
        cpu = self.domain.cpus[0]
        self.apply(ClassMask("a", (cpu,), WayMask(3)))
        self.assertEqual((), self.allocator.inspect())
        number = REGISTERS.pqr_assoc(cpu)[0]
        with open(f"/dev/cpu/{cpu}/msr", "wb", buffering=0) as device:
            os.pwrite(device.fileno(), (0x7FF).to_bytes(8, "little"), L3_MASK + number)
        self.assertEqual(
            (
                message(
                    "group-register-changed", group=f"{PREFIX}1", domain=0, mask=0x7FF, left=0x3
                ),
            ),
            self.allocator.inspect(),
        )


@proves("resctrl with cdp")
class CdpContract(Mounted, contract.AllocatorContract, unittest.TestCase):
    """The same with code and data prioritisation."""

    options = ("cdp",)

    def class_of(self, cpu):
        return REGISTERS.pqr_assoc(cpu)[0] or None

    def test_both_masks_are_in_the_registers(self):
        """A class has two: data's first, code's beside it, and both are the same."""
        self.assertTrue(REGISTERS.cdp())
        (one,) = self.classes(a=WayMask(0x1C))
        default = ClassMask(DEFAULT_CLASS, (), WayMask(0x3))
        self.apply(one, default)
        number = REGISTERS.pqr_assoc(one.cpus[0])[0]
        self.assertEqual(
            [0x3, 0x3, 0x1C, 0x1C],
            [REGISTERS.cbm(n) for n in (0, 1, 2 * number, 2 * number + 1)],
        )

    def test_half_as_many_classes(self):
        """Of 16 masks eight classes are left, and MBA's eight are no fewer."""
        self.assertEqual({8}, {domain.classes for domain in self.allocator.domains()})


@proves("resctrl with cdp")
class Cdp(Mounted, unittest.TestCase):
    """What is told of it, and that an operator's two masks come back."""

    options = ("cdp",)

    def test_doctor(self):
        """Its price, and how to do without."""
        found = {one.subject: one for one in probe.findings(probe.Host())}
        self.assertEqual(probe.Level.NOTE, found["cdp"].level)
        self.assertEqual("cdp-mounted", found["cdp"].state.code)

    def test_masks_of_an_operator(self):
        """Code's and data's of the default class differ; both are restored."""
        fs = ResctrlFs()
        fs.write("schemata", "L3CODE:0=7\nL3DATA:0=7f8\n")
        self.addCleanup(fs.write, "schemata", "L3CODE:0=7ff\nL3DATA:0=7ff\n")
        found = fs.read("schemata")
        allocator = Resctrl(fs, TOPOLOGY, coupled=True)
        saved = allocator.save()
        domain = allocator.domains()[0]
        allocator.apply(domain.id, (ClassMask(DEFAULT_CLASS, (), WayMask(0x3C)),))
        self.assertNotEqual(found, fs.read("schemata"))
        allocator.restore(saved)
        self.assertEqual(found, fs.read("schemata"))


@proves("ways of devices: 0xC8B")
class DdioContract(Mounted, contract.DdioContract, unittest.TestCase):
    """IIO_LLC_WAYS through the msr driver."""

    def make(self):
        allocator = super().make()
        ddio = MsrDdio(self.msr, allocator.domains, TOPOLOGY)
        saved = json.loads(json.dumps(ddio.save()))
        self.addCleanup(lambda: self.assertEqual(self.found, REGISTERS.everything()))
        self.addCleanup(ddio.restore, saved)
        return ddio, allocator.domains()[-1]

    def test_the_register(self):
        """The mask is in the register of the domain's socket, and in no other."""
        sockets = [cache.package for cache in TOPOLOGY.caches()]
        self.ddio.write(self.domain.id, WayMask(0x7C0))
        self.assertEqual(
            [0x600] * (len(sockets) - 1) + [0x7C0], [REGISTERS.ddio_ways(s) for s in sockets]
        )


@proves("resctrl")
class Registered(Mounted, unittest.TestCase):
    """What the registers and others say of our classes."""

    def setUp(self):
        super().setUp()
        self.allocator = self.make()
        self.domains = self.allocator.domains()

    def apply_example(self):
        """Three classes in every domain and the default one; return (domain, class) -> mask."""
        wanted = {}
        for domain in self.domains:
            masks = {"a": 0x003, "b": 0x01C, "c": 0x400, DEFAULT_CLASS: 0x3E0}
            classes = tuple(
                ClassMask(name, (cpu,) if cpu is not None else (), WayMask(mask))
                for (name, mask), cpu in zip(
                    masks.items(), (*domain.cpus[:2], None, None), strict=True
                )
            )
            wanted[domain.id] = dict(self.allocator.apply(domain.id, classes))
        return wanted

    def test_masks_are_in_the_registers(self):
        """Effective masks are those in the class registers of each socket, coupled ways too."""
        wanted = self.apply_example()
        for domain, cache in zip(self.domains, TOPOLOGY.caches(), strict=True):
            found = {REGISTERS.cbm(n, cache.package) for n in range(4)}
            self.assertEqual(set(wanted[domain.id].values()), found)
            self.assertEqual(0x600, wanted[domain.id]["c"])
            for name, cpu in zip("ab", domain.cpus, strict=False):
                number = REGISTERS.pqr_assoc(cpu)[0]
                self.assertEqual(wanted[domain.id][name], REGISTERS.cbm(number, cache.package))

    @proves("memory bandwidth")
    def test_bandwidth_is_in_the_registers(self):
        """A limit is a delay in the class's register of that socket alone; class 0 has none."""
        domain, cache = self.domains[-1], TOPOLOGY.caches()[-1]
        cpus = domain.cpus[:2]
        classes = tuple(
            ClassMask(name, (cpu,), WayMask(0x3), limit)
            for name, cpu, limit in zip("ab", cpus, (30, None), strict=True)
        )
        self.allocator.apply(domain.id, classes)
        numbers = [REGISTERS.pqr_assoc(cpu)[0] for cpu in cpus]
        sockets = [one.package for one in TOPOLOGY.caches()]
        self.assertEqual(
            [0] * (len(sockets) - 1) + [70], [REGISTERS.mba(numbers[0], s) for s in sockets]
        )
        self.assertEqual([0, 0], [REGISTERS.mba(n, cache.package) for n in (0, numbers[1])])
        shown = subprocess.run(
            ["pqos", "--iface=msr", "-s"], capture_output=True, text=True, check=True
        ).stdout
        self.assertRegex(shown, rf"MBA COS{numbers[0]} => 30% available")

    def test_pqos_sees_the_same(self):
        """Intel's own tool shows our masks and classes."""
        wanted = self.apply_example()
        shown = subprocess.run(
            ["pqos", "--iface=msr", "-s"], capture_output=True, text=True, check=True
        ).stdout
        for domain in self.domains:
            for name, cpu in zip("ab", domain.cpus, strict=False):
                number = REGISTERS.pqr_assoc(cpu)[0]
                self.assertRegex(shown, rf"Core {cpu}, .*=> COS{number}\b")
                self.assertRegex(shown, rf"L3CA COS{number} => MASK {wanted[domain.id][name]:#x}\b")

    def test_a_foreign_group(self):
        """A group somebody makes while we run costs a class and is told, not touched."""
        self.apply_example()
        os.mkdir("/sys/fs/resctrl/theirs")
        self.addCleanup(os.rmdir, "/sys/fs/resctrl/theirs")
        self.assertEqual(("theirs",), self.allocator.foreign_groups())
        self.assertEqual(self.domains[0].classes - 1, self.allocator.domains()[0].classes)
        self.assertEqual((), self.allocator.inspect())

    def test_a_foreign_mask(self):
        """A mask somebody writes into our group is told with both values, and left."""
        self.apply_example()
        ResctrlFs().write(f"{PREFIX}1/schemata", "L3:0=7\n")
        (changed,) = self.allocator.inspect()
        self.assertEqual("group-mask-changed", changed.code)
        self.assertEqual((0x7, 0x3), (changed.values["mask"], changed.values["wrote"]))

    def test_competition_for_classes(self):
        """When others took all classes, ours are refused in the kernel's words and none is left."""
        names = [f"/sys/fs/resctrl/theirs{n}" for n in range(self.domains[0].classes - 1)]
        for name in names:
            os.mkdir(name)
            self.addCleanup(os.rmdir, name)
        with raises(self, HardwareError, "mkdir: No space left.*kernel says"):
            self.allocator.apply(0, (ClassMask("a", (0,), WayMask(3)),))
        self.assertEqual({}, dict(self.allocator.effective(0)))

    def test_exclusive_ways(self):
        """Ways of an exclusive group are known as reserved."""
        fs = ResctrlFs()
        everyone = ";".join(f"{domain.id}=f" for domain in self.domains)
        theirs = ";".join(f"{domain.id}=10" for domain in self.domains)
        fs.write("schemata", f"L3:{everyone}\n")
        self.addCleanup(
            fs.write, "schemata", f"L3:{';'.join(f'{domain.id}=7ff' for domain in self.domains)}\n"
        )
        os.mkdir("/sys/fs/resctrl/theirs")
        self.addCleanup(os.rmdir, "/sys/fs/resctrl/theirs")
        fs.write("theirs/schemata", f"L3:{theirs}\n")
        fs.write("theirs/mode", "exclusive\n")
        self.assertEqual({0x10}, {domain.reserved_ways for domain in self.allocator.domains()})
        with raises(self, HardwareError, "reserved ways 0x10"):
            self.allocator.apply(0, (ClassMask("a", (0,), WayMask(0x18)),))
        self.allocator.apply(0, (ClassMask("a", (0,), WayMask(0xC)),))

    def test_processors_come_and_go(self):
        """A CPU that went offline and came back is put where it was."""
        domain = self.domains[-1]
        cpu = domain.cpus[-1]
        self.allocator.apply(domain.id, (ClassMask("a", domain.cpus, WayMask(3)),))
        number = REGISTERS.pqr_assoc(cpu)[0]
        plug(cpu, False)
        try:
            self.assertEqual((), self.allocator.inspect())
        finally:
            plug(cpu, True)
        self.assertEqual((), self.allocator.inspect())
        self.assertEqual(number, REGISTERS.pqr_assoc(cpu)[0])
        plug(cpu, False)
        plug(cpu, True)
        self.assertEqual((), self.allocator.inspect())
        self.assertEqual(number, REGISTERS.pqr_assoc(cpu)[0])

    def test_offline_at_the_start(self):
        """A CPU that comes later is taken in."""
        cpu = max(TOPOLOGY.online())
        plug(cpu, False)
        try:
            allocator = self.make()
            self.assertNotIn(cpu, [c for domain in allocator.domains() for c in domain.cpus])
        finally:
            plug(cpu, True)
        domain = next(domain for domain in allocator.domains() if cpu in domain.cpus)
        allocator.apply(domain.id, (ClassMask("a", (cpu,), WayMask(0x3)),))
        number = REGISTERS.pqr_assoc(cpu)[0]
        self.assertEqual(0x3, REGISTERS.cbm(number, TOPOLOGY.package(cpu)))

    def test_a_socket_goes_and_comes(self):
        """Offline it is left alone; the kernel forgets its masks, and gets them again."""
        if len(self.domains) < 2:
            self.skipTest("one cache domain only")
        wanted = self.apply_example()
        domain = self.domains[-1]
        package = TOPOLOGY.package(domain.cpus[0])
        for cpu in domain.cpus:
            plug(cpu, False)
        try:
            self.assertEqual((), self.allocator.inspect())
            with raises(self, DomainOffline, f"cache domain {domain.id}: none of its"):
                self.allocator.apply(domain.id, (ClassMask("a", (), WayMask(0x3)),))
        finally:
            for cpu in domain.cpus:
                plug(cpu, True)
        self.assertEqual((), self.allocator.inspect())
        self.assertTrue(all(REGISTERS.pqr_assoc(cpu)[0] for cpu in domain.cpus[:2]))
        self.assertEqual(wanted[domain.id], dict(self.allocator.effective(domain.id)))
        found = {REGISTERS.cbm(n, package) for n in range(4)}
        self.assertEqual(set(wanted[domain.id].values()), found)

    def test_two_hundred_arrivals(self):
        """200 classes come and go: no group, class or descriptor is leaked."""
        before = len(os.listdir("/proc/self/fd"))
        living = self.domains[0].classes - 2
        for n in range(200):
            classes = tuple(
                ClassMask(f"tenant {i}", (self.domains[0].cpus[0],) if i == n else (), WayMask(3))
                for i in range(max(0, n - living + 1), n + 1)
            )
            self.allocator.apply(0, classes)
        self.assertEqual(living, len(ResctrlFs().groups()))
        self.allocator.apply(0, ())
        self.assertEqual((), ResctrlFs().groups())
        self.assertEqual(before, len(os.listdir("/proc/self/fd")))


class SteeredByTheKernel(Mounted, unittest.TestCase):
    """resctrl mounted with mba_MBps: limits are in MB/s, and the kernel moves the delays."""

    options = ("mba_MBps",)

    def test_no_limit_of_ours(self):
        """One is refused and nothing is written; groups have what the default group has."""
        allocator = self.make()
        domain = allocator.domains()[0]
        self.assertIsNone(domain.bandwidth)
        with raises(self, HardwareError, "memory bandwidth cannot be limited here"):
            allocator.apply(domain.id, (ClassMask("a", (), WayMask(0x3), 50),))
        self.assertEqual((), ResctrlFs().groups())
        allocator.apply(domain.id, (ClassMask("a", domain.cpus[:1], WayMask(0x3)),))
        self.assertEqual(
            ResctrlFs().other_lines("")["MB"], ResctrlFs().other_lines(f"{PREFIX}1")["MB"]
        )
        (one,) = (one for one in probe.findings(probe.Host()) if one.subject == "memory bandwidth")
        self.assertEqual(probe.Level.NOTE, one.level)
        self.assertEqual("mba-steered", one.state.values["cause"].code)
