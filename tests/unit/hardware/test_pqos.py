# SPDX-License-Identifier: Apache-2.0
import ctypes
import json
import struct
import subprocess
import sys
import unittest
from unittest import mock

from iat_nova.hardware.api import (
    DEFAULT_CLASS,
    ClassMask,
    DomainOffline,
    ForeignHand,
    HardwareError,
)
from iat_nova.hardware.cat import pqos_lib
from iat_nova.hardware.cat.cpuid import L3Allocation
from iat_nova.hardware.cat.pqos import PqosAllocator
from iat_nova.hardware.cat.pqos_lib import Core, Pqos, PqosError
from iat_nova.hardware.kernel.shape import check
from iat_nova.model import BandwidthControl, WayMask, message
from tests.said import raises
from tests.unit.hardware import contract, trees

PERCENT = BandwidthControl(10, 10, 100, percent=True)


def limit_changed(number, limit, wrote):
    """Return that another program wrote a class's limit in domain 0."""
    return message("class-limit-changed", number=number, domain=0, limit=limit, wrote=wrote)


class L3caStrange(ctypes.Structure):
    """A layout no version has."""

    _fields_ = (("mask", ctypes.c_uint64), ("class_id", ctypes.c_uint), ("cdp", ctypes.c_int))


class Function:
    """A C function; ctypes lets its result type be set."""

    restype = ctypes.c_int

    def __init__(self, call):
        self._call = call

    def __call__(self, *arguments):
        return self._call(*arguments)


class Library:
    """libpqos as far as it is called, with the structures of a version laid out in memory."""

    def __init__(self, version=40500, layout=pqos_lib._L3ca4, cap_l3ca_size=32, cdp_on=0):
        self.layout = layout
        self.values = dict.fromkeys(range(16), 2047)
        self.classes = {}
        self.fail = {}
        self.ended = 0
        self.first_cpu = 0
        self.l3ca = (ctypes.c_uint * 12)(cap_l3ca_size, 16, 11, 1 << 20, 0x600, 0, 1, cdp_on)
        self.mba = (ctypes.c_uint * 8)(28, 8, 90, 10, 1, 0, 0)
        self.mba_size = 12 if version < 50000 else 16 if version < 60000 else 88
        self.limits = dict.fromkeys(range(8), 100)
        size = 16 + 2 * 16
        self.cap = (ctypes.c_uint64 * 6)(
            size | version << 32, 2, 1, ctypes.addressof(self.l3ca), 3, ctypes.addressof(self.mba)
        )
        self.cores = [(ctypes.c_uint * 8)(cpu, 0, 0, cpu, cpu // 2, 0) for cpu in range(4)]

    def __getattr__(self, name):
        if not name.startswith("pqos_"):
            raise AttributeError(name)
        function = Function(lambda *arguments: self._called(name, arguments))
        setattr(self, name, function)
        return function

    def _called(self, name, arguments):
        if name in self.fail:
            return self.fail[name]
        return getattr(self, "do_" + name)(*arguments) or 0

    def do_pqos_init(self, config):
        self.interface = config._obj.interface

    def do_pqos_fini(self):
        self.ended += 1

    def do_pqos_cap_get(self, cap, cpu):
        cap._obj.value = ctypes.addressof(self.cap)
        cpu._obj.value = ctypes.addressof(self.cap)

    def do_pqos_cpu_get_core_info(self, _table, cpu):
        return ctypes.cast(self.cores[cpu + self.first_cpu], ctypes.POINTER(ctypes.c_uint))

    def do_pqos_l3ca_get(self, _number, _max, count, table):
        room = (self.layout * 16).from_buffer(table)
        for item, (number, mask) in zip(room, self.values.items(), strict=True):
            ctypes.memset(ctypes.byref(item), 0, ctypes.sizeof(item))
            item.class_id, item.mask = number, mask
        count._obj.value = 16

    def do_pqos_l3ca_set(self, _number, count, table):
        room = (self.layout * count).from_buffer(table)
        self.values |= {item.class_id: item.mask for item in room}

    def do_pqos_mba_get(self, _number, _max, count, table):
        for place, (number, limit) in enumerate(self.limits.items()):
            ctypes.memset(ctypes.byref(table, place * self.mba_size), 0, self.mba_size)
            item = pqos_lib._Mba.from_buffer(table, place * self.mba_size)
            item.class_id, item.mb_max = number, limit
        count._obj.value = len(self.limits)

    def do_pqos_mba_set(self, _number, count, table, made):
        assert count == 1
        assert ctypes.sizeof(made) >= self.mba_size <= ctypes.sizeof(table)
        item = pqos_lib._Mba.from_buffer(table)
        self.limits[item.class_id] = item.mb_max

    def do_pqos_alloc_assoc_get(self, cpu, number):
        number._obj.value = self.classes.get(cpu, 0)

    def do_pqos_alloc_assoc_set(self, cpu, number):
        self.classes[cpu] = number

    def do_pqos_l3ca_get_min_cbm_bits(self, bits):
        bits._obj.value = 1


class Binding(unittest.TestCase):
    """What is checked when the library is loaded, and what is read and written after that."""

    def open(self, library):
        pqos = Pqos(range(4), library)
        self.addCleanup(pqos.close)
        return pqos

    def test_every_known_version(self):
        """Versions 4 to 7 are told apart by what they write, and all work."""
        for version, layout, size in (
            (40500, pqos_lib._L3ca4, 32),
            (50000, pqos_lib._L3ca4, 48),
            (50100, pqos_lib._L3ca6, 48),
            (60001, pqos_lib._L3ca6, 48),
            (70100, pqos_lib._L3ca6, 48),
        ):
            with self.subTest(version=version):
                library = Library(version, layout, size)
                pqos = self.open(library)
                self.assertEqual(L3Allocation(11, 8, 0x600, PERCENT), pqos.capability)
                self.assertEqual(Core(3, 1, 0), pqos.cores[3])
                pqos.set_bandwidth(0, {2: 30, 7: 10})
                self.assertEqual({0: 100, 2: 30, 7: 10}, {
                    n: limit for n, limit in pqos.bandwidth(0).items() if n in (0, 2, 7)
                })  # fmt: skip
                self.assertEqual(8, len(pqos.bandwidth(0)))
                pqos.set_masks(0, {1: 0x3, 9: 0x600})
                self.assertEqual((0x3, 0x600), (library.values[1], library.values[9]))
                self.assertEqual(library.values, pqos.masks(0))
                pqos.set_class(2, 5)
                self.assertEqual([0, 0, 5, 0], [pqos.class_of(cpu) for cpu in range(4)])

    def refused(self, library, text):
        with raises(self, PqosError, text):
            self.open(library)
        return library

    def test_unknown_versions(self):
        """A version outside 4 to 7 is refused, and the library is shut down again."""
        for version, text in ((30102, "3.1.2"), (80000, "8.0.0"), (0, "0.0.0")):
            library = self.refused(Library(version), f"version {text}: only 4 to 7")
            self.assertEqual(1, library.ended)

    def test_wrong_sizes(self):
        """Structures whose sizes do not fit are refused with both numbers."""
        self.refused(Library(cap_l3ca_size=40), "pqos_cap_l3ca has 40 bytes")
        library = Library()
        library.cap[0] = 1000 | 40500 << 32
        self.refused(library, "pqos_cap has 1000 bytes, expected 48")

    def test_wrong_layout(self):
        """A table of classes laid out otherwise is refused."""
        self.refused(Library(layout=L3caStrange), "pqos_l3ca has an unknown form")

    def test_wrong_cores(self):
        """A CPU's entry that is another one's is refused."""
        library = Library()
        library.cores = library.cores[1:] * 2
        self.refused(library, "coreinfo of CPU 0")

    def test_no_capabilities(self):
        """A library that says nothing of the machine is refused."""
        library = Library()
        library.do_pqos_cap_get = lambda cap, cpu: None
        with raises(self, PqosError, "returned no capabilities"):
            Pqos(range(4), library)
        self.assertEqual(1, library.ended)

    def test_no_allocation(self):
        """A machine without L3 allocation is refused."""
        library = Library()
        library.cap[2] = 0
        self.refused(library, "no L3 cache allocation")

    def test_code_and_data_prioritisation(self):
        """CDP is left to resctrl, with the command that switches it off."""
        self.refused(Library(cdp_on=1), "use resctrl, or .*l3cdp-off")

    def test_refused_by_the_library(self):
        """Return codes are words, with the call and what it was for."""
        library = Library()
        library.fail["pqos_init"] = 7
        self.refused(library, r"pqos_init: busy")
        library = Library()
        pqos = self.open(library)
        library.fail["pqos_alloc_assoc_set"] = 5
        with raises(self, PqosError, r"\(CPU 2 into class 5\): register or file"):
            pqos.set_class(2, 5)

    def test_bandwidth_that_cannot_be_limited(self):
        """Steered by the kernel, or by delays that are not linear: nothing is asked of it."""
        for place, word in ((6, 1), (4, 0)):
            library = Library()
            library.mba[place] = word
            library.fail["pqos_mba_get"] = 3
            self.assertIsNone(self.open(library).capability.bandwidth)
        library = Library()
        library.mba[2] = library.mba[3] = library.mba[4] = 0  # AMD
        self.assertEqual(
            BandwidthControl(1, 1, 2048, percent=False), self.open(library).capability.bandwidth
        )

    def test_a_strange_structure_of_bandwidth(self):
        """Refused when opened: nothing is guessed."""
        library = Library()
        library.limits = {n + 1: 100 for n in range(8)}
        self.refused(library, "struct pqos_mba has an unknown form")

    def test_no_library(self):
        """A host without libpqos is told what to install."""
        with raises(self, PqosError, "apt-get install intel-cmt-cat"):
            pqos_lib.load(("libpqos-that-is-not.so",))


class Registers:
    """What the allocator needs of `Pqos`, in memory: Skylake's registers of two sockets."""

    def __init__(self, log, sockets=None):
        self.sockets = sockets or {cpu: cpu // 4 for cpu in range(8)}
        self.capability = L3Allocation(ways=11, classes=8, shared=0x600, bandwidth=PERCENT)
        self.limits = {number: dict.fromkeys(range(8), 100) for number in (20, 21)}
        self.begin(self.sockets)
        self.values = {number: dict.fromkeys(range(16), 0x7FF) for number in (10, 11)}
        self.classes = dict.fromkeys(self.sockets, 0)
        self.log = log
        self.fail_at = None

    def be_amd(self):
        """Limit memory bandwidth in eighths of a GB/s."""
        if self.capability.bandwidth is PERCENT:
            control = BandwidthControl(1, 1, 2048, percent=False)
            self.capability = self.capability._replace(bandwidth=control)
            self.limits = {number: dict.fromkeys(range(8), 2048) for number in self.limits}

    def begin(self, cpus):
        """Be initialised with these CPUs online: no other can be reached from then on."""
        places = ((cpu, self.sockets[cpu]) for cpu in sorted(cpus))
        self.cores = tuple(Core(cpu, 10 + socket, 20 + socket) for cpu, socket in places)

    def reach(self, cpus):
        """Raise `PqosError` unless the library knows the CPUs."""
        if missing := set(cpus).difference(core.cpu for core in self.cores):
            raise PqosError(f"CPU {min(missing)}: bad parameter")

    def reach_socket(self, number):
        """Reach the first CPU of a socket, by which its masks and limits are read and written."""
        self.reach([core.cpu for core in self.cores if number in (core.l3cat_id, core.mba_id)][:1])

    def _change(self, text):
        if self.fail_at is not None:
            self.fail_at -= 1
            if self.fail_at == 0:
                raise PqosError("told to fail")
        self.log.append(text)

    def masks(self, l3cat_id):
        self.reach_socket(l3cat_id)
        return dict(self.values[l3cat_id])

    def set_masks(self, l3cat_id, masks):
        self.reach_socket(l3cat_id)
        self._change(f"masks {l3cat_id} {masks}")
        coupled = {n: mask | 0x600 if mask & 0x600 else mask for n, mask in masks.items()}
        self.values[l3cat_id] |= coupled

    def bandwidth(self, mba_id):
        self.reach_socket(mba_id)
        return dict(self.limits[mba_id])

    def set_bandwidth(self, mba_id, limits):
        self.reach_socket(mba_id)
        for number, limit in limits.items():
            self._change(f"bandwidth {mba_id} {number} {limit}")
            self.limits[mba_id][number] = limit

    def class_of(self, cpu):
        self.reach([cpu])
        return self.classes[cpu]

    def set_class(self, cpu, number):
        self.reach([cpu])
        self._change(f"class {cpu} {number}")
        self.classes[cpu] = number

    def min_ways(self):
        return 1

    def close(self):
        self.log.append("close")


class MsrCase:
    def setUp(self):
        self.folder = trees.folder(self)
        self.cpus = trees.Cpus(self.folder / "cpu", packages=((0, 1, 2, 3), (4, 5, 6, 7)))
        self.log = []
        self.registers = Registers(self.log)
        super().setUp()

    def make(self, **options):
        return PqosAllocator(
            self.cpus.topology, self.folder / "resctrl", coupled=True,
            open_library=self.open, devices=self.folder, **options,
        )  # fmt: skip

    def open(self, cpus):
        self.log.append("open")
        self.registers.begin(cpus)
        return self.registers

    def class_of(self, cpu):
        return self.registers.classes[cpu] or None


class MsrContract(MsrCase, contract.AllocatorContract, unittest.TestCase):
    """The contract of every allocator, on libpqos's MSR interface."""


class AmdContract(MsrCase, contract.AllocatorContract, unittest.TestCase):
    """The same where memory bandwidth is limited in eighths of a GB/s."""

    def make(self):
        self.registers.be_amd()
        return super().make()

    def test_limits_of_others(self):
        """To the eighth: lower ones of class 0 hold, all come back, a changed one is told."""
        self.registers.limits[20] |= {0: 333, 1: 17, 5: 1001}
        saved = json.loads(json.dumps(self.allocator.save()))
        found = dict(self.registers.limits[20])
        mask = WayMask(0x3)
        self.apply(ClassMask("a", (0,), mask, 480), ClassMask("b", (1,), mask, 191))
        self.assertEqual({"a": 333, "b": 191}, self.allocator.bandwidth(0))
        self.assertEqual((), self.allocator.inspect())
        self.registers.limits[20][2] = 190
        self.assertEqual((limit_changed(2, 190, 191),), self.allocator.inspect())
        self.make().restore(saved)
        self.assertEqual(found, self.registers.limits[20])

    def test_who_only_looks(self):
        """AMD has leaves of its own for memory bandwidth; without it limits are those of CAT."""
        for cpu in (0, 4):
            trees.put_cpuid(self.folder, cpu, amd=True)
        self.assertEqual(self.make().domains(), self.allocator.look())
        for leaf, eax, ebx in ((0x80000020, 0, 0), (0x80000000, 0x80000008, 0)):
            for cpu in (0, 4):
                with open(self.folder / str(cpu) / "cpuid", "r+b") as file:
                    file.seek(leaf)
                    file.write(struct.pack("<2I", eax, ebx))
            self.assertEqual(
                {(None, 16)}, {(one.bandwidth, one.classes) for one in self.allocator.look()}
            )


class MsrInterface(MsrCase, unittest.TestCase):
    """What is particular to it."""

    def setUp(self):
        super().setUp()
        self.allocator = self.make()

    def apply(self, **classes):
        return self.allocator.apply(
            0, tuple(ClassMask(n, cpus, WayMask(mask)) for n, (cpus, mask) in classes.items())
        )

    def state(self):
        parts = (self.registers.values, self.registers.classes, self.registers.limits)
        return json.loads(json.dumps(parts))

    def test_every_failing_step_is_undone(self):
        """Whichever call fails, registers are as before, and the same works afterwards."""
        self.apply(a=((0, 1), 0x3), b=((2,), 0xC))
        goal = {"b": ((0, 2), 0x1C), "c": ((3,), 0x60), DEFAULT_CLASS: ((), 0x780)}
        for step in range(1, 20):
            before, self.registers.fail_at = self.state(), step
            try:
                self.apply(**goal)
            except HardwareError:
                self.registers.fail_at = None
                self.assertEqual(before, self.state(), f"step {step}")
            else:
                break
        self.assertGreater(step, 3)

    def test_a_table_of_masks_that_is_written_in_part(self):
        """libpqos writes one register after the other: those before the refusal are undone."""
        before, write = self.state(), self.registers.set_masks

        def refuse(l3cat, masks):
            write(l3cat, dict([*masks.items()][:1]))
            if len(masks) > 1 and 0x7FF not in masks.values():
                raise PqosError("refused")

        with (
            mock.patch.object(self.registers, "set_masks", refuse),
            raises(self, HardwareError, "^refused$"),
        ):
            self.apply(a=((0,), 0x3), b=((1,), 0xC))
        self.assertEqual(before, self.state())

    def test_given_up_masks_are_reset(self):
        """A class given up has all ways again, as after a reset."""
        self.apply(a=((0,), 0x3))
        self.apply()
        self.assertEqual(0x7FF, self.registers.values[10][1])

    def test_classes_of_others(self):
        """Classes CPUs are in already are not ours, nor are those CPUs."""
        self.registers.classes[3] = 1
        self.assertEqual(7, self.allocator.domains()[0].classes)
        self.apply(a=((0,), 0x3))
        self.assertEqual((2, 1), (self.registers.classes[0], self.registers.classes[3]))
        with raises(self, HardwareError, "put CPU 3 into class 1"):
            self.apply(a=((0, 3), 0x3))

    def test_a_bandwidth_limit_of_class_0(self):
        """CPUs do not lose it in classes of ours; these get back what they had."""
        self.registers.limits[20] |= {0: 50, 1: 70}
        saved = json.loads(json.dumps(self.allocator.save()))
        check(self.allocator.shape, saved)
        self.apply(a=((0,), 0x3), b=((1,), 0xC))
        self.assertEqual({0: 50, 1: 50, 2: 50, 3: 100}, self.limits(4))
        self.assertEqual({"a": 50, "b": 50}, self.allocator.bandwidth(0))
        self.allocator.apply(0, (ClassMask("b", (1,), WayMask(0xC), 20),))
        self.assertEqual({0: 50, 1: 70, 2: 20, 3: 100}, self.limits(4))
        self.apply()
        self.assertEqual({0: 50, 1: 70, 2: 100, 3: 100}, self.limits(4))
        self.assertEqual((), self.make().restore(saved))

    def limits(self, count):
        return {n: limit for n, limit in self.registers.limits[20].items() if n < count}

    def test_limits_of_bandwidth_are_restored(self):
        """By another process too."""
        self.registers.limits[20][1] = 70
        saved = json.loads(json.dumps(self.allocator.save()))
        self.allocator.apply(0, (ClassMask("a", (0,), WayMask(0x3), 30),))
        self.assertEqual(30, self.registers.limits[20][1])
        limits = (message("pqos-class-limit", number=1, limit=70),)
        restored = message("class-limits-restored", domain=20, limits=limits)
        self.assertIn(restored, self.make().restore(saved))
        self.assertEqual(70, self.registers.limits[20][1])
        self.assertEqual((), self.make().restore(saved))

    def test_a_limit_somebody_changed(self):
        """Is told with both values, and left."""
        self.allocator.apply(0, (ClassMask("a", (0,), WayMask(0x3), 30),))
        self.assertEqual((), self.allocator.inspect())
        self.registers.limits[20][1] = 60
        self.assertEqual((limit_changed(1, 60, 30),), self.allocator.inspect())

    def test_every_failing_step_is_undone_with_limits(self):
        """Whichever call fails, limits and all else are as before."""
        self.allocator.apply(0, (ClassMask("a", (0,), WayMask(0x3), 30),
                                 ClassMask("b", (1,), WayMask(0xC), 20)))  # fmt: skip
        goal = (ClassMask("b", (0, 1), WayMask(0x1C)), ClassMask("c", (2,), WayMask(0x60), 10))
        for step in range(1, 20):
            before, self.registers.fail_at = self.state(), step
            try:
                self.allocator.apply(0, goal)
            except HardwareError:
                self.registers.fail_at = None
                self.assertEqual(before, self.state(), f"step {step}")
            else:
                break
        self.assertGreater(step, 3)
        self.assertEqual({0: 100, 1: 10, 2: 100, 3: 100}, self.limits(4))

    def test_a_domain_that_libpqos_does_not_know(self):
        """A library that leaves out CPUs online: refused, and nothing is written."""
        self.registers.begin = lambda _cpus: None
        self.registers.cores = tuple(core for core in self.registers.cores if core.cpu > 3)
        before = self.state()
        with raises(self, HardwareError, "domain 0: libpqos knows none of its"):
            self.apply(a=((0,), 0x3))
        self.assertEqual(before, self.state())

    def test_who_only_looks(self):
        """The domains are told by CPUID: libpqos, which takes its lock, is not opened for that."""
        for cpu in (0, 4):
            trees.put_cpuid(self.folder, cpu)
        seen = self.allocator.look()
        self.assertEqual([], self.log)
        self.assertEqual(self.make().domains(), seen)

    def test_nodes(self):
        """A domain has the NUMA nodes of its socket, of CPUs that are offline meanwhile too."""
        self.cpus.put_nodes([0, 1], [4, 5], [2, 3], [6, 7])
        expected = [(0, 2), (1, 3)]
        for cpu in (0, 4):
            trees.put_cpuid(self.folder, cpu)
        self.assertEqual(expected, [one.numa_nodes for one in self.allocator.look()])
        self.assertEqual(expected, [one.numa_nodes for one in self.allocator.domains()])
        for cpu in (2, 3):
            self.cpus.unplug(cpu)
        self.assertEqual(expected, [one.numa_nodes for one in self.allocator.domains()])

    def test_who_only_looks_and_sees_nothing(self):
        """Without the cpuid driver, or the feature, the text says so."""
        with raises(self, HardwareError, "0/cpuid: No such file.*; modprobe cpuid"):
            self.allocator.look()
        trees.put_cpuid(self.folder, 0, classes=1)
        with raises(self, HardwareError, "no L3 cache allocation"):
            self.allocator.look()

    def test_who_only_looks_beyond_the_highest_leaf(self):
        """There the CPU answers with the words of its highest leaf, which mean something else."""
        trees.put_cpuid(self.folder, 0)
        for leaf, words in ((0, (0xF,)), (0x10, (0, 1 << 2))):  # Haswell's; an L2's alone
            with open(self.folder / "0/cpuid", "r+b") as file:
                file.seek(leaf)
                file.write(struct.pack(f"<{len(words)}I", *words))
            with raises(self, HardwareError, "no L3 cache allocation"):
                self.allocator.look()
            trees.put_cpuid(self.folder, 0)

    def test_another_process_holds_the_lock(self):
        """The library is not even initialised: that could wait for the other for ever."""
        lock = self.folder / "libpqos"
        code = (
            "import fcntl, sys; file = open(sys.argv[1], 'w'); fcntl.lockf(file, fcntl.LOCK_EX)\n"
            "print('held', flush=True); sys.stdin.read()"
        )
        self.allocator = PqosAllocator(
            self.cpus.topology, self.folder / "resctrl", lock=lock,
            open_library=lambda _cpus: self.fail("initialised"),
        )  # fmt: skip
        with subprocess.Popen(
            [sys.executable, "-c", code, lock],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        ) as owner:  # fmt: skip
            self.assertEqual("held\n", owner.stdout.readline())
            with raises(self, HardwareError, f"process {owner.pid} uses libpqos"):
                self.allocator.domains()
            owner.stdin.close()

    def test_mounted_resctrl(self):
        """While the kernel drives the registers through resctrl we do not."""
        (self.folder / "resctrl").mkdir()
        (self.folder / "resctrl/schemata").write_text("")
        with raises(self, HardwareError, "the kernel would not notice; use resctrl"):
            self.allocator.domains()

    def test_resctrl_mounted_later(self):
        """From then on nothing is written but what was found."""
        saved = json.loads(json.dumps(self.allocator.save()))
        found = self.state()
        self.apply(a=((0,), 0x3))
        wrote = self.state()
        (self.folder / "resctrl").mkdir()
        (self.folder / "resctrl/schemata").write_text("")
        with raises(self, HardwareError, "the kernel would not notice; use resctrl"):
            self.apply(a=((0,), 0xC))
        self.assertEqual(wrote, self.state())
        self.assertEqual("pqos-beside-resctrl", self.allocator.beside_resctrl().code)
        self.allocator.restore(saved)
        self.assertEqual(found, self.state())

    def test_foreign_changes(self):
        """Masks and CPUs somebody moved are told and left."""
        self.apply(a=((0, 1), 0x400))
        self.assertEqual((), self.allocator.inspect())
        self.registers.values[10][1] = 0x7
        self.registers.classes[1] = 5
        self.assertEqual(
            (
                message("class-mask-changed", number=1, domain=0, mask=0x7, wrote=0x400),
                message("class-cpu-moved", cpu=1, number=1),
            ),
            self.allocator.inspect(),
        )
        with raises(self, ForeignHand, "class 1: L3:0 is 0x7, the agent wrote 0x400"):
            self.apply(a=((0, 1), 0x3))
        self.assertEqual((0x7, 5), (self.registers.values[10][1], self.registers.classes[1]))

    def test_a_restore_beside_another_program(self):
        """Its class and CPUs are not ours: what it has changed meanwhile stays."""
        self.registers.values[10][5], self.registers.classes[3] = 0x70, 5
        allocator = self.make()
        saved = json.loads(json.dumps(allocator.save()))
        classes = ClassMask("a", (0, 1), WayMask(0x3)), ClassMask(DEFAULT_CLASS, (), WayMask(0xC))
        allocator.apply(0, classes)
        self.registers.values[10][5] = 0x600
        self.registers.classes |= {2: 5, 3: 0}
        for restored in (allocator.reachable(saved).now, saved):
            allocator.restore(restored)
            self.assertEqual((0x600, 0x7FF), (self.registers.values[10][5],
                                              self.registers.values[10][0]))  # fmt: skip
            self.assertEqual([0, 0, 5, 0], [self.registers.classes.get(cpu, 0) for cpu in range(4)])

    def test_a_class_that_another_program_begins_to_use(self):
        """It is neither taken for a class of ours, nor reset by the process that restores."""
        saved = json.loads(json.dumps(self.allocator.save()))
        found = self.state()
        self.apply(a=((0,), 0x3))
        self.registers.values[10][2], self.registers.limits[20][2] = 0x70, 50
        self.registers.classes[3] = 2
        self.assertEqual([7, 7], [domain.classes for domain in self.allocator.domains()])
        self.apply(a=((0,), 0x3), b=((1,), 0xC))
        self.assertEqual([1, 3, 2], [self.registers.classes[cpu] for cpu in (0, 1, 3)])
        self.assertEqual(0x70, self.registers.values[10][2])
        with raises(self, HardwareError, "put CPU 3 into class 2"):
            self.apply(a=((0, 3), 0x3))
        found[0]["10"]["2"], found[1]["3"], found[2]["20"]["2"] = 0x70, 2, 50
        for _ in range(2):
            self.allocator.restore(saved)
            self.assertEqual(found, self.state())

    def test_a_class_of_ours_that_another_program_uses_afterwards(self):
        """What was given up may be another program's by then."""
        saved = json.loads(json.dumps(self.allocator.save()))
        self.apply(a=((0,), 0x3), b=((1,), 0xC))
        self.apply(a=((0,), 0x3))
        self.registers.values[10][2], self.registers.classes[3] = 0x70, 2
        self.registers.fail_at = 1
        with raises(self, HardwareError, "^told to fail$"):
            self.allocator.restore(saved)
        for _ in range(2):
            self.allocator.restore(saved)
            self.assertEqual((0x70, 2), (self.registers.values[10][2], self.registers.classes[3]))
            self.assertEqual([0, 0], [self.registers.classes[cpu] for cpu in (0, 1)])

    def test_a_cpu_of_ours_that_another_program_moved(self):
        """It goes back to class 0, over that change."""
        saved = json.loads(json.dumps(self.allocator.save()))
        self.apply(a=((0, 1), 0x3))
        self.registers.classes[1] = 5
        self.allocator.restore(saved)
        self.assertEqual(0, self.registers.classes[1])

    def test_a_restore_beside_another_programs_cpus_offline(self):
        """Nothing waits for them, and their class is known all the same, then and later."""
        self.registers.classes |= {3: 5, 6: 6}
        allocator = self.make()
        saved = json.loads(json.dumps(allocator.save()))
        allocator.apply(0, (ClassMask("a", (0, 1), WayMask(0x3)),))
        self.registers.classes[2] = 5
        self.cpus.unplug(3)
        reach = allocator.reachable(saved)
        self.assertEqual(((), None), (reach.places, reach.later))
        self.cpus.unplug(1)
        reach = allocator.reachable(saved)
        self.assertEqual((message("classes-of-cpus-offline", cpus="1"),), reach.places)
        allocator.restore(reach.now)
        self.assertEqual((0, 5), (self.registers.classes[0], self.registers.classes[2]))
        later = json.loads(json.dumps(reach.later))
        check(allocator.shape, later)
        self.assertIsNone(allocator.reachable(later).now)
        self.cpus.plug(1)
        self.registers.classes[1] = 6
        allocator.restore(allocator.reachable(later).now)
        self.assertEqual(6, self.registers.classes[1])

    def test_processors_come_back(self):
        """A CPU that came back from being offline is put into its class again."""
        self.apply(a=((0, 1), 0x3))
        self.cpus.unplug(1)
        self.registers.classes[1] = 0
        self.assertEqual((), self.allocator.inspect())
        self.cpus.plug(1)
        self.assertEqual((), self.allocator.inspect())
        self.assertEqual(1, self.registers.classes[1])

    def test_offline_at_the_start(self):
        """libpqos is initialised anew when CPUs, or a socket, come later."""
        for cpu in (2, 3, 4, 5, 6, 7):
            self.cpus.unplug(cpu)
        self.assertEqual([(0, 1)], [domain.cpus for domain in self.allocator.domains()])
        self.apply(a=((0,), 0x3))
        self.cpus.plug(2)
        self.cpus.plug(6)
        domains = self.allocator.domains()
        self.assertEqual([(0, 1, 2), (6,)], [domain.cpus for domain in domains])
        self.assertEqual([8, 8], [domain.classes for domain in domains])
        self.apply(a=((0, 2), 0x3))
        self.allocator.apply(1, (ClassMask("b", (6,), WayMask(0xC)),))
        self.assertEqual([1, 1, 1], [self.registers.classes[cpu] for cpu in (0, 2, 6)])
        self.assertEqual(0xC, self.registers.values[11][1])
        self.assertEqual((), self.allocator.inspect())

    def test_a_socket_goes_and_comes(self):
        """Nothing of it can be reached meanwhile, and nothing else is kept from being seen."""
        self.apply(a=((0,), 0x3))
        self.allocator.apply(1, (ClassMask("b", (4,), WayMask(0xC)),))
        for cpu in (4, 5, 6, 7):
            self.cpus.unplug(cpu)
        self.assertEqual((), self.allocator.inspect())
        with raises(self, DomainOffline, "domain 1: none of its CPUs is online"):
            self.allocator.effective(1)
        self.cpus.plug(4)
        self.assertEqual((0, 1), tuple(domain.id for domain in self.allocator.domains()))
        self.registers.classes[4] = 0  # as the kernel leaves it
        self.assertEqual((), self.allocator.inspect())
        self.assertEqual(1, self.registers.classes[4])

    def test_a_socket_that_the_kernel_reset(self):
        """Masks and limits that a kernel with resctrl resets are no conflicting change."""
        self.apply(a=((0,), 0x3))
        mine = ClassMask("b", (4,), WayMask(0xC), 40)
        self.allocator.apply(1, (mine, ClassMask(DEFAULT_CLASS, (5, 6, 7), WayMask(0x30))))
        for cpu in (4, 5, 6, 7):
            self.cpus.unplug(cpu)
        self.assertEqual((), self.allocator.inspect())
        self.registers.values[11] = dict.fromkeys(range(16), 0x7FF)
        self.registers.limits[21] = dict.fromkeys(range(8), 100)
        self.registers.classes[4] = 0
        for cpu in (4, 5):
            self.cpus.plug(cpu)
        written = self.allocator.apply(1, (ClassMask("b", (4,), WayMask(0x30)),))
        self.assertEqual({"b": 0x30}, written)
        self.assertEqual((0x7FF, 100), (self.registers.values[11][0], self.registers.limits[21][1]))
        self.registers.values[11][1] = 0x7
        self.assertEqual(
            (message("class-mask-changed", number=1, domain=1, mask=0x7, wrote=0x30),),
            self.allocator.inspect(),
        )

    def test_reset_registers_are_written_by_a_look(self):
        """Masks and limits of a socket that was offline are back after one inspection."""
        mine = ClassMask("b", (4,), WayMask(0xC), 40)
        self.allocator.apply(1, (mine, ClassMask(DEFAULT_CLASS, (5, 6, 7), WayMask(0x30))))
        left = self.state()
        for cpu in (4, 5, 6, 7):
            self.cpus.unplug(cpu)
        self.registers.values[11] = dict.fromkeys(range(16), 0x7FF)
        self.registers.limits[21] = dict.fromkeys(range(8), 100)
        self.registers.classes[4] = 0
        for cpu in (4, 5, 6, 7):
            self.cpus.plug(cpu)
        self.assertEqual((), self.allocator.inspect())
        self.assertEqual(left, self.state())
        self.registers.values[11][0] = 0x7FF
        (changed,) = self.allocator.inspect()
        self.assertEqual(0x7FF, self.registers.values[11][0], changed)

    def test_only_the_domain_that_is_written_is_compared(self):
        """A change in another domain is left for the next look."""
        self.apply(a=((0,), 0x3))
        self.allocator.apply(1, (ClassMask("b", (4,), WayMask(0xC)),))
        self.registers.values[10][1] = 0x7
        self.registers.classes[0] = 5
        self.allocator.apply(1, (ClassMask("b", (4,), WayMask(0x30)),))
        self.assertEqual((0x7, 5), (self.registers.values[10][1], self.registers.classes[0]))
        self.assertEqual(2, len(self.allocator.inspect()))

    def test_offline_when_saved(self):
        """A CPU that was offline when the host was found is written after the next saving only."""
        self.cpus.unplug(1)
        saved = json.loads(json.dumps(self.allocator.save()))
        self.assertNotIn("1", saved["classes"])
        self.cpus.plug(1)
        found = self.state()
        with self.assertRaises(DomainOffline):
            self.apply(a=((0, 1), 0x3))
        self.assertEqual(found, self.state())
        saved = json.loads(json.dumps(self.allocator.save()))
        self.apply(a=((0, 1), 0x3))
        self.assertEqual(1, self.registers.classes[1])
        self.assertEqual("0", str(self.allocator.save()["classes"]["1"]))  # as found, not as now
        self.make().restore(saved)
        self.assertEqual(0, self.registers.classes[1])

    def test_offline_when_saved_and_at_the_write(self):
        """It is not written when it is back, either."""
        self.allocator.domains()
        self.cpus.unplug(1)
        self.allocator.save()
        found = self.state()
        with self.assertRaises(DomainOffline):
            self.apply(a=((0, 1), 0x3))
        self.cpus.plug(1)
        self.assertEqual((), self.allocator.inspect())
        self.assertEqual(found, self.state())

    def test_a_socket_online_after_the_saving(self):
        """Its masks could not be restored: nothing is written there until the next saving."""
        for cpu in (4, 5, 6, 7):
            self.cpus.unplug(cpu)
        self.allocator.save()
        for cpu in (4, 5, 6, 7):
            self.cpus.plug(cpu)
        found, classes = self.state(), (ClassMask("b", (4,), WayMask(0xC)),)
        with self.assertRaises(DomainOffline):
            self.allocator.apply(1, classes)
        self.assertEqual(found, self.state())
        self.allocator.save()
        self.assertEqual({"b": 0xC}, self.allocator.apply(1, classes))

    def test_a_socket_offline_at_the_end(self):
        """What it has stays in its registers, so it waits; the rest is restored, and stays so."""
        saved = json.loads(json.dumps(self.allocator.save()))
        check(self.allocator.shape, saved)
        found = self.state()
        self.apply(a=((0,), 0x3))
        self.allocator.apply(1, (ClassMask("b", (4,), WayMask(0xC)),))
        for cpu in (4, 5, 6, 7):
            self.cpus.unplug(cpu)
        other = self.make()
        reach = other.reachable(saved)
        self.assertEqual(
            (
                message("class-masks-offline", cache="11"),
                message("class-limits-offline", cache="21"),
                message("classes-of-cpus-offline", cpus="4-7"),
            ),
            reach.places,
        )
        self.assertTrue(other.restore(reach.now))
        later = json.loads(json.dumps(reach.later))
        check(other.shape, later)
        for cpu in (4, 5, 6, 7):
            self.cpus.plug(cpu)
        other.apply(0, (ClassMask("c", (0,), WayMask(0x3)),))
        self.assertIsNone(other.reachable(later).later)
        self.assertTrue(other.restore(other.reachable(later).now))
        self.assertEqual(1, self.registers.classes[0])  # what works by now goes on
        self.assertEqual({"c": 0x3}, other.effective(0))
        other.restore(saved)
        self.assertEqual(found, self.state())

    def test_what_fails_keeps_nothing_else(self):
        """A CPU that cannot be put back does not keep the others and the masks from it."""
        saved = json.loads(json.dumps(self.allocator.save()))
        self.apply(a=((0, 1), 0x3))
        self.registers.fail_at = 1
        with raises(self, HardwareError, "^told to fail$"):
            self.allocator.restore(saved)
        self.assertEqual([1, 0], [self.registers.classes[cpu] for cpu in (0, 1)])
        self.assertEqual(0x7FF, self.registers.values[10][1])

    def test_a_mask_of_class_0_that_is_refused(self):
        """CPUs of that cache do not fall back to the few ways that the agent left there."""
        saved = json.loads(json.dumps(self.allocator.save()))
        found = self.state()
        for domain, cpu in ((0, 0), (1, 4)):
            few = ClassMask(DEFAULT_CLASS, (), WayMask(0x3))
            self.allocator.apply(domain, (ClassMask("a", (cpu,), WayMask(0x3C)), few))
        write = self.registers.set_masks

        def refuse(l3cat, masks):
            if l3cat == 10 and 0 in masks:
                raise PqosError("refused")
            write(l3cat, masks)

        with mock.patch.object(self.registers, "set_masks", refuse):
            for _ in range(2):
                with raises(self, HardwareError, "refused"):
                    self.allocator.restore(saved)
        self.assertEqual([1, 0], [self.registers.classes[cpu] for cpu in (0, 4)])
        self.allocator.restore(saved)
        self.assertEqual(found, self.state())

    def test_restored_by_another_process(self):
        """What was saved puts every mask and CPU back, once."""
        self.registers.values[11][0] = 0x3F
        saved = json.loads(json.dumps(self.allocator.save()))
        found = self.state()
        self.apply(a=((0, 1), 0x3), **{DEFAULT_CLASS: ((), 0x7C0)})
        other = self.make()
        self.assertTrue(other.restore(saved))
        self.assertEqual(found, self.state())
        self.assertEqual((), other.restore(saved))
