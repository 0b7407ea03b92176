# SPDX-License-Identifier: Apache-2.0
"""The lab's encoder of the ACPI table IRDT, against the table written by hand."""

import runpy
import unittest
from pathlib import Path

from iat_nova.hardware.ddio import irdt

ENCODER = runpy.run_path(
    str(Path(__file__).resolve().parents[2] / "tools/rdt-lab/irdt.py"), run_name="irdt"
)

# By the text of the specification, without the encoder. The checksum, byte 9, is left 0.
BY_HAND = bytes.fromhex(
    """
    49524454 72010000 01 00 5244544c4142 5244544c41422020 01000000 524c4142 01000000
    0300 0200 0000000000000000

    00 000000 a5000000 0000 000000
    0000 1800 01 0041 00  00 8000000000000000 00000000000000
    0000 1800 01 0141 00  00 8100000000000000 00000000000000
    0000 1800 01 0042 00  01 8081000000000000 00000000000000
    0100 2800 0000 00 02 0600 0000 2000
        000000000000000000000000000000000000 0000000080000000
    0100 2800 0000 01 02 6e00 0001 1001
        000000000000000000000000000000000000 0010000080000000

    00 000000 9d000000 0000 000000
    0000 2800 01 0081 00  00 c000000000000000 00000000000000  01 8000000000000000 00000000000000
    0000 1800 02 0880 00  00 c000000000000000 00000000000000
    0100 2800 0000 00 01 6600 4000 8000
        000000000000000000000000000000000000 0020000080000000
    0100 2800 0100 01 01 1c00 0000 1000
        000000000000000000000000000000000000 0030000080000000
"""
)


class Irdt(unittest.TestCase):
    """The bytes of the lab's table."""

    def test_by_hand(self):
        """Every byte but the checksum is the one written by hand; all bytes sum up to 0."""
        table = ENCODER["table"](ENCODER["UNITS"])
        self.assertEqual(BY_HAND.hex(" ", 8), (table[:9] + b"\0" + table[10:]).hex(" ", 8))
        self.assertEqual(0, sum(table) % 256)

    def test_read(self):
        """The project's reader finds devices, channels and enable bits in the encoder's table."""
        found = irdt.read(ENCODER["table"](ENCODER["UNITS"]))
        self.assertEqual(
            [
                ("0000:41:00.0", ["0.0.0"]),
                ("0000:41:00.1", ["0.0.1"]),
                ("0000:42:00.0", ["0.1.0", "0.1.1"]),
                ("0000:81:00.0", ["1.0.0", "1.1.0"]),
                ("0000:80:01.0", ["1.0.0"]),
            ],
            [(device.address, [*map(str, device.channels)]) for device in found.devices],
        )
        self.assertEqual(
            [(4, False), (2, True), (4, True), (2, False)],
            [(link.register_bytes, link.class_enable) for link in found.links],
        )

    def test_registers_fit(self):
        """The registers of all links lie in the lab's memory, and none lies in another."""
        used = set()
        for unit in ENCODER["UNITS"]:
            for link in unit.links:
                width = 2 if link.flags & ENCODER["TWO_BYTES"] else 4
                kinds = (ENCODER["RMIDS"], link.rmid_offset), (ENCODER["CLOSES"], link.clos_offset)
                for flag, offset in kinds:
                    if link.flags & flag:
                        begin = link.address - ENCODER["ADDRESS"] + offset
                        register = set(range(begin, begin + link.channels * width))
                        self.assertFalse(used & register)
                        self.assertLessEqual(max(register), ENCODER["SIZE"] - 1)
                        used |= register
