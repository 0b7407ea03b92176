# SPDX-License-Identifier: Apache-2.0
"""Whole ``IRDT`` tables for tests, laid out as the specification's text has it."""

import struct

RMIDS, CLASSES, SHORT, CXL, RMID_ENABLE, CLASS_ENABLE = (1 << bit for bit in range(1, 7))


def device(bdf, *uses, kind=1):
    """Return a DSS; a use is (link, byte of virtual channel 0, byte of 1 ...)."""
    body = b"".join(struct.pack("<B8s7x", link, bytes(virtual)) for link, *virtual in uses)
    return struct.pack("<HHBHx", 0, 8 + len(body), kind, bdf) + body


def link(number, channels, flags, address, rmids=0, classes=0x100, *, kind=0):
    """Return an RCS."""
    return struct.pack(
        "<HHHBB3H18xQ", 1, 40, kind, number, channels, flags, rmids, classes, address
    )


def unit(*entries, segment=0, kind=0):
    """Return an RMUD."""
    body = b"".join(entries)
    return struct.pack("<B3xIH3x", kind, 13 + len(body), segment) + body


def table(*units, io_flags=3, cache_flags=0, signature=b"IRDT"):
    """Return a table with its checksum."""
    body = struct.pack("<2H8x", io_flags, cache_flags) + b"".join(units)
    head = struct.pack("<4sIBB6s8s3I", signature, 36 + len(body), 1, 0, b"TEST", b"TEST", 1, 0, 1)
    return sealed(head + body)


def sealed(data):
    """Return a table with the right length and checksum, if long enough to have any."""
    if len(data) < 36:
        return data
    data = data[:4] + struct.pack("<I", len(data)) + data[8:9] + b"\0" + data[10:]
    return data[:9] + bytes([-sum(data) & 0xFF]) + data[10:]


def server(base=0xFE00_0000):
    """Return a table of two units.

    Unit 0: a card with two ports of 4-byte registers, two drives of 2-byte registers, one of them
    with the enable bit. Unit 1: a bridge, and two devices that share a channel.
    """
    both = RMIDS | CLASSES
    return table(
        unit(
            device(0x3B00, (0, 0x80)),
            device(0x3B01, (0, 0x81)),
            device(0x3C00, (1, 0x80)),
            device(0x3D00, (2, 0x80)),
            link(0, 2, both, base),
            link(1, 1, both | SHORT, base + 0x1000),
            link(2, 1, both | SHORT | RMID_ENABLE | CLASS_ENABLE, base + 0x2000),
        ),
        unit(
            link(0, 4, both | RMID_ENABLE | CLASS_ENABLE, base + 0x3000),
            device(0xAE00, (0, 0x80, 0x83), kind=2),
            device(0xAF00, (0, 0xC1)),
            device(0xAF01, (0, 0xC1)),
        ),
    )
