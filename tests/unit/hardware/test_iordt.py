# SPDX-License-Identifier: Apache-2.0
"""I/O RDT: the tags of channels, and what doctor shows of a host."""

import errno
import os
import unittest

from iat_nova.hardware.api import HardwareError
from iat_nova.hardware.counters import events
from iat_nova.hardware.ddio import irdt
from iat_nova.hardware.ddio.iordt_registers import Tag, TagRegisters
from iat_nova.hardware.ddio.irdt import Channel
from iat_nova.hardware.host import probe
from iat_nova.hardware.host.probe import Level
from iat_nova.model import message
from tests.proofs import proves
from tests.unit.hardware import irdt_tables as tables
from tests.unit.hardware import test_probe, trees
from tests.unit.hardware.registers import FakeMemory

BASE = 0xFE00_0000


@proves("I/O RDT: read only", on=(events.GRANITE_RAPIDS.name,))
class Tags(unittest.TestCase):
    """The registers of the server in `irdt_tables`."""

    def setUp(self):
        self.table = irdt.read(tables.server(BASE))
        self.memory = FakeMemory(self.table)
        self.registers = TagRegisters(self.table, self.memory)

    def check_refused(self, code, call):
        with self.assertRaises(HardwareError) as caught:
            call()
        self.assertEqual(code, caught.exception.state.code)

    def test_addresses(self):
        """Each channel has registers of its own, at the addresses of the table."""
        channels = self.registers.channels(Tag.CLASS)
        self.assertEqual(self.table.channels, channels)
        for n, channel in enumerate(channels):
            for offset, tag in enumerate(Tag):
                self.registers.write(channel, tag, 2 * n + offset + 1)
        self.assertEqual(len(set(self.memory.values)), len(set(self.memory.values.values())))
        self.assertEqual([1, 3, 5, 7, 9, 11, 13, 15], list(self.registers.read(Tag.CLASS).values()))
        self.assertEqual([2, 4, 6, 8, 10, 12, 14, 16], list(self.registers.read(Tag.RMID).values()))
        self.assertEqual(3, self.memory.values[BASE + 0x104])
        self.assertEqual(8, self.memory.values[BASE + 0x2000])

    def test_enable_bits(self):
        """The top bit enables a tag where the link says so."""
        plain, short, top = Channel(0, 0, 1), Channel(0, 1, 0), Channel(0, 2, 0)
        wide = Channel(1, 0, 3)
        for channel, value in ((plain, 5), (short, 5), (top, 0x8005), (wide, 0x8000_0005)):
            with self.subTest(channel=channel):
                self.assertEqual(value, self.registers.tagged(channel, Tag.CLASS, 5))
        self.assertEqual(0x8000, self.registers.tagged(top, Tag.RMID, 0))

    def test_refused(self):
        """Numbers that do not fit, channels that are not there, registers that do not keep."""
        short = Channel(0, 1, 0)
        for number in (-1, 1 << 15):
            self.check_refused(
                "iordt-number", lambda n=number: self.registers.tagged(short, Tag.CLASS, n)
            )
        for channel in (Channel(0, 0, 2), Channel(0, 3, 0), Channel(2, 0, 0)):
            self.check_refused(
                "iordt-channel-absent", lambda c=channel: self.registers.write(c, Tag.CLASS, 0)
            )
        self.memory.stuck.add(BASE + 0x1100)
        self.check_refused(
            "iordt-register-differs", lambda: self.registers.write(short, Tag.CLASS, 1)
        )

    def test_unknown_flags(self):
        """A link without class tags has none; one whose enable bit is unknown is never tagged."""
        table = irdt.read(
            tables.table(
                tables.unit(
                    tables.link(0, 1, tables.RMIDS, BASE),
                    tables.link(1, 1, tables.CLASSES | tables.RMID_ENABLE, BASE + 0x1000),
                )
            )
        )
        registers = TagRegisters(table, FakeMemory(table))
        without, unknown = table.channels
        self.assertEqual((unknown,), registers.channels(Tag.CLASS))
        self.check_refused("iordt-register-absent", lambda: registers.write(without, Tag.CLASS, 0))
        self.check_refused("iordt-enable-unknown", lambda: registers.tagged(unknown, Tag.CLASS, 1))


@proves("I/O RDT: read only", on=(events.GRANITE_RAPIDS.name,))
class Doctor(test_probe.HostCase):
    """The finding of a host with the server's table."""

    def setUp(self):
        super().setUp()
        self.put_table(tables.server())
        trees.put_cpuid(self.roots.msr, 0, io_rdt=True)
        self.memory = FakeMemory(irdt.read(tables.server()))

    def put_table(self, data):
        self.roots.irdt.write_bytes(data)

    def finding(self):
        host = self.host()
        host.memory = self.memory
        (found,) = (one for one in probe.findings(host) if one.subject == "I/O RDT")
        return found

    def check_missing(self, code, remedy=None):
        found = self.finding()
        self.assertEqual((Level.MISSING, code), (found.level, found.state.code))
        self.assertEqual(remedy, found.remedy and found.remedy.code)

    def test_present(self):
        """Devices, ports and channels are told, and where classes of devices are on."""
        self.msr.set(2, 0xC83, 1)
        found = self.finding()
        expected = message(
            "iordt-present", devices=7, ports=6, channels=8, classes=8, rmids=8, on=("1",)
        )
        self.assertEqual((Level.OK, expected), (found.level, found.state))
        self.assertEqual(([], []), (self.memory.writes, self.msr.writes))

    def test_absent(self):
        """Without the table no driver is asked for; the table alone is not the feature."""
        trees.put_cpuid(self.roots.msr, 0)
        self.check_missing("iordt-not-in-cpu")
        (self.roots.msr / "0/cpuid").unlink()
        self.check_missing("file-unusable", "load-module")
        self.roots.irdt.unlink()
        self.assertNotIn("I/O RDT", self.findings())  # Skylake never has it
        self.be("granite rapids")
        self.check_missing("iordt-no-table")
        self.be("amd")
        self.assertNotIn("I/O RDT", self.findings())

    def test_malformed(self):
        """Place and cause are told, also of a table that is too long to be one."""
        self.put_table(tables.server()[:-1])
        self.check_missing("irdt-malformed", "update-firmware")
        self.put_table(tables.server() + bytes(irdt.MOST_BYTES))
        self.check_missing("irdt-malformed", "update-firmware")
        self.assertEqual("irdt-length", self.finding().state.values["what"].code)

    def test_refused(self):
        """A register, or memory that refuses, is told with its remedy."""
        self.memory.refuse = HardwareError(
            message("file-unusable", path="/dev/mem", reason=os.strerror(errno.EPERM)),
            message("give-memory-right"),
        )
        self.check_missing("file-unusable", "give-memory-right")
        self.memory.refuse, self.memory.shows_ram = None, True
        self.check_missing("verbatim")
        self.msr.off = {2}
        self.check_missing("register-unread", "cpu-online-or-load-msr")
