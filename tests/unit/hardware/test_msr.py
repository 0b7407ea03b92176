# SPDX-License-Identifier: Apache-2.0
import errno
import os
import unittest

from iat_nova.hardware.api import HardwareError
from iat_nova.hardware.kernel import msr
from tests.said import raises
from tests.unit.hardware import trees
from tests.unit.hardware.registers import FakeMsr


class Registers(unittest.TestCase):
    """Which registers can be reached, and what a refusal says."""

    def setUp(self):
        self.folder = trees.folder(self)

    def test_only_the_listed_ones(self):
        """Whatever is not on the list is refused before the machine is asked."""
        fake = FakeMsr({0: 0})
        for register in (0x10, 0xC1, 0x186, 0x1A0, 0x38F, 0xD10, 0xD90, 0xE00, 0x2000):
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
        fake.absent = {msr.IIO_LLC_WAYS}
        with raises(self, HardwareError, "no such register"):
            fake.read(0, msr.IIO_LLC_WAYS)
