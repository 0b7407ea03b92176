# SPDX-License-Identifier: Apache-2.0
"""Sockets by the firmware's table, and the cache domains that nobody has seen online yet."""

import unittest

from iat_nova.hardware.kernel.sockets import Sockets, populated
from iat_nova.model import CacheDomain
from tests.unit.hardware import trees


def processor(status, kind=3):
    """A type 4 structure of SMBIOS 2.8 with two strings."""
    body = bytearray(42)
    body[0:2] = 4, 42
    body[5], body[0x18] = kind, status
    return bytes(body) + b"CPU 0\0QEMU\0\0"


BIOS = bytes((0, 24)) + bytes(22) + b"\0\0"  # no strings: two zero bytes all the same
END = bytes((127, 4, 0, 0)) + b"\0\0"
ENABLED, EMPTY, OFF = 0x41, 0x00, 0x42


class SocketsTest(unittest.TestCase):
    def setUp(self):
        self.folder = trees.folder(self)
        self.table = self.folder / "DMI"
        self.cpus = trees.Cpus(self.folder / "cpu", ((0, 1), (2, 3)))
        self.domains = [CacheDomain(0, (0, 1), 11, 8), CacheDomain(1, (2, 3), 11, 8)]

    def write(self, *structures):
        self.table.write_bytes(b"".join(structures))

    def test_sockets_with_a_processor(self):
        """Not those that are empty, or switched off, or hold something else."""
        self.write(BIOS, processor(ENABLED), processor(EMPTY), processor(OFF), processor(0x44), END)
        self.assertEqual(2, populated(self.table))
        self.write(BIOS, processor(ENABLED, kind=4), END, processor(ENABLED))
        self.assertEqual(0, populated(self.table))

    def test_any_bytes(self):
        """A table that is missing, cut or rubbish is none; what it has until there counts."""
        self.assertEqual(0, populated(self.table))
        whole = BIOS + processor(ENABLED) + processor(ENABLED) + END
        for length in range(len(whole)):
            self.write(whole[:length])
            self.assertIn(populated(self.table), (0, 1, 2))
        for rubbish in (b"\4\0\0\0", b"\4\x04\0\0", b"\xff" * 5000, b"\4\xff" * 99):
            self.write(rubbish)
            self.assertEqual(0, populated(self.table))

    def test_a_socket_that_has_been_offline_since_the_start(self):
        """It has as many caches as the other; one that was seen is not counted again."""
        self.write(processor(ENABLED), processor(ENABLED), END)
        for cpu in (2, 3):
            self.cpus.unplug(cpu)
        sockets = Sockets(self.cpus.topology, self.table)
        self.assertEqual(1, sockets.unseen(self.domains[:1]))
        self.cpus.plug(3)
        self.assertEqual(0, sockets.unseen(self.domains))
        self.cpus.unplug(3)
        self.assertEqual(0, sockets.unseen(self.domains))

    def test_several_caches_in_a_socket(self):
        """All of them go with the socket."""
        self.write(processor(ENABLED), processor(ENABLED), END)
        cpus = trees.Cpus(self.folder / "epyc", ((0,), (1,), (2,), (3,)))
        for cpu in (0, 1):  # two caches in the first socket, two in the second
            (cpus.root / f"cpu{cpu}/topology/physical_package_id").write_text("0\n")
            (cpus.root / f"cpu{cpu + 2}/topology/physical_package_id").write_text("1\n")
        for cpu in (2, 3):
            cpus.unplug(cpu)
        domains = [CacheDomain(n, (n,), 16, 16) for n in range(2)]
        self.assertEqual(2, Sockets(cpus.topology, self.table).unseen(domains))

    def test_without_a_table(self):
        """Nothing is assumed."""
        self.assertEqual(0, Sockets(self.cpus.topology, self.table).unseen(self.domains[:1]))
