# SPDX-License-Identifier: Apache-2.0
"""Registers in physical memory, in a file in the place of /dev/mem."""

import errno
import mmap
import unittest
from unittest import mock

from iat_nova.hardware.api import HardwareError
from iat_nova.hardware.kernel.physical_memory import PhysicalMemory
from tests.unit.hardware import trees

BASE = 8 * mmap.ALLOCATIONGRANULARITY


class Memory(unittest.TestCase):
    def setUp(self):
        self.path = trees.folder(self) / "mem"
        self.path.write_bytes(bytes(BASE + 64))
        self.memory = PhysicalMemory(self.path)

    def check_refused(self, code, remedy, call):
        with self.assertRaises(HardwareError) as caught:
            call()
        found = caught.exception
        self.assertEqual((code, remedy), (found.state.code, found.remedy and found.remedy.code))

    def test_registers(self):
        """Registers of either width are written alone, and read side by side."""
        self.memory.store(BASE + 4, 4, 0x8000_0003)
        self.memory.store(BASE + 10, 2, 0x8001)
        self.memory.store(BASE - 2, 2, 7)
        self.assertEqual((0, 0x8000_0003, 0x8001_0000), self.memory.load(BASE, 4, 3))
        self.assertEqual((7,), self.memory.load(BASE - 2, 2))
        left = self.path.read_bytes()
        self.assertEqual(5, sum(byte != 0 for byte in left))

    def test_refused(self):
        """A missing file, a missing right and refused memory have a remedy each."""
        self.check_refused("memory-refused", "see-iomem", lambda: self.memory.load(1 << 40, 4))
        self.check_refused("memory-refused", "see-iomem", lambda: self.memory.store(1 << 40, 4, 0))
        for code in (errno.EPERM, errno.EACCES):
            refused = mock.patch("os.open", side_effect=PermissionError(code, "no"))
            with refused:
                self.check_refused(
                    "file-unusable", "give-memory-right", lambda: self.memory.load(BASE, 4)
                )
        self.path.unlink()
        self.check_refused("file-unusable", "kernel-without-memory", lambda: self.memory.load(0, 2))

    def test_a_kernel_that_hands_out_ram(self):
        """The first byte above the legacy area can be mapped there: nothing may be written."""
        self.memory.check()
        with self.path.open("r+b") as file:
            file.truncate((1 << 20) + 2)
        self.check_refused("memory-unprotected", "use-kernel-with-strict-devmem", self.memory.check)
