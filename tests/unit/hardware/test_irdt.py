# SPDX-License-Identifier: Apache-2.0
"""The reader of I/O RDT's table: right values, or a refusal with place and cause."""

import struct
import unittest

from hypothesis import given
from hypothesis import strategies as st

from iat_nova.hardware.counters import events
from iat_nova.hardware.ddio import irdt
from iat_nova.hardware.ddio.irdt import Channel, IrdtError
from tests.proofs import proves
from tests.unit.hardware import irdt_tables as tables
from tests.unit.hardware.irdt_tables import (
    CLASS_ENABLE,
    CLASSES,
    CXL,
    RMID_ENABLE,
    RMIDS,
    SHORT,
    device,
    link,
    table,
    unit,
)

BASE = 0xFE00_0000


@proves("I/O RDT: read only", on=(events.GRANITE_RAPIDS.name,))
class Reading(unittest.TestCase):
    """Tables as firmware writes them."""

    def test_a_server(self):
        """Devices with their channels, links with the addresses of their registers."""
        found = irdt.read(tables.server())
        self.assertEqual(
            [
                ("0000:3b:00.0", False, (Channel(0, 0, 0),)),
                ("0000:3b:00.1", False, (Channel(0, 0, 1),)),
                ("0000:3c:00.0", False, (Channel(0, 1, 0),)),
                ("0000:3d:00.0", False, (Channel(0, 2, 0),)),
                ("0000:ae:00.0", True, (Channel(1, 0, 0), Channel(1, 0, 3))),
                ("0000:af:00.0", False, (Channel(1, 0, 1),)),
                ("0000:af:00.1", False, (Channel(1, 0, 1),)),
            ],
            [(one.address, one.hierarchy, one.channels) for one in found.devices],
        )
        card, drive, other, shared = found.links
        self.assertEqual((2, 4, BASE + 0x100, BASE), (card.channels, card.register_bytes,
                         card.class_address, card.rmid_address))  # fmt: skip
        self.assertEqual((2, False, False), (drive.register_bytes, drive.class_enable,
                         drive.rmid_enable))  # fmt: skip
        self.assertEqual((2, True, True), (other.register_bytes, other.class_enable,
                         other.rmid_enable))  # fmt: skip
        self.assertEqual((1, 0, 4, 4), (shared.unit, shared.id, shared.channels,
                         shared.register_bytes))  # fmt: skip
        self.assertEqual(8, len(found.channels))

    def test_devices_that_share_a_channel(self):
        """They are one port, through other devices too; each other device is a port."""
        names = [[one.address for one in port] for port in irdt.read(tables.server()).ports()]
        pair = ["0000:af:00.0", "0000:af:00.1"]
        single = ["0000:3b:00.0", "0000:3b:00.1", "0000:3c:00.0", "0000:3d:00.0", "0000:ae:00.0"]
        self.assertEqual([*([one] for one in single), pair], names)
        chain = table(
            unit(
                link(0, 3, CLASSES, BASE),
                device(1, (0, 0x80)),
                device(2, (0, 0x82)),
                device(3, (0, 0xC0, 0xC1)),
                device(4, (0, 0xC1, 0xC2)),
            )
        )
        ports = irdt.read(chain).ports()
        self.assertEqual([[f"0000:00:00.{n}" for n in (1, 2, 3, 4)]],
                         [[one.address for one in port] for port in ports])  # fmt: skip

    def test_segments_and_kinds_of_links(self):
        """The segment is the unit's; CXL links and links without tags are told."""
        found = irdt.read(
            table(
                unit(link(7, 8, CLASSES, BASE, kind=1), link(9, 1, 0, 0), segment=0x10),
                unit(device(0xFFFF), segment=0xABCD),
                io_flags=0,
                cache_flags=2,
            )
        )
        links = [(one.id, one.rmid_address) for one in found.links]
        self.assertEqual([(7, None), (9, None)], links)
        self.assertEqual("abcd:ff:1f.7", found.devices[0].address)

    def test_enable_bits_that_two_texts_number_differently(self):
        """Flags that mean something else in the older text leave the enable bits unknown."""
        for flags, classes, rmids in (
            (0, False, False),
            (CXL, False, None),
            (RMID_ENABLE, None, None),
            (CXL | RMID_ENABLE, None, None),
            (CLASS_ENABLE, True, False),
            (CLASS_ENABLE | RMID_ENABLE, True, True),
            (CLASS_ENABLE | CXL, True, False),
        ):
            with self.subTest(flags=flags):
                data = table(unit(link(0, 1, RMIDS | CLASSES | flags, BASE)))
                (found,) = irdt.read(data).links
                self.assertEqual((classes, rmids), (found.class_enable, found.rmid_enable))


@proves("I/O RDT: read only", on=(events.GRANITE_RAPIDS.name,))
class Refusals(unittest.TestCase):
    """Each malformed table by the offset and the code of its refusal."""

    def check(self, code, offset, data):
        with self.assertRaises(IrdtError) as caught:
            irdt.read(data)
        state = caught.exception.state
        self.assertEqual((code, offset), (state.values["what"].code, state.values["offset"]))
        self.assertEqual("update-firmware", caught.exception.remedy.code)

    def test_the_whole_table(self):
        """Another table, wrong lengths and sums."""
        whole = tables.server()
        self.check("irdt-length", 0, b"")
        self.check("irdt-length", 0, whole[:47])
        self.check("irdt-length", 0, whole + bytes(irdt.MOST_BYTES))
        self.check("irdt-length", 4, whole[:-1])
        self.check("irdt-length", 4, whole + b"\0")
        self.check("irdt-checksum", 9, whole[:-1] + bytes([whole[-1] ^ 1]))
        self.check("irdt-other-table", 0, table(signature=b"DMAR"))

    def test_lengths_of_structures(self):
        """No structure is shorter than its form, beyond its parent, or without an end."""
        for length in (0, 12, 14, 1 << 31):
            with self.subTest(length=length):
                one = struct.pack("<B3xIH3x", 0, length, 0)
                self.check("irdt-length", 48, table(one))
        self.check("irdt-length", 48, table(b"\0" * 12))
        for kind, length in ((0, 0), (0, 7), (0, 9), (1, 0), (1, 39), (1, 41), (1, 0xFFFF)):
            with self.subTest(kind=kind, length=length):
                self.check("irdt-length", 61, table(unit(struct.pack("<2H4x", kind, length))))
        self.check("irdt-length", 61, table(unit(b"\1\0\1")))
        odd = struct.pack("<HHBH2x", 0, 9, 1, 0)
        self.check("irdt-uses", 61, table(unit(odd)))

    def test_types(self):
        """A type that the reader does not know may be that of a device: nothing is skipped."""
        self.check("irdt-type", 48, table(unit(kind=1)))
        self.check("irdt-type", 61, table(unit(struct.pack("<2H", 2, 4))))
        self.check("irdt-device-type", 61, table(unit(device(0, kind=3))))
        self.check("irdt-link-type", 61, table(unit(link(0, 1, 0, BASE, kind=2))))

    def test_links_and_channels(self):
        """What a device names is there, once."""
        self.check("irdt-link-absent", 69, table(unit(device(0, (0, 0x80)))))
        both = (link(0, 2, CLASSES, BASE), link(0, 2, CLASSES, BASE + 0x1000))
        self.check("irdt-link-twice", 101, table(unit(*both)))
        self.check("irdt-device-twice", 69, table(unit(device(5), device(5))))
        self.check("irdt-channel-absent", 109, table(unit(both[0], device(5, (0, 0x82)))))
        for count in (0, 9):
            self.check("irdt-channels", 61, table(unit(link(0, count, 0, 0))))

    def test_registers(self):
        """Addresses exist and are aligned; no two registers are one."""
        for address, offset in (
            (0, 0),
            (0, 0x100),
            (BASE, 0x102),
            ((1 << 52) - 4, 0),
            (1 << 63, 0),
        ):
            with self.subTest(address=address):
                one = link(0, 2, CLASSES, address, classes=offset)
                self.check("irdt-address", 61, table(unit(one)))
        one = link(0, 2, CLASSES | RMIDS, BASE, rmids=0x100, classes=0x104)
        self.check("irdt-registers-overlap", 0, table(unit(one)))
        one, two = (link(n, 2, CLASSES | SHORT, BASE + 2 * n) for n in (0, 1))
        self.check("irdt-registers-overlap", 0, table(unit(one), unit(two)))
        two = link(1, 2, CLASSES | SHORT, BASE + 4)
        irdt.read(table(unit(one), unit(two)))


ENTRIES = st.one_of(
    st.builds(
        device,
        st.integers(0, 0xFFFF),
        st.tuples(st.integers(0, 3), st.integers(0, 255), st.integers(0, 255)),
        kind=st.integers(0, 3),
    ),
    st.builds(
        link,
        st.integers(0, 3),
        st.integers(0, 9),
        st.integers(0, 0xFFFF),
        st.integers(0, (1 << 64) - 1),
        st.integers(0, 0xFFFF),
        st.integers(0, 0xFFFF),
        kind=st.integers(0, 2),
    ),
    st.binary(max_size=50),
)
UNITS = st.lists(st.lists(ENTRIES, max_size=6).map(lambda entries: unit(*entries)), max_size=4)


class AnyBytes(unittest.TestCase):
    """Whatever firmware hands out is read, or refused with the reader's own error."""

    def read(self, data):
        try:
            found = irdt.read(data)
        except IrdtError as error:
            self.assertTrue(0 <= error.state.values["offset"] <= len(data))
            return
        channels = set(found.channels)
        for one in found.devices:
            self.assertLessEqual(set(one.channels), channels)
        ports = found.ports()
        self.assertEqual(len(found.devices), sum(map(len, ports)))
        for n, port in enumerate(ports):
            mine = {channel for one in port for channel in one.channels}
            others = {c for other in ports[n + 1 :] for one in other for c in one.channels}
            self.assertEqual(set(), mine & others)

    @given(st.binary(max_size=200))
    def test_bytes(self, data):
        """Raw bytes."""
        self.read(data)

    @given(st.binary(max_size=200))
    def test_bodies(self, body):
        """Any body behind a right header."""
        self.read(table(body))

    @given(UNITS)
    def test_structures(self, units):
        """Structures with any values."""
        self.read(table(*units))

    @given(
        st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), max_size=4),
        st.integers(0, 8),
        st.booleans(),
    )
    def test_mutations(self, changes, cut, right_sum):
        """A valid table with some bytes changed and some cut off."""
        data = bytearray(tables.server())
        for at, value in changes:
            data[at % len(data)] = value
        data = bytes(data[: len(data) - cut])
        self.read(tables.sealed(data) if right_sum else data)
