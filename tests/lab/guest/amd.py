# SPDX-License-Identifier: Apache-2.0
"""An EPYC of Zen 5 under Linux 7.2: several L3 caches a socket, io_alloc, amd_df."""

import json
import threading
import unittest

from iat_nova.agent.loop import LEAST_SAMPLE_S
from iat_nova.common.clock import SystemClock
from iat_nova.hardware.api import ClassMask, CoreCounts, DomainCounts
from iat_nova.hardware.cat.resctrl_fs import ResctrlFs
from iat_nova.hardware.counters import events
from iat_nova.hardware.counters.fabric import fabric_pmu
from iat_nova.hardware.host import probe
from iat_nova.hardware.host.backends import choose
from iat_nova.hardware.host.probe import Host, Level
from iat_nova.model import WayMask
from tests.lab.guest.allocation import Mounted
from tests.lab.guest.guarded import state
from tests.lab.guest.machine import TOPOLOGY, Registers, mount, plug
from tests.lab.registers import ROOTS
from tests.proofs import proves
from tests.unit.hardware import contract

REGISTERS = Registers()
FULL = 0xFFFF


@proves("resctrl")
class Allocation(Mounted, contract.AllocatorContract, unittest.TestCase):
    """The contract of every allocator on the kernel's resctrl."""

    def test_masks_are_in_the_registers_of_each_cache(self):
        """Masks with holes too, though the agent makes none; each cache has its own."""
        domains = self.allocator.domains()
        self.assertEqual(len(TOPOLOGY.caches()), len(domains))
        for number, domain in enumerate(domains):
            self.assertEqual((16, 16, True), (domain.ways, domain.classes, domain.sparse_masks))
            mask = WayMask(0xF05 << number % 5)
            self.allocator.apply(domain.id, (ClassMask("a", domain.cpus[:1], mask),))
        for number, domain in enumerate(domains):
            self.assertEqual(0xF05 << number % 5, REGISTERS.cbm(1, number))
            self.assertEqual(1, REGISTERS.pqr_assoc(domain.cpus[0])[0])

    @proves("memory bandwidth")
    def test_bandwidth_is_in_the_registers(self):
        """A limit is the word of its class, eighths of a GB/s, for that cache alone."""
        domains = self.allocator.domains()
        control = domains[-1].bandwidth
        self.assertEqual((2048, False), (control.most, control.percent))
        cpus = domains[-1].cpus[:2]
        classes = tuple(
            ClassMask(name, (cpu,), WayMask(0x3), limit)
            for name, cpu, limit in zip("ab", cpus, (128, None), strict=True)
        )
        self.allocator.apply(domains[-1].id, classes)
        limited, free = (REGISTERS.pqr_assoc(cpu)[0] for cpu in cpus)
        caches = range(len(domains))
        self.assertEqual(
            [2048] * (len(domains) - 1) + [128], [REGISTERS.mba(limited, n) for n in caches]
        )
        self.assertEqual([2048] * 2, [REGISTERS.mba(n, caches[-1]) for n in (0, free)])

    def test_a_cache_goes_and_comes(self):
        """All CPUs of one cache of a socket: its masks are written again when they are back."""
        domain = self.allocator.domains()[1]
        self.allocator.apply(domain.id, (ClassMask("a", domain.cpus, WayMask(0x3)),))
        number = REGISTERS.pqr_assoc(domain.cpus[0])[0]
        for cpu in domain.cpus:
            plug(cpu, False)
        try:
            self.assertEqual((), self.allocator.inspect())
        finally:
            for cpu in domain.cpus:
                plug(cpu, True)
        self.assertEqual((), self.allocator.inspect())
        self.assertEqual({number}, {REGISTERS.pqr_assoc(cpu)[0] for cpu in domain.cpus})
        self.assertEqual(0x3, REGISTERS.cbm(1, 1))


@proves("ways of devices: io_alloc")
class IoAlloc(Mounted, contract.DdioContract, unittest.TestCase):
    """Devices' ways through the kernel's io_alloc."""

    no_way = True

    def make(self):
        self.hands = choose(Host(), SystemClock())
        saved = json.loads(json.dumps(self.hands.ddio.save()))
        found = state()
        self.addCleanup(lambda: self.assertEqual(found, state()))
        self.addCleanup(self.hands.ddio.restore, saved)
        domain = self.hands.allocator.domains()[-1]
        self.hands.ddio.write(domain.id, WayMask(0xC000))
        return self.hands.ddio, domain

    def test_the_registers(self):
        """The highest class has the mask, in the cache meant alone; the others are not confined."""
        caches = range(len(TOPOLOGY.caches()))
        self.ddio.write(self.domain.id, WayMask(0xF000))
        self.assertEqual(
            [FULL] * (len(caches) - 1) + [0xF000], [REGISTERS.io_alloc(n) for n in caches]
        )
        self.assertEqual(
            [0] * (len(caches) - 1) + [0xF000],
            [self.ddio.read(domain.id) for domain in self.hands.allocator.domains()],
        )

    def test_not_confined_any_more(self):
        """The empty mask gives devices all ways again."""
        self.assertEqual(0, self.ddio.write(self.domain.id, WayMask(0)))
        self.assertEqual(FULL, REGISTERS.io_alloc(len(TOPOLOGY.caches()) - 1))

    def test_all_classes_but_the_devices(self):
        """Fifteen with the default one, before it is on as well; more the kernel would refuse."""
        self.assertEqual(15, self.domain.classes)
        self.hands.ddio.restore({"state": "disabled", "masks": {}})
        self.assertEqual({15}, {one.classes for one in self.hands.allocator.domains()})
        many = tuple(ClassMask(f"t{n}", (), WayMask(3)) for n in range(14))
        self.hands.allocator.apply(self.domain.id, many)
        self.addCleanup(self.hands.allocator.apply, self.domain.id, ())
        self.assertEqual(0xC000, self.ddio.write(self.domain.id, WayMask(0xC000)))
        numbers = {f"iat-nova.{n}" for n in range(1, 15)}
        self.assertEqual(numbers, set(ResctrlFs().groups()))

    def test_restored_to_an_operators_masks(self):
        """Where an operator had it on with masks of its own, these come back exactly."""
        fs = ResctrlFs()
        fs.write("info/L3/io_alloc_cbm", "0=ff;1=f0\n")
        found = state()
        saved = json.loads(json.dumps(self.ddio.save()))
        for domain in self.hands.allocator.domains():
            self.ddio.write(domain.id, WayMask(0xE000))
        self.ddio.restore(saved)
        self.assertEqual(found, state())


@proves("counters: perf")
class Counting(unittest.TestCase):
    """perf on the cores and on the data fabric: what is fed is what is read."""

    def setUp(self):
        mount()
        self.hands = choose(Host(), SystemClock())
        self.counters = self.hands.counters
        self.addCleanup(self.counters.close)
        self.cpus = sorted(TOPOLOGY.online())
        self.counters.watch(self.cpus)

    def read(self):
        """Read, no sooner than the loop would: the kernel's clock moves in ticks in here."""
        threading.Event().wait(LEAST_SAMPLE_S)
        return self.counters.read()

    def test_the_model_is_known(self):
        """The lab's CPU is found in the event tables."""
        self.assertIs(events.ZEN_5, events.cpu_model().known)

    def test_cores(self):
        """Each CPU's own counts arrive, all four of them, and nobody else's."""
        before = self.read().cores
        for cpu in self.cpus:
            REGISTERS.add_core(cpu, 4_000_000 + cpu, 1_000_000 + cpu, 10_000 + cpu, 1_000 + cpu)
        after = self.read().cores
        for cpu in self.cpus:
            counted = [b - a for a, b in zip(before[cpu], after[cpu], strict=True)]
            fed = CoreCounts(4_000_000 + cpu, 1_000_000 + cpu, 10_000 + cpu, 1_000 + cpu)
            self.assertEqual(fed, tuple(counted))

    def test_inbound_lines(self):
        """All root complexes of a socket are added up; hits and misses stay absent."""
        before = self.read().domains
        for root in range(ROOTS):
            REGISTERS.add_dma(1000 + root, 999_999, root=root)
        REGISTERS.add_dma(77, package=1)
        after = self.read().domains
        for cache in TOPOLOGY.caches():
            fed = 77 if cache.package else 8028
            now = after[cache.id]
            self.assertEqual((None, None, None), now[:3])
            self.assertEqual(fed, now.ddio_writes - before[cache.id].ddio_writes)
        self.assertEqual(DomainCounts, type(now))

    def test_cpumask(self):
        """A CPU of each socket counts."""
        packages = {}
        for cache in TOPOLOGY.caches():
            packages.setdefault(cache.package, cache.cpus[0])
        self.assertEqual(tuple(packages.values()), fabric_pmu().cpumask)

    def test_a_socket_offline_and_back(self):
        """Absent, not zero, while it is away; counted on when it is back."""
        gone = [cpu for cpu in self.cpus if TOPOLOGY.package(cpu) == 1]
        domains = {cache.id for cache in TOPOLOGY.caches() if cache.package == 1}
        for cpu in gone:
            plug(cpu, False)
        try:
            self.assertTrue(domains.isdisjoint(self.read().domains))
        finally:
            for cpu in gone:
                plug(cpu, True)
        self.counters.watch(self.cpus)
        self.assertLessEqual(domains, self.read().domains.keys())


class Doctor(unittest.TestCase):
    """What the probe finds."""

    def test_findings(self):
        """No counter registers are known; Intel's register and counters are no findings."""
        mount()
        found = {one.subject: one for one in probe.findings(Host())}
        bad = {subject for subject, one in found.items() if one.level is not Level.OK}
        self.assertEqual({"msr driver"}, bad)
        self.assertIn("EPYC, Zen 5", found["CPU"].state.values["tables"])
        self.assertEqual("io-alloc-off", found["io_alloc"].state.code)
        self.assertEqual("fabric-counted", found["amd_df PMU"].state.code)

    def test_choices(self):
        """resctrl, io_alloc, perf on the cores and on the data fabric."""
        mount()
        hands = choose(Host(), SystemClock())
        chosen = [choice.chosen for choice in hands.choices]
        self.assertEqual(["resctrl", "io_alloc", "perf", "perf"], chosen)
        for domain in hands.allocator.domains():
            seen = (domain.ddio_found, domain.ddio_resizable, domain.ddio_counters)
            self.assertEqual((0, True, False), seen)
