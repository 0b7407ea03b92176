# SPDX-License-Identifier: Apache-2.0
"""Encode the ACPI table IRDT, which names devices, channels and registers of Intel I/O RDT.

Source: Intel RDT Architecture Specification (356688), chapter on I/O RDT ACPI enumeration. All
fields are little-endian and packed; reserved fields are 0. The lab hands the table to the emulator.
This module imports nothing of the project: readers of the project are tested against the table.
"""

import dataclasses
import struct

PCIE, CXL = 0, 1  # types of a link
ENDPOINT, BRIDGE = 1, 2  # types of a device: a PCI endpoint, a bridge and all devices below it
VALID, SHARED = 0x80, 0x40  # of a byte of a channel map: used, shared with another device
# Flags of a link.
RMIDS, CLOSES = 1 << 1, 1 << 2  # channels take an RMID, a CLOS
TWO_BYTES = 1 << 3  # registers of 2 bytes, not of 4
SEVERAL_CXL = 1 << 4  # several CXL devices behind the link
RMID_ENABLE, CLOS_ENABLE = 1 << 5, 1 << 6  # the top bit of a register is its enable bit
MONITORING, CONTROL = 1, 2  # protocol flags: some link of the platform takes RMIDs, CLOSes
_UNIT, _DEVICE, _LINK = 0, 0, 1  # types of structures
_CHANNELS = 8  # of a link at most


@dataclasses.dataclass(frozen=True)
class Link:
    """An RCS: a link, its channels and where their registers are. `number` is of the unit.

    `rmid_offset` and `clos_offset` are bytes from `address`, a physical address.
    """

    number: int
    channels: int
    flags: int
    address: int
    rmid_offset: int = 0
    clos_offset: int = 0
    kind: int = PCIE

    def encode(self):
        """Return the structure."""
        body = struct.pack(
            "<HBBHHH18xQ", self.kind, self.number, self.channels, self.flags,
            self.rmid_offset, self.clos_offset, self.address,
        )  # fmt: skip
        return _structure(_LINK, body)


@dataclasses.dataclass(frozen=True)
class Device:
    """A DSS: a device, and its channels on each link.

    `maps`: for each link its number and the channels of virtual channels 0, 1 ..., with flags
    (`VALID`, `SHARED`).
    """

    bus: int
    slot: int
    function: int
    maps: tuple[tuple[int, tuple[int, ...]], ...]
    kind: int = ENDPOINT

    def encode(self):
        """Return the structure."""
        address = self.bus << 8 | self.slot << 3 | self.function
        body = struct.pack("<BHx", self.kind, address)
        for link, channels in self.maps:
            body += struct.pack("<B8s7x", link, bytes(channels))
        return _structure(_DEVICE, body)


@dataclasses.dataclass(frozen=True)
class Unit:
    """An RMUD: devices and links of a PCI segment."""

    devices: tuple[Device, ...]
    links: tuple[Link, ...]
    segment: int = 0

    def encode(self):
        """Return the structure."""
        body = b"".join(part.encode() for part in (*self.devices, *self.links))
        head = struct.pack("<B3xIH3x", _UNIT, 13 + len(body), self.segment)
        return head + body


def table(units):
    """Return the whole table of these units, with its checksum."""
    body = struct.pack("<HH8x", _protocols(units, PCIE), _protocols(units, CXL))
    body += b"".join(unit.encode() for unit in units)
    head = struct.pack(
        "<4sIBB6s8sI4sI", b"IRDT", 36 + len(body), 1, 0, b"RDTLAB", b"RDTLAB  ", 1, b"RLAB", 1
    )
    whole = bytearray(head + body)
    whole[9] = -sum(whole) & 0xFF
    return bytes(whole)


def _protocols(units, kind):
    flags = 0
    for link in (link for unit in units for link in unit.links if link.kind == kind):
        flags |= (MONITORING if link.flags & RMIDS else 0) | (CONTROL if link.flags & CLOSES else 0)
    return flags


def _structure(kind, body):
    return struct.pack("<HH", kind, 4 + len(body)) + body


# The lab's machine. Each unit has a PCI root of its own, whose root ports are on the buses BUSES;
# the firmware gives the buses after that to the root ports, in the order of their slots.
ADDRESS = 1 << 39  # of the registers: no RAM, no window of PCI
SIZE = 4 * 4096  # bytes
BUSES = 0x40, 0x80

NIC = tuple(Device(BUSES[0] + 1, 0, function, ((0, (VALID | function,)),)) for function in range(2))
FIRST_DRIVE = Device(BUSES[0] + 2, 0, 0, ((1, (VALID | 0, VALID | 1)),))
# On a CXL link too; its PCIe channel is that of the bridge.
SECOND_DRIVE = Device(BUSES[1] + 1, 0, 0, ((0, (VALID | SHARED | 0,)), (1, (VALID | 0,))))
PORT_OF_TWO = Device(BUSES[1], 1, 0, ((0, (VALID | SHARED | 0,)),), BRIDGE)

UNITS = (
    Unit(
        (*NIC, FIRST_DRIVE),
        (
            Link(0, 2, RMIDS | CLOSES, ADDRESS, 0x0, 0x20),
            Link(
                1, 2, RMIDS | CLOSES | TWO_BYTES | RMID_ENABLE | CLOS_ENABLE, ADDRESS + 0x1000,
                0x100, 0x110,
            ),
        ),
    ),
    Unit(
        (SECOND_DRIVE, PORT_OF_TWO),
        (
            Link(0, 1, RMIDS | CLOSES | RMID_ENABLE | CLOS_ENABLE, ADDRESS + 0x2000, 0x40, 0x80),
            Link(1, 1, CLOSES | TWO_BYTES | SEVERAL_CXL, ADDRESS + 0x3000, 0x0, 0x10, CXL),
        ),
    ),
)  # fmt: skip


def machine(nodes):
    """Return the emulator's words for the devices of `UNITS`; the units' NUMA nodes are given."""
    words = []

    def add(kind, *properties):
        words.extend(("-device", ",".join((kind, *properties))))

    for number, (bus, node) in enumerate(zip(BUSES, nodes, strict=True)):
        add("pxb-pcie", f"id=unit{number}", "bus=pcie.0", f"bus_nr={bus}", f"numa_node={node}")
        for slot in range(2):
            port = bus + slot
            add(
                "pcie-root-port", f"id=port{port}", f"bus=unit{number}", f"addr={slot}",
                f"chassis={port}", f"slot={port}",
            )  # fmt: skip
    ports = [f"bus=port{bus + slot}" for bus in BUSES for slot in range(2)]
    for number, port in enumerate(ports[1:3]):
        words += ["-blockdev", f"driver=null-co,node-name=disk{number},size=1073741824"]
        add("nvme", f"drive=disk{number}", f"serial=lab{number}", port)
    for function in range(2):
        add("e1000e", ports[0], f"addr=0.{function}", "multifunction=on", "romfile=")
    add("pcie-pci-bridge", "id=bridge", ports[3])
    for slot in 1, 2:
        add("e1000", "bus=bridge", f"addr={slot}", "romfile=")
    return words
