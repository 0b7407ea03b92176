# SPDX-License-Identifier: Apache-2.0
import errno
import json
import os
import unittest

from iat_nova.common.clock import SystemClock
from iat_nova.hardware.api import CoreCounts, DomainCounts, HardwareError
from iat_nova.hardware.counters import events
from iat_nova.hardware.counters.cha_msr import ChaMsr
from iat_nova.hardware.counters.msr_counters import MsrCounters
from iat_nova.hardware.kernel import msr
from tests.proofs import proves
from tests.said import raises, sentence
from tests.unit.hardware import trees
from tests.unit.hardware.registers import FakeMsr

SKX = events.SKYLAKE


class Registers(unittest.TestCase):
    """Which registers can be reached, and what a refusal says."""

    def setUp(self):
        self.folder = trees.folder(self)

    def test_only_the_listed_ones(self):
        """Whatever is not on the list is refused before the machine is asked."""
        fake = FakeMsr({0: 0})
        for register in (0x10, 0x1A0, 0x1FC, 0xD10, 0xD90, 0xDFF, 0x3000):
            with self.assertRaises(ValueError):
                fake.read(0, register)
        for register in (msr.PQR_ASSOC, msr.L3_MASK, 0xD50, 0x10):
            with self.assertRaises(ValueError):
                fake.write(0, register, 0)
        self.assertEqual((0, []), (fake.reads, fake.writes))

    def test_a_missing_driver(self):
        """Without the device file the text says which module to load."""
        with raises(self, HardwareError, "0xc8b: read: No such file.*modprobe msr"):
            msr.Msr(self.folder).read(0, msr.IIO_LLC_WAYS)

    def test_a_real_file(self):
        """A register is eight bytes, little endian, at its number's offset."""
        (self.folder / "3").mkdir()
        (self.folder / "3/msr").write_bytes(bytes(0x1000))
        device = msr.Msr(self.folder)
        self.addCleanup(device.close)
        device.write(3, msr.IIO_LLC_WAYS, 0x600)
        self.assertEqual(0x600, device.read(3, msr.IIO_LLC_WAYS))
        with open(self.folder / "3/msr", "rb") as file:
            self.assertEqual(b"\x00\x06", os.pread(file.fileno(), 2, 0xC8B))

    def test_descriptors_are_kept_and_given_back(self):
        """A CPU's file is opened once for each direction, and closed."""
        for cpu in range(3):
            (self.folder / str(cpu)).mkdir()
            (self.folder / f"{cpu}/msr").write_bytes(bytes(0x1000))
        before = len(os.listdir("/proc/self/fd"))
        device = msr.Msr(self.folder)
        for _ in range(50):
            for cpu in range(3):
                device.read(cpu, msr.IIO_LLC_WAYS)
                device.write(cpu, msr.IIO_LLC_WAYS, 0)
        self.assertEqual(before + 6, len(os.listdir("/proc/self/fd")))
        device.close()
        self.assertEqual(before, len(os.listdir("/proc/self/fd")))

    def test_writes_switched_off(self):
        """With msr.allow_writes=off the text names the setting and the command."""
        (self.folder / "allow_writes").write_text("off\n")
        fake = FakeMsr({0: 0}, parameters=self.folder)
        fake.refuse = errno.EPERM
        with raises(self, HardwareError, r"write 0x700: .*echo on > .*allow_writes"):
            fake.write(0, msr.IIO_LLC_WAYS, 0x700)

    def test_lockdown(self):
        """Where writes are not switched off, rights and lockdown are named."""
        (self.folder / "allow_writes").write_text("default\n")
        fake = FakeMsr({0: 0}, parameters=self.folder)
        fake.refuse = errno.EPERM
        with raises(self, HardwareError, "CAP_SYS_RAWIO.*DeviceAllow=.*lockdown"):
            fake.write(0, msr.IIO_LLC_WAYS, 0x700)

    def test_a_register_that_is_not_there(self):
        """A fault says that the CPU has no such register."""
        fake = FakeMsr({0: 0})
        with raises(self, HardwareError, "no such register"):
            fake.read(0, 0xE00 + 0x10 * 20)


class WrapAround(unittest.TestCase):
    """Counters of 48 bits in totals without end."""

    def test_a_wrap(self):
        """A counter that passed its end goes on."""
        counted = msr.Wrapping(((1 << 48) - 10,))
        self.assertEqual((30,), counted.grow((20,)))
        self.assertEqual((35,), counted.grow((25,)))

    def test_a_reset(self):
        """A counter that somebody set back is rejected once and goes on from there."""
        counted = msr.Wrapping((0,))
        self.assertEqual((1000,), counted.grow((1000,)))
        self.assertIsNone(counted.grow((5,)))
        self.assertEqual((1010,), counted.grow((15,)))


class Machine(unittest.TestCase):
    """A test case with two packages of two CPUs."""

    def setUp(self):
        folder = trees.folder(self)
        self.cpus = trees.Cpus(folder / "cpu", packages=((0, 1), (2, 3)))
        self.msr = FakeMsr({0: 0, 1: 0, 2: 1, 3: 1})

    def unplug(self, cpu):
        self.cpus.unplug(cpu)
        self.msr.off.add(cpu)

    def plug(self, cpu):
        """A CPU comes back as after a reset."""
        self.cpus.plug(cpu)
        self.msr.off.discard(cpu)
        for owner, register in list(self.msr.values):
            if owner == ("cpu", cpu):
                del self.msr.values[owner, register]


class CoreRegisters(Machine):
    """The four general counters."""

    def setUp(self):
        super().setUp()
        self.counters = MsrCounters(self.msr, SKX.core, self.cpus.topology, SystemClock())

    def count(self, cpu, *values):
        for n, value in enumerate(values):
            self.msr.set(cpu, msr.PMC + n, value)
        return self.counters.read().cores.get(cpu)

    def test_programmed_and_read(self):
        """Four selections for user and kernel, four reads a CPU."""
        self.counters.watch([0, 2])
        self.assertEqual(
            [0x4300C0, 0x43003C, 0x434F2E, 0x43412E],
            [self.msr.get(0, msr.PERFEVTSEL + n) for n in range(4)],
        )
        self.msr.reads = 0
        self.assertEqual(CoreCounts(10, 20, 3, 1), self.count(2, 10, 20, 3, 1))
        self.assertEqual(8, self.msr.reads)

    def test_put_back(self):
        """After close, and for CPUs no longer watched, all is as it was found."""
        self.msr.set(0, msr.PERF_GLOBAL_CTRL, 0)
        self.msr.set(0, msr.PERFEVTSEL + 1, 0x1234)
        before = dict(self.msr.values)
        self.counters.watch([0, 1])
        self.assertEqual(0xF, self.msr.get(0, msr.PERF_GLOBAL_CTRL))
        self.counters.watch([1])
        self.assertEqual(0x1234, self.msr.get(0, msr.PERFEVTSEL + 1))
        self.counters.close()
        left = {key: value for key, value in self.msr.values.items() if value}
        self.assertEqual({key: value for key, value in before.items() if value}, left)

    def test_counters_in_use(self):
        """A counter somebody uses is refused and left alone."""
        self.msr.set(1, msr.PERFEVTSEL + 3, 0x4300C4)
        with raises(self, HardwareError, "CPU 1: counter 3 .*in use.*perf"):
            self.counters.watch([1])
        self.assertEqual(0, self.msr.get(1, msr.PERFEVTSEL))

    def test_a_counter_that_was_taken(self):
        """What counts for somebody else now is absent, not taken for ours."""
        self.counters.watch([0, 1])
        self.msr.set(1, msr.PERFEVTSEL + 3, 0x4300C4)
        with raises(self, HardwareError, "in use"):
            self.counters.watch([0, 1])
        self.assertEqual({0}, self.counters.read().cores.keys())

    def test_restored_in_the_middle(self):
        """Nothing is counted, and nothing put back again, until the next watch."""
        saved = self.counters.save()
        self.counters.watch([0])
        self.count(0, 100, 100, 100, 100)
        self.counters.restore(saved)
        self.assertIsNone(self.count(0, 100, 100, 100, 100))
        self.msr.set(0, msr.PERFEVTSEL, 0x4300C4)
        self.counters.close()
        self.assertEqual(0x4300C4, self.msr.get(0, msr.PERFEVTSEL))
        self.msr.set(0, msr.PERFEVTSEL, 0)
        self.counters.watch([0])
        self.assertEqual(CoreCounts(101, 102, 103, 104), self.count(0, 101, 102, 103, 104))

    def test_a_processor_that_refuses(self):
        """The others are put back all the same, by whatever way; its own stay to be tried again."""
        saved = self.counters.save()
        for end in (self.counters.close, lambda: self.counters.restore(saved)):
            self.counters.watch([0, 2])
            for refusing, other in ((0, 2), (2, 0)):
                self.msr.refuse, self.msr.refusing = errno.EPERM, {refusing}
                with self.subTest(end, refusing=refusing):
                    with self.assertRaises(HardwareError) as told:
                        end()
                    self.assertEqual(
                        4, sentence(told.exception).count(f"/{refusing}/msr: register")
                    )
                    self.assertEqual(0x4300C0, self.msr.get(refusing, msr.PERFEVTSEL))
                    self.assertEqual(0, self.msr.get(other, msr.PERFEVTSEL))
                self.msr.refuse = None
                self.counters.watch([0, 2])
            end()
            self.assertEqual([0, 0], [self.msr.get(cpu, msr.PERFEVTSEL) for cpu in (0, 2)])

    def test_offline_and_back(self):
        """A CPU that is gone is absent, and counts on after its return."""
        self.counters.watch([0, 1])
        self.count(1, 100, 100, 100, 100)
        self.unplug(1)
        self.assertEqual({0}, self.counters.read().cores.keys())
        self.counters.watch([0, 1])
        self.plug(1)
        self.counters.watch([0, 1])
        self.assertEqual(CoreCounts(105, 106, 107, 108), self.count(1, 5, 6, 7, 8))
        self.counters.close()

    def test_reset_behind_our_back(self):
        """Off and on between two looks: absent once, programmed anew, never falling."""
        self.counters.watch([1])
        self.count(1, 100, 100, 100, 100)
        self.unplug(1)
        self.plug(1)
        self.assertIsNone(self.count(1, 1, 1, 1, 1))
        self.counters.watch([1])
        self.assertEqual(0x4300C0, self.msr.get(1, msr.PERFEVTSEL))
        self.assertEqual(CoreCounts(101, 101, 101, 101), self.count(1, 2, 2, 2, 2))

    def test_online_after_the_saving(self):
        """A CPU that was offline then could not be restored: it counts after the next saving."""
        self.unplug(1)
        self.counters.save()
        self.plug(1)
        self.counters.watch([0, 1])
        self.assertEqual([0x4300C0, 0], [self.msr.get(cpu, msr.PERFEVTSEL) for cpu in (0, 1)])
        self.counters.save()
        self.counters.watch([0, 1])
        self.assertEqual({0, 1}, self.counters.read().cores.keys())

    def test_restored_by_another_process(self):
        """What was saved before the first write puts every register back, once."""
        found = 1 << 34 | 0x77  # with adaptive PEBS, as the kernel leaves it
        self.msr.set(3, msr.PERFEVTSEL, found)
        saved = json.loads(json.dumps(self.counters.save()))
        self.counters.watch([0, 3])
        other = MsrCounters(self.msr, SKX.core, self.cpus.topology, SystemClock())
        self.assertEqual(8, len(other.restore(saved)))
        self.assertEqual(found, self.msr.get(3, msr.PERFEVTSEL))
        self.assertEqual((), other.restore(saved))

    def test_forged_bits(self):
        """A restore sets the bits that an agent sets; the other bits stay, whatever was saved."""
        forged = [[0, msr.PERF_GLOBAL_CTRL, 1 << 50], [0, msr.PERFEVTSEL, 1 << 50 | 0x77]]
        self.counters.restore(forged)
        there = [self.msr.get(0, at) for at in (msr.PERF_GLOBAL_CTRL, msr.PERFEVTSEL)]
        self.assertEqual([0x700000000, 0x77], there)


@proves("counters: msr", on=(events.SKYLAKE.name, events.SAPPHIRE_RAPIDS.name))
class ChaRegisters(Machine):
    """The CHAs of Skylake by their registers."""

    def reader(self, **options):
        return ChaMsr(
            self.msr, SKX.cha_registers, SKX.cha,
            lambda: {cache.id: cache.cpus[0] for cache in self.cpus.topology.caches()},
            **{"slices": 18, "counted": 1, **options},
        )  # fmt: skip

    def count(self, cpu, box, *values):
        for n, value in enumerate(values):
            self.msr.set(cpu, 0xE00 + 0x10 * box + 8 + n, value)

    def test_programmed(self):
        """Event, umask and filter are in the registers the manuals give."""
        self.reader().watch()
        for cpu in (0, 2):
            self.assertEqual(0x401435, self.msr.get(cpu, 0xE01))
            self.assertEqual(0x402435, self.msr.get(cpu, 0xE02))
            self.assertEqual(0x10049033, self.msr.get(cpu, 0xE06))
        self.assertEqual(0, self.msr.get(0, 0xE11))

    def test_online_after_the_saving(self):
        """The boxes of a package that was offline then are left alone until the next saving."""
        reader = self.reader()
        for cpu in (2, 3):
            self.unplug(cpu)
        reader.save()
        for cpu in (2, 3):
            self.plug(cpu)
        reader.watch()
        self.assertEqual([0x401435, 0], [self.msr.get(cpu, 0xE01) for cpu in (0, 2)])
        self.assertEqual({0}, reader.read().keys())
        reader.save()
        reader.watch()
        self.assertEqual({0, 1}, reader.read().keys())

    def test_extended_umask(self):
        """From Ice Lake on the opcodes are in bits 32 and up of the event select."""
        spr = events.SAPPHIRE_RAPIDS
        reader = ChaMsr(self.msr, spr.cha_registers, spr.cha, lambda: {0: 0}, slices=56, counted=1)
        reader.watch()
        self.assertEqual(0x00CC43FD_00000435, self.msr.get(0, 0x2002))
        self.assertEqual(0x00CD43FE_00000435, self.msr.get(0, 0x2005))

    def test_the_largest_emerald_rapids(self):
        """64 slices, all of them counted and put back; a 65th there cannot be."""
        emerald = events.SAPPHIRE_RAPIDS

        def reader(slices):
            return ChaMsr(
                self.msr, emerald.cha_registers, emerald.cha, lambda: {0: 0}, slices=slices,
                counted=None,
            )  # fmt: skip

        with raises(self, HardwareError, "at most 64"):
            reader(65)
        all_slices = reader(64)
        all_slices.watch()
        self.assertEqual(0x00CC43FD_00000435, self.msr.get(0, 0x2002 + 63 * 0x10))
        all_slices.close()
        self.assertEqual(0, self.msr.get(0, 0x2002 + 63 * 0x10))

    def test_boxes_in_use_without_an_enable_bit(self):
        """From Sapphire Rapids on whatever is selected is counted."""
        emerald = events.SAPPHIRE_RAPIDS
        reader = ChaMsr(self.msr, emerald.cha_registers, emerald.cha, lambda: {0: 0}, slices=18)
        self.msr.set(0, 0x2004, 0x00CC43FD_00000135)
        with raises(self, HardwareError, "CHA 0 counter 2 .*in use"):
            reader.watch()
        self.assertEqual([], self.msr.writes)

    def test_one_slice_stands_for_all(self):
        """One slice's counts are multiplied by the number of slices, by package."""
        reader = self.reader()
        reader.watch()
        self.count(0, 0, 100, 10)
        self.count(2, 0, 7, 1)
        self.assertEqual(
            {0: DomainCounts(1800, 180, None), 1: DomainCounts(126, 18, None)}, reader.read()
        )

    def test_all_slices(self):
        """All slices are added up."""
        reader = self.reader(counted=None)
        reader.watch()
        for box in range(18):
            self.count(0, box, 100 + box, 1)
        self.assertEqual(DomainCounts(1953, 18, None), reader.read()[0])

    def test_too_many_slices(self):
        """More slices than the CPU can have are refused."""
        with raises(self, HardwareError, "at most 28"):
            self.reader(slices=60)

    def test_boxes_in_use(self):
        """A box that counts for somebody is refused and left alone."""
        self.msr.set(0, 0xE04, 0x400035)
        reader = self.reader()
        with raises(self, HardwareError, "CHA 0 counter 3 .*in use"):
            reader.watch()
        self.assertEqual([], self.msr.writes)
        self.assertEqual({}, reader.read())

    def test_a_box_that_was_taken(self):
        """Its package is absent until it is free again; the totals go on then."""
        reader = self.reader()
        reader.watch()
        self.count(2, 0, 7, 1)
        reader.read()
        self.msr.set(2, 0xE01, 0x400036)
        with raises(self, HardwareError, "CPU 2: CHA 0 counter 0 .*in use"):
            reader.watch()
        self.assertEqual({0}, reader.read().keys())
        self.msr.set(2, 0xE01, 0)
        reader.watch()
        self.assertEqual(DomainCounts(126, 18, None), reader.read()[1])

    def test_restored_in_the_middle(self):
        """Nothing is counted, and nothing put back again, until the next watch."""
        reader = self.reader()
        saved = reader.save()
        reader.watch()
        reader.restore(saved)
        self.assertEqual({}, reader.read())
        self.msr.set(0, 0xE01, 0x400036)
        reader.close()
        self.assertEqual(0x400036, self.msr.get(0, 0xE01))
        self.msr.set(0, 0xE01, 0)
        reader.watch()
        self.assertEqual({0, 1}, reader.read().keys())

    def test_a_frozen_box(self):
        """A frozen box is let go while we count, and frozen again afterwards."""
        for model, control, frozen, free in (
            (SKX, 0xE00, 0x30100, 0x30000),
            (events.SAPPHIRE_RAPIDS, 0x2000, 0x101, 0x100),  # bit 8 is another one there
        ):
            self.msr.set(0, control, frozen)
            reader = ChaMsr(self.msr, model.cha_registers, model.cha, lambda: {0: 0}, slices=18)
            reader.watch()
            self.assertEqual(free, self.msr.get(0, control))
            reader.close()
            self.assertEqual(frozen, self.msr.get(0, control))

    def test_another_processor_takes_over(self):
        """When the CPU that reads goes offline, the package is read through the next."""
        reader = self.reader()
        reader.watch()
        self.count(0, 0, 100, 10)
        reader.read()
        self.unplug(0)
        self.assertEqual({1}, reader.read().keys())
        reader.watch()
        self.count(1, 0, 101, 10)
        self.assertEqual(DomainCounts(1818, 180, None), reader.read()[0])
        reader.close()
        self.assertEqual(0, self.msr.get(1, 0xE01))

    def test_put_back(self):
        """close and, after a kill, another process put every register back."""
        self.msr.set(0, 0xE06, 0x3B)
        found = {register: self.msr.get(0, register) for register in range(0xE00, 0xE08)}
        saved = json.loads(json.dumps(self.reader().save()))
        reader = self.reader()
        reader.watch()
        reader.close()
        self.assertEqual(found, {register: self.msr.get(0, register) for register in found})
        self.reader().watch()
        self.reader().restore(saved)
        self.assertEqual(found, {register: self.msr.get(0, register) for register in found})
        self.assertEqual((), self.reader().restore(saved))

    def test_forged_bits(self):
        """A restore unfreezes a box, sets events and filter; no other bit or register of a CHA."""
        registers = range(0xE00, 0xE10)
        self.reader().restore([[0, register, (1 << 64) - 1] for register in registers])
        layout, ones = SKX.cha_registers, (1 << 64) - 1
        expected = dict.fromkeys(registers, 0) | {0xE00 + layout.control: layout.freeze}
        expected |= {0xE00 + layout.event + n: ones for n in range(2)}
        expected[0xE00 + layout.filter1] = ones
        self.assertEqual(expected, {register: self.msr.get(0, register) for register in registers})
