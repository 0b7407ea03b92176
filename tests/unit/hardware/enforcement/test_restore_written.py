# SPDX-License-Identifier: Apache-2.0
"""An agent restores what it wrote; what it never wrote is left to whoever changes it."""

import contextlib
import errno
import unittest
from unittest import mock

from iat_nova.hardware.api import DEFAULT_CLASS, ClassMask, HardwareError
from iat_nova.hardware.cat.resctrl import Resctrl
from iat_nova.hardware.ddio.ways import IoAllocDdio
from iat_nova.hardware.enforcement.snapshot import Snapshot
from iat_nova.model import WayMask
from tests.unit.hardware import trees
from tests.unit.hardware.enforcement.test_restore import MachineCase
from tests.unit.hardware.registers import FakeMsr
from tests.unit.hardware.test_ddio import AmdTree

DDIO = 0xC8B


class Written(MachineCase):
    """An agent writes to one socket; an operator changes settings of the other meanwhile."""

    def setUp(self):
        super().setUp()
        self.tree.add_monitor("theirs", "0")
        self.found = self.tree.state()
        self.agent = self.owned()

    def write(self, owned, domain=0):
        first = 2 * domain
        classes = (
            ClassMask("a", (first + 1,), WayMask(0x3)),
            ClassMask(DEFAULT_CLASS, (first,), WayMask(0x1F)),
        )
        owned.machine.allocator.apply(domain, classes)
        owned.machine.ddio.write(domain, WayMask(0x700))

    def change(self):
        """Change a mask and DDIO of the second socket, and what is monitored, as an operator."""
        self.tree.write("schemata", "L3:1=ff\n")
        self.msr.set(2, DDIO, 0x7C0)
        self.tree.write("mon_groups/theirs/cpus_list", "")

    def settings_now(self):
        masks = self.tree.masks("", "L3")
        ddio = tuple(self.msr.get(cpu, DDIO) for cpu in (0, 2))
        return masks[0], masks[1], ddio, self.tree.monitored("theirs")

    def test_settings_that_the_agent_never_wrote(self):
        """The end restores the written socket, and reads that back; the change stays."""
        with self.agent.held():
            self.agent.snapshot.protect()
            self.write(self.agent)
            self.change()
        self.assertEqual((0x7FF, 0xFF, (0x600, 0x7C0), set()), self.settings_now())
        self.assertEqual((), self.tree.groups())
        self.assertFalse(self.settings().snapshot_path.exists())

    def test_settings_written_and_changed_since(self):
        """They are restored, also over that change: the agent has left nothing there."""
        with self.agent.held():
            self.agent.snapshot.protect()
            self.write(self.agent)
            self.write(self.agent, 1)
            self.change()
        self.assertEqual((0x7FF, 0x7FF, (0x600, 0x600), set()), self.settings_now())

    def test_writes_that_fail_after_their_effect(self):
        """They count as written: of masks, and of DDIO's ways."""
        agent = self.owned()
        machine = agent.machine
        default = (ClassMask(DEFAULT_CLASS, (0,), WayMask(0x1F)),)
        for write in (
            lambda: machine.allocator.apply(0, default),
            lambda: machine.ddio.write(0, WayMask(0x700)),
        ):
            agent.snapshot.protect()
            registers = dict(self.msr.values)
            with self.failing_afterwards(), self.assertRaises(HardwareError):
                write()
            self.assertNotEqual((self.found, registers), (self.tree.state(), self.msr.values))
            self.assertEqual((), agent.snapshot.restore().not_done)
            found = {place: self.before(place) for place in self.msr.values}
            self.assertEqual((self.found, found), (self.tree.state(), self.msr.values))

    def before(self, place):
        """Return the value of a register that nobody has written."""
        (kind, number), register = place
        cpu = 2 * number if kind == "package" else number
        return FakeMsr(self.msr.cpus).get(cpu, register)

    @contextlib.contextmanager
    def failing_afterwards(self):
        """Have each write take effect and then be refused."""

        def refused(write):
            def write_and_refuse(*arguments):
                write(*arguments)
                raise OSError(errno.EIO, "refused")

            return write_and_refuse

        with (
            mock.patch.object(self.tree, "write", refused(self.tree.write)),
            mock.patch.object(self.msr, "pwrite", refused(self.msr.pwrite)),
        ):
            yield

    def test_only_monitoring_that_the_agent_took(self):
        """A group gets CPUs back where the agent took one of them."""
        with self.agent.held():
            self.agent.snapshot.protect()
            self.agent.machine.allocator.apply(0, (ClassMask("a", (0,), WayMask(0x3)),))
        self.assertEqual({0}, self.tree.monitored("theirs"))

    def test_a_restore_that_is_repeated(self):
        """A refused write is restored later, and nothing else."""
        self.agent.snapshot.protect()
        self.write(self.agent)
        self.change()
        self.msr.refuse = errno.EIO
        self.assertTrue(self.agent.snapshot.restore().failed)
        self.msr.refuse = None
        self.assertEqual((), self.agent.snapshot.restore().not_done)
        self.assertEqual((0x600, 0x7C0), self.settings_now()[2])

    def test_after_a_crash(self):
        """The next process does not know what was written: it restores all that was saved."""
        self.agent.snapshot.protect()
        self.write(self.agent)
        self.change()
        self.assertEqual(0, self.run_it("restore")[0])
        self.assertEqual((0x7FF, 0x7FF, (0x600, 0x600), {0}), self.settings_now())

    def test_after_an_adoption(self):
        """So does the next agent that continues with the settings of the last."""
        self.agent.snapshot.protect()
        self.write(self.agent)
        later = self.owned()
        later.snapshot.adopt()
        later.machine.allocator.adopt(self.agent.machine.allocator.memory)
        later.snapshot.extend()
        later.snapshot.restore()
        self.assertEqual(self.found, self.tree.state())
        self.assertEqual((0x600, 0x600), self.settings_now()[2])

    def test_what_an_earlier_agent_left_out_of_reach(self):
        """It is restored by an agent that itself never writes there."""
        self.agent.snapshot.protect()
        self.write(self.agent, 1)
        for cpu in (2, 3):
            self.tree.unplug(cpu)
        self.assertTrue(self.agent.snapshot.restore().left)
        later = self.owned()
        later.snapshot.protect()
        self.write(later)
        for cpu in (2, 3):
            self.tree.plug(cpu)
        self.assertEqual(0x700, self.msr.get(2, DDIO))
        self.assertEqual((), later.snapshot.restore().not_done)
        self.assertEqual((0x600, 0x600), self.settings_now()[2])


class WrittenIoAlloc(unittest.TestCase):
    """AMD's masks of devices."""

    def setUp(self):
        folder = trees.folder(self)
        cpus = trees.Cpus(folder / "cpu", packages=((0, 1), (2, 3)))
        self.tree = AmdTree(folder / "resctrl", cpus)
        self.tree.write("info/L3/io_alloc", "1")
        self.ddio = IoAllocDdio(self.tree, Resctrl(self.tree, cpus.topology).domains)
        (folder / "boot").write_text("this\n")
        self.snapshot = Snapshot(
            {"ddio io_alloc": self.ddio},
            snapshot=folder / "state/snapshot.json",
            lock=folder / "lock",
            boot_id=folder / "boot",
            bootloader=folder / "bootloader",
        )
        self.snapshot.protect()

    def masks(self):
        return tuple(self.tree._masks.values())

    def test_masks_that_were_never_written(self):
        """The written mask is restored; an operator's change of the other stays."""
        self.ddio.write(0, WayMask(0xF000))
        self.tree.write("info/L3/io_alloc_cbm", "1=c000")
        self.snapshot.restore()
        self.assertEqual((0xFFFF, 0xC000), self.masks())

    def test_a_write_that_fails_after_its_effect(self):
        """It counts as written, also where it enabled io_alloc."""
        write = self.tree.write

        def write_and_refuse(name, text):
            write(name, text)
            raise OSError(errno.EIO, "refused")

        self.snapshot.restore()
        self.tree.write("info/L3/io_alloc_cbm", "1=c000")
        for disabled in (False, True):
            self.snapshot.protect()
            if disabled:
                self.tree.write("info/L3/io_alloc", "0")
            with (
                mock.patch.object(self.tree, "write", write_and_refuse),
                self.assertRaises(HardwareError),
            ):
                self.ddio.write(0, WayMask(0xF000))
            self.assertEqual("enabled", self.ddio.state())
            self.assertNotEqual((0xFFFF, 0xC000), self.masks())
            self.assertEqual((), self.snapshot.restore().not_done)
            self.assertEqual((0xFFFF, 0xC000), self.masks())

    def test_nothing_written(self):
        """An operator's switch of io_alloc stays."""
        self.tree.write("info/L3/io_alloc", "0")
        self.snapshot.restore()
        self.assertEqual("disabled", self.ddio.state())

    def test_enabled_again(self):
        """The kernel then resets all masks, so all are restored."""
        self.snapshot.restore()
        self.tree.write("info/L3/io_alloc_cbm", "1=c000")
        self.snapshot.protect()
        self.ddio.write(0, WayMask(0xF000))
        self.tree.write("info/L3/io_alloc", "0")
        self.snapshot.restore()
        self.assertEqual((0xFFFF, 0xC000), self.masks())

    def test_enabled_by_the_agent_after_another_program(self):
        """The agent's enabling reset the other mask too, so all are restored."""
        self.tree.write("info/L3/io_alloc_cbm", "1=c000")
        self.snapshot.restore()
        self.snapshot.protect()
        self.tree.write("info/L3/io_alloc", "0")
        self.ddio.write(0, WayMask(0xF000))
        self.snapshot.restore()
        self.assertEqual((0xFFFF, 0xC000), self.masks())
