# SPDX-License-Identifier: Apache-2.0
"""Intel I/O RDT of the lab (--iordt), seen by a pqos that knows I/O RDT (rdt-lab --pqos).

The project takes no part: these tests show that the lab is as libpqos expects hardware to be.
"""

import mmap
import os
import re
import shlex
import subprocess
import tempfile
import unittest

from tests.lab.guest.machine import TOPOLOGY, Registers, unmount
from tests.lab.lab import PROJECT

REGISTERS = Registers()
IO_QOS_CFG = 0xC83
MEMORY, PAGE = 1 << 39, 4096  # where the registers of channels are
# Offset and bytes of the CLOS register of channels, then of their RMID register.
CLOS = {"0x10000": (0x20, 4), "0x10001": (0x24, 4), "0x10100": (0x1110, 2), "0x10101": (0x1112, 2),
        "0x20000": (0x2080, 4), "0x20100": (0x3010, 2)}  # fmt: skip
RMID = {"0x10000": (0x0, 4), "0x10100": (0x1100, 2), "0x10101": (0x1102, 2), "0x20000": (0x2040, 4)}


class Pqos(unittest.TestCase):
    """Device classes are off before each test, and no channel is tagged."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        unmount()
        shown = subprocess.run(
            [PROJECT / "tools/rdt-lab/rdt-lab", "--pqos"],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        cls.command = [*shlex.split(shown.stdout), "--iface=msr"]

    def setUp(self):
        self.assertEqual([(False, False)] * 2, self.switches())
        self.addCleanup(self.clean)

    def clean(self):
        for offset, size in (*CLOS.values(), *RMID.values()):
            REGISTERS.set_channel(offset, size, 0)
        for cpu in TOPOLOGY.online():
            with open(f"/dev/cpu/{cpu}/msr", "r+b", 0) as msr:
                os.pwrite(msr.fileno(), bytes(8), IO_QOS_CFG)

    def pqos(self, *words, status=0):
        """Run pqos; return all that it says."""
        done = subprocess.run(
            [*self.command, *words],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=60,
        )  # fmt: skip
        self.assertEqual(status, done.returncode, done.stdout)
        return done.stdout

    def switches(self):
        """Return L3_IO_QOS_CFG of both cache domains."""
        return [REGISTERS.io_rdt(socket) for socket in range(2)]

    def tags(self):
        """Return the register of each channel's CLOS, by channel, where it is not 0."""
        found = {channel: REGISTERS.channel(*place) for channel, place in CLOS.items()}
        return {channel: value for channel, value in found.items() if value}

    def test_devices(self):
        """Each unit's devices, channels, registers and NUMA node are those of the table."""
        parts = re.findall(
            r"(?ms)^0000:(\S+) .*?NUMA +: (\d).*?Channels +: (.*?) *$.*?Addresses +: (.*?) *$",
            self.pqos("--print-io-devs"),
        )
        found = {
            device: (
                int(node),
                channels.split(),
                [int(place, 16) - MEMORY for place in places.split()],
            )
            for device, node, channels, places in parts
        }
        self.assertEqual(
            {
                "41:00.0": (0, ["0x10000"], [0]),
                "41:00.1": (0, ["0x10001"], [0]),
                "42:00.0": (0, ["0x10100", "0x10101"], [0x1000, 0x1000]),
                "81:00.0": (1, ["0x20000", "0x20100"], [0x2000, 0x3000]),
                "80:01.0": (1, ["0x20000"], [0x2000]),
            },
            found,
        )

    def test_set_by_pqos(self):
        """The switch is on in both domains; a tag has the register's width and enable bit."""
        self.assertIn("unsupported or disabled", self.pqos("-a", "channel:3=0x10001", status=1))
        self.pqos("-R", "l3iordt-on")
        self.assertEqual([(True, False)] * 2, self.switches())
        self.pqos("-a", "channel:3=0x10001;channel:4=0x10101;channel:2=0x20100")
        self.assertEqual({"0x10001": 3, "0x10101": 0x8004, "0x20100": 2}, self.tags())
        shared = self.pqos("-a", "dev:5=0000:80:01.0@0")
        self.assertIn("shared channel 20000", shared)
        self.assertEqual(0x80000005, self.tags()["0x20000"])

    def test_set_by_others(self):
        """Pqos shows tags that came through /dev/mem and from outside the guest."""
        self.pqos("-R", "l3iordt-on")
        with open("/dev/mem", "r+b", 0) as file:
            memory = mmap.mmap(file.fileno(), PAGE, offset=MEMORY)
            memory[0x20:0x24] = (6).to_bytes(4, "little")
            memory.close()
        REGISTERS.set_channel(*CLOS["0x20000"], 0x80000007)
        self.assertEqual({"0x10000": 6, "0x20000": 0x80000007}, self.tags())
        shown = re.findall(r"Device 0000:00(\S+), Channel (\S+) => (\S+)", self.pqos("-s"))
        self.assertEqual(
            [
                ("41:00.0@0", "0x10000", "COS6"),
                ("41:00.1@0", "0x10001", "COS0"),
                ("42:00.0@0", "0x10100", "NOCOS"),  # its enable bit is not set
                ("42:00.0@1", "0x10101", "NOCOS"),
                ("81:00.0@0", "0x20000", "COS7"),
                ("81:00.0@1", "0x20100", "COS0"),
                ("80:01.0@0", "0x20000", "COS7"),
            ],
            shown,
        )

    def test_counted(self):
        """A channel gets an RMID, and its fed occupancy is read."""
        self.pqos("-r", "l3iordt-on", "-d")
        self.assertEqual([(False, True)] * 2, self.switches())
        for channel in "0x10100", "0x10101", "0x20000":  # pqos counts none while one has no RMID
            offset, size = RMID[channel]
            REGISTERS.set_channel(offset, size, 1 << (8 * size - 1) | 9)
        for rmid in range(1, 9):
            REGISTERS.set_rmid(rmid, occupancy=16 * rmid)
            self.addCleanup(REGISTERS.set_rmid, rmid)
        with tempfile.NamedTemporaryFile("r") as file:
            self.pqos("--mon-channel=llc:0x10000", "-t", "1", "-u", "csv", "-o", file.name)
            last = file.read().splitlines()[-1]
        self.assertEqual(['"0x10000"', "1024.0"], last.split(",")[1:])
