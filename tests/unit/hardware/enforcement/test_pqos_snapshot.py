# SPDX-License-Identifier: Apache-2.0
"""The snapshot of libpqos's registers, over agents and CPUs that come and go."""

import json
import unittest
from unittest import mock

from iat_nova.hardware.api import ClassMask, HardwareError
from iat_nova.hardware.enforcement.snapshot import Snapshot
from iat_nova.model import WayMask
from tests.said import codes
from tests.unit.hardware.test_pqos import MsrCase

SOCKET = (4, 5, 6, 7)


class AgentsCase(MsrCase):
    """Two sockets; each agent has an allocator and a snapshot of its own, and one file."""

    def setUp(self):
        super().setUp()
        self.found = self.state()

    def agent(self):
        """Return the allocator and the snapshot of an agent."""
        boot = self.folder / "boot"
        boot.write_text("this\n")
        allocator = self.make()
        return allocator, Snapshot(
            {"pqos-msr": allocator},
            snapshot=self.folder / "state/snapshot.json",
            lock=self.folder / "lock",
            boot_id=boot,
            bootloader=self.folder / "bootloader",
        )

    def state(self):
        registers = self.registers
        return json.loads(json.dumps((registers.values, registers.classes, registers.limits)))

    def write(self, allocator, *cpus, ways=0x3):
        """Put CPUs of one socket into a class of these ways."""
        classes = (ClassMask("a", cpus, WayMask(ways), 40),)
        allocator.apply(cpus[0] // 4, classes)

    def unplug(self, *cpus):
        for cpu in cpus:
            self.cpus.unplug(cpu)

    def plug(self, *cpus):
        for cpu in cpus:
            self.cpus.plug(cpu)


class PqosSnapshot(AgentsCase, unittest.TestCase):
    """What one agent after the other restores."""

    def end_with_a_socket_offline(self):
        """Let an agent write to both sockets, and end while one of them is offline."""
        allocator, snapshot = self.agent()
        snapshot.protect()
        self.write(allocator, 0)
        self.write(allocator, 4)
        self.unplug(*SOCKET)
        return snapshot.restore()

    def test_a_cpu_that_comes_later_and_is_offline_at_the_end(self):
        """It is saved before it is written, so the restore waits for it."""
        self.unplug(1)
        allocator, snapshot = self.agent()
        snapshot.protect()
        self.plug(1)
        snapshot.extend()
        self.write(allocator, 0, 1)
        self.unplug(1)
        for _ in range(2):
            restored = snapshot.restore()
            self.assertIn("classes-of-cpus-offline", codes(restored.left[0]))
        self.plug(1)
        self.assertTrue(snapshot.finish().done)
        self.assertEqual(self.found, self.state())

    def test_an_agent_after_one_whose_socket_was_offline(self):
        """It restores what both wrote, and afterwards knows nothing of its own classes."""
        self.end_with_a_socket_offline()
        self.unplug(1)
        allocator, snapshot = self.agent()
        snapshot.put_back()
        snapshot.protect()
        self.write(allocator, 0)
        self.plug(1)
        snapshot.extend()
        self.write(allocator, 0, 1)
        self.assertTrue(snapshot.restore().left)
        self.assertEqual([0, 0, 1], [self.registers.classes[cpu] for cpu in (0, 1, 4)])
        self.assertEqual((), allocator.inspect())
        self.plug(*SOCKET)
        snapshot.finish()
        self.assertEqual(self.found, self.state())
        self.assertEqual((), allocator.inspect())

    def test_a_socket_that_is_back_just_before_the_end(self):
        """What an earlier agent left there is restored with the rest, in whatever class it is."""
        allocator, snapshot = self.agent()
        snapshot.protect()
        for name, cpu, ways in (("a", 4, 0x3), ("b", 5, 0xC)):
            both = [ClassMask("a", (4,), WayMask(0x3)), ClassMask("b", (5,), WayMask(0xC))]
            allocator.apply(1, tuple(one for one in both if one.name <= name))
            self.assertEqual(ways, self.registers.values[11][self.registers.classes[cpu]])
        self.unplug(*SOCKET)
        snapshot.restore()
        allocator, snapshot = self.agent()
        snapshot.put_back()
        snapshot.protect()
        self.write(allocator, 0)
        self.plug(*SOCKET)
        allocator.domains()
        snapshot.restore()
        self.assertEqual(self.found, self.state())

    def test_what_another_program_began_to_use_is_not_waited_for(self):
        """Its CPU, or its socket, is offline at the restore: it keeps its class afterwards."""
        for gone in ((3,), SOCKET):
            with self.subTest(gone=gone):
                allocator, snapshot = self.agent()
                snapshot.protect()
                self.write(allocator, 0)
                self.write(allocator, 4)
                theirs, cache = gone[-1], 10 + gone[-1] // 4
                self.registers.classes[theirs], self.registers.values[cache][5] = 5, 0x70
                allocator.domains()
                self.unplug(*gone)
                snapshot.restore()
                self.plug(*gone)
                snapshot.finish()
                self.assertEqual(5, self.registers.classes[theirs])
                self.assertEqual(0x70, self.registers.values[cache][5])
                self.registers.classes[theirs], self.registers.values[cache][5] = 0, 0x7FF
                self.assertEqual(self.found, self.state())

    def test_all_that_was_saved_is_offline_at_the_restore(self):
        """The agent forgets its classes: no later look writes them again, without a snapshot."""
        self.unplug(*SOCKET)
        allocator, snapshot = self.agent()
        snapshot.protect()
        self.write(allocator, 0)
        self.plug(*SOCKET)
        self.unplug(0, 1, 2, 3)
        self.assertTrue(snapshot.restore().left)
        self.plug(0, 1, 2, 3)
        snapshot.finish()
        self.assertEqual((), allocator.inspect())
        self.assertEqual(self.found, self.state())

    def test_nothing_waits_for_a_socket_that_was_not_written(self):
        """Where nothing was written, nothing has to be restored."""
        allocator, snapshot = self.agent()
        snapshot.protect()
        self.write(allocator, 0)
        self.unplug(*SOCKET)
        self.assertEqual((), snapshot.restore().left)
        self.plug(*SOCKET)
        self.assertEqual(self.found, self.state())

    def test_the_same_class_of_another_program_in_another_cache(self):
        """Masks of a class differ by cache: those that this agent did not write are not reset."""
        allocator, snapshot = self.agent()
        snapshot.protect()
        self.write(allocator, 0)
        self.registers.classes[5], self.registers.values[11][1] = 1, 0x70
        snapshot.restore()
        self.assertEqual((1, 0x70), (self.registers.classes[5], self.registers.values[11][1]))

    def test_a_cpu_that_another_program_took_after_it_was_given_back(self):
        """In class 0 it was as found; from then on it may be another program's."""
        allocator, snapshot = self.agent()
        snapshot.protect()
        self.write(allocator, 0, 1)
        self.write(allocator, 0)
        self.registers.classes[1], self.registers.values[10][5] = 5, 0x70
        snapshot.restore()
        self.assertEqual((5, 0x70), (self.registers.classes[1], self.registers.values[10][5]))

    def test_a_cpu_that_another_program_takes_during_the_restore(self):
        """The reading back does not undo that."""
        allocator, snapshot = self.agent()
        snapshot.protect()
        self.write(allocator, 0, 1)
        set_class = self.registers.set_class

        def take(cpu, number):
            set_class(cpu, number)
            if cpu == 1:
                self.registers.classes[0], self.registers.values[10][5] = 5, 0x70

        self.registers.set_class = take
        self.assertEqual((), snapshot.restore().failed)
        self.assertEqual([5, 0], [self.registers.classes[cpu] for cpu in (0, 1)])

    def test_a_class_register_that_keeps_its_value(self):
        """The reading back finds the CPU in our class, also where all masks are as found."""
        allocator, snapshot = self.agent()
        snapshot.protect()
        allocator.apply(0, (ClassMask("a", (0, 1), WayMask(0x7FF)),))
        with mock.patch.object(self.registers, "set_class"):
            (failed,) = snapshot.restore().failed
        self.assertIn("settings-not-kept", codes(failed))
        self.assertEqual((), snapshot.restore().not_done)
        self.assertEqual(self.found, self.state())

    def test_a_class_register_that_keeps_its_value_when_a_cpu_is_given_up(self):
        """The restore finds the CPU in our class."""
        allocator, snapshot = self.agent()
        snapshot.protect()
        allocator.apply(0, (ClassMask("a", (0, 1), WayMask(0x7FF)),))
        with mock.patch.object(self.registers, "set_class"):
            allocator.apply(0, (ClassMask("a", (0,), WayMask(0x7FF)),))
        self.assertEqual((), snapshot.restore().not_done)
        self.assertEqual(self.found, self.state())

    def test_a_class_that_a_cpu_got_although_the_write_failed(self):
        """The class stays the agent's: its mask, whose undoing fails too, is restored."""
        allocator, snapshot = self.agent()
        snapshot.protect()
        take, put = self.registers.set_class, self.registers.set_masks

        def after_effect(cpu, number):
            take(cpu, number)
            raise HardwareError("refused")

        def only_once(cache, masks):
            if 0x3 not in masks.values():
                raise HardwareError("refused")
            put(cache, masks)

        with (
            mock.patch.object(self.registers, "set_class", after_effect),
            mock.patch.object(self.registers, "set_masks", only_once),
            self.assertRaises(HardwareError),
        ):
            self.write(allocator, 0)
        self.assertNotEqual(self.found, self.state())
        allocator.domains()
        self.assertEqual((), snapshot.restore().not_done)
        self.assertEqual(self.found, self.state())

    def test_a_later_step_that_fails(self):
        """CPUs that are back in class 0 are not taken again; others wait for the next restore."""
        for gone in ((), (1,)):
            with self.subTest(gone=gone):
                allocator, snapshot = self.agent()
                snapshot.protect()
                self.write(allocator, 0, 1)
                refused = mock.patch.object(
                    self.registers, "set_bandwidth", side_effect=HardwareError("refused")
                )
                self.unplug(*gone)
                with refused:
                    self.assertTrue(snapshot.restore().failed)
                self.assertEqual(0, self.registers.classes[0])
                self.registers.classes[0], self.registers.values[10][5] = 5, 0x70
                self.plug(*gone)
                self.assertEqual((), snapshot.restore().not_done)
                self.assertEqual([5, 0], [self.registers.classes[cpu] for cpu in (0, 1)])
                self.registers.classes[0], self.registers.values[10][5] = 0, 0x7FF
                self.assertEqual(self.found, self.state())

    def test_a_cpu_that_another_program_took_after_an_earlier_restore(self):
        """Only what was written since the last saving is restored."""
        allocator, snapshot = self.agent()
        snapshot.protect()
        self.write(allocator, 0, 1)
        snapshot.restore()
        snapshot.protect()
        self.write(allocator, 2)
        self.registers.classes[1], self.registers.values[10][5] = 5, 0x70
        snapshot.restore()
        self.assertEqual((5, 0x70), (self.registers.classes[1], self.registers.values[10][5]))
