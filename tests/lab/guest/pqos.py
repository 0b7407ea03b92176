# SPDX-License-Identifier: Apache-2.0
"""libpqos, the real one, against the registers and a real resctrl."""

import json
import os
import subprocess
import unittest

from iat_nova.hardware.api import ClassMask, DomainOffline, HardwareError
from iat_nova.hardware.cat.pqos import PqosAllocator
from iat_nova.hardware.cat.pqos_lib import Pqos, PqosError, load
from iat_nova.hardware.cat.resctrl_fs import ResctrlFs
from iat_nova.model import WayMask
from tests.lab.guest.machine import TOPOLOGY, Registers, mount, plug, unmount
from tests.proofs import proves
from tests.said import raises, sentence
from tests.unit.hardware import contract

REGISTERS = Registers()

try:
    load()
    MISSING = None
except PqosError as error:
    MISSING = sentence(error)


@proves("libpqos: pqos-msr")
class MsrContract(contract.AllocatorContract, unittest.TestCase):
    """The contract of every allocator; after each test the machine is as it was found."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        if MISSING:
            raise unittest.SkipTest(MISSING)
        unmount()

    def setUp(self):
        self.found = REGISTERS.everything()
        super().setUp()

    def make(self):
        allocator = PqosAllocator(TOPOLOGY, ResctrlFs().root, coupled=True)
        self.saved = json.loads(json.dumps(allocator.save()))
        self.addCleanup(self.check_restored, allocator, self.saved)
        return allocator

    def check_restored(self, allocator, saved):
        allocator.restore(saved)
        self.assertEqual((), allocator.restore(saved))
        allocator.close()
        self.assertEqual(self.found, REGISTERS.everything())

    def class_of(self, cpu):
        return REGISTERS.pqr_assoc(cpu)[0] or None

    def test_offline_at_the_start(self):
        """A CPU that comes when libpqos runs is taken in, and given back in the end."""
        self.allocator.close()  # libpqos is there once a process
        cpu = max(TOPOLOGY.online())
        plug(cpu, False)
        try:
            allocator = self.make()
            first = allocator.domains()[0]
            allocator.apply(first.id, (ClassMask("a", first.cpus[:1], WayMask(0xC)),))
        finally:
            plug(cpu, True)
        domain = next(domain for domain in allocator.domains() if cpu in domain.cpus)
        self.assertEqual((), allocator.inspect())
        with self.assertRaises(DomainOffline):  # it could not be restored
            allocator.apply(domain.id, (ClassMask("b", (cpu,), WayMask(0x3)),))
        self.saved["classes"][str(cpu)] = allocator.save()["classes"][str(cpu)]
        allocator.apply(domain.id, (ClassMask("b", (cpu,), WayMask(0x3)),))
        self.assertEqual((), allocator.inspect())
        number = REGISTERS.pqr_assoc(cpu)[0]
        self.assertEqual(0x3, REGISTERS.cbm(number, TOPOLOGY.package(cpu)))

    def test_the_registers(self):
        """Masks and classes are in the registers of the domain's socket."""
        for domain, cache in zip(self.allocator.domains(), TOPOLOGY.caches(), strict=True):
            self.allocator.apply(domain.id, (ClassMask("a", domain.cpus[:1], WayMask(0x400)),))
            number = REGISTERS.pqr_assoc(domain.cpus[0])[0]
            self.assertEqual(0x600, REGISTERS.cbm(number, cache.package))

    @proves("memory bandwidth")
    def test_bandwidth_is_in_the_registers(self):
        """Limits are delays; a class has the default one's limit where that is the lower."""
        domain = self.allocator.domains()[0]
        cpus = domain.cpus[:2]
        self.allocator.close()
        subprocess.run(["pqos", "--iface=msr", "-e", "mba:0=60"], capture_output=True, check=True)
        self.addCleanup(
            subprocess.run, ["pqos", "--iface=msr", "-e", "mba:0=100"],
            capture_output=True, check=True,
        )  # fmt: skip
        classes = tuple(
            ClassMask(name, (cpu,), WayMask(0x3), limit)
            for name, cpu, limit in zip("ab", cpus, (30, 80), strict=True)
        )
        self.allocator.apply(domain.id, classes)
        self.assertEqual({"a": 30, "b": 60}, dict(self.allocator.bandwidth(domain.id)))
        numbers = [REGISTERS.pqr_assoc(cpu)[0] for cpu in cpus]
        self.assertEqual([70, 40], [REGISTERS.mba(n) for n in numbers])
        self.allocator.apply(domain.id, ())
        self.assertEqual([0, 0], [REGISTERS.mba(n) for n in numbers])
        self.allocator.close()

    def test_who_only_looks(self):
        """CPUID, through the kernel's driver, tells what libpqos tells."""
        self.assertEqual(self.allocator.domains(), self.allocator.look())

    def test_the_tool_sees_the_same(self):
        """`pqos -s` shows what we wrote."""
        self.apply(*self.classes(a=WayMask(0x1C)))
        self.allocator.close()  # newer versions hold their lock as long as they are open
        shown = subprocess.run(
            ["pqos", "--iface=msr", "-s"], capture_output=True, text=True, check=True
        ).stdout
        self.assertRegex(shown, r"L3CA COS1 => MASK 0x1c\b")

    def test_processors_come_back(self):
        """A CPU that was offline is put into its class again."""
        cpu = self.domain.cpus[-1]
        self.apply(ClassMask("a", (cpu,), WayMask(0x3)))
        plug(cpu, False)
        plug(cpu, True)
        self.assertEqual((), self.allocator.inspect())
        self.assertEqual(1, REGISTERS.pqr_assoc(cpu)[0])


class Beside(unittest.TestCase):
    """libpqos and resctrl on one host."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        if MISSING:
            raise unittest.SkipTest(MISSING)
        mount()

    def test_registers_are_the_kernels(self):
        """While resctrl is mounted the MSR interface is refused."""
        allocator = PqosAllocator(TOPOLOGY, ResctrlFs().root)
        with raises(self, HardwareError, "is mounted"):
            allocator.domains()

    def test_opened_and_closed(self):
        """Opening and closing leaks no descriptor."""
        Pqos(TOPOLOGY.online()).close()
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(3):
            Pqos(TOPOLOGY.online()).close()
        self.assertEqual(before, len(os.listdir("/proc/self/fd")))
