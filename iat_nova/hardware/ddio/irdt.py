# SPDX-License-Identifier: Apache-2.0
"""The ACPI table ``IRDT``: devices, links and channels of Intel I/O RDT. Pure: bytes to values.

Each device writes to the LLC through channels of a link. A channel has two registers in physical
memory: one tags its lines with a class of service (CLOS), the other with an RMID.

A table with a wrong length, an unknown type or overlapping registers is refused as a whole. Reason:
the addresses of the registers come from this table, and a device that the reader skips would stay
without a tag. Reserved fields are ignored.

Source: Intel RDT architecture specification (document 356688), chapter on I/O RDT; ACPI
specification, system description table header. All numbers are little-endian and packed.

Two published texts number the enable flags of a link differently. libpqos up to 5.0 has bit 4 for
RMIDs and bit 5 for classes; later versions have bit 5 and bit 6, and bit 4 for CXL. A table that
the two texts read differently leaves the flag unknown (None): a tag without its enable bit has no
effect.
"""

from __future__ import annotations

import dataclasses
import itertools
import struct
from collections.abc import Iterator
from typing import NamedTuple

from iat_nova.hardware.api import HardwareError
from iat_nova.model import Message, message

MOST_BYTES = 64 << 10
"""The largest table that is read: some two thousand devices."""

MOST_CHANNELS = 8
"""The most channels of a link, and the most virtual channels of a device on one link."""

_TABLE = struct.Struct("<4sIBB26s2H8s")  # the ACPI header, protocol flags, reserved
_UNIT = struct.Struct("<B3xIH3x")  # RMUD: type, length, PCI segment
_ENTRY = struct.Struct("<2H")  # type, length
_DEVICE = struct.Struct("<4xBHx")  # DSS: device type, bus, device and function
_USE = struct.Struct("<B8s7x")  # of a device: the link, a byte for each virtual channel
_LINK = struct.Struct("<4xHBB3H18xQ")  # RCS

_RMUD, _DSS, _RCS = 0, 0, 1  # types
_ENDPOINT, _HIERARCHY = 1, 2  # types of devices
_PCIE, _CXL = 0, 1  # types of links
_VALID, _CHANNEL = 1 << 7, 0x3F  # of a virtual channel's byte; bit 6: shared, as devices show
_RMIDS, _CLASSES, _SHORT = 1 << 1, 1 << 2, 1 << 3  # flags of a link
_BIT_4, _BIT_5, _BIT_6 = 1 << 4, 1 << 5, 1 << 6
_ADDRESS_BITS = 52  # of a physical address


class IrdtError(HardwareError):
    """The table is malformed; the state has the offset in bytes and the reason."""

    def __init__(self, offset: int, what: Message) -> None:
        state = message("irdt-malformed", offset=offset, what=what)
        super().__init__(state, message("update-firmware"))


class Channel(NamedTuple):
    """A channel: index of its unit in the table, id of its link in the unit, number in the link."""

    unit: int
    link: int
    number: int

    def __str__(self) -> str:
        return f"{self.unit}.{self.link}.{self.number}"


@dataclasses.dataclass(frozen=True, slots=True)
class Link:
    """A link (PCIe, or CXL.cache) with the registers of its channels.

    `class_address`, `rmid_address`: physical address of channel 0's register, None without such
    tags; the other channels follow. `class_enable`, `rmid_enable`: a tag needs the register's top
    bit; None: unknown.
    """

    unit: int
    id: int
    channels: int
    register_bytes: int  # 2 or 4
    class_address: int | None
    rmid_address: int | None
    class_enable: bool | None
    rmid_enable: bool | None


@dataclasses.dataclass(frozen=True, slots=True)
class Device:
    """A PCI device with its channels by virtual channel, in the order of the table.

    `hierarchy`: the device is a bridge, and the channels are those of all devices below it too.
    """

    address: str  # PCI, such as 0000:3b:00.0
    hierarchy: bool
    channels: tuple[Channel, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Irdt:
    """The content of the table."""

    devices: tuple[Device, ...]
    links: tuple[Link, ...]

    @property
    def channels(self) -> tuple[Channel, ...]:
        """All channels of all links, also those that no device names."""
        return tuple(
            Channel(link.unit, link.id, number)
            for link in self.links
            for number in range(link.channels)
        )

    def ports(self) -> tuple[tuple[Device, ...], ...]:
        """Return the devices in groups: devices that share a channel have one tag."""
        ports: list[tuple[set[Channel], list[Device]]] = []
        for device in self.devices:
            channels, members = set(device.channels), [device]
            apart = []
            for port in ports:
                if port[0].isdisjoint(channels):
                    apart.append(port)
                else:
                    channels |= port[0]
                    members = port[1] + members
            ports = [*apart, (channels, members)]
        order = {device: n for n, device in enumerate(self.devices)}
        groups = (tuple(sorted(members, key=order.__getitem__)) for _, members in ports)
        return tuple(sorted(groups, key=lambda group: order[group[0]]))

    def port_channels(self) -> dict[str, tuple[Channel, ...]]:
        """Return the channels of each port by its id, the address of the port's first device."""
        return {
            port[0].address: tuple(sorted({one for device in port for one in device.channels}))
            for port in self.ports()
        }


def read(data: bytes) -> Irdt:
    """Return the content of a whole table. Raises `IrdtError`."""
    if not _TABLE.size <= len(data) <= MOST_BYTES:
        raise IrdtError(0, _length(len(data), _TABLE.size, MOST_BYTES))
    signature, length = _TABLE.unpack_from(data)[:2]
    if signature != b"IRDT":
        raise IrdtError(0, message("irdt-other-table", signature=signature.hex()))
    if length != len(data):
        raise IrdtError(4, _length(length, len(data), len(data)))
    if sum(data) & 0xFF:
        raise IrdtError(9, message("irdt-checksum", sum=sum(data) & 0xFF))
    devices: list[Device] = []
    links: list[Link] = []
    for unit, (at, end) in enumerate(_units(data)):
        found = _unit(data, at, end, unit)
        devices += found[0]
        links += found[1]
    _check_registers(links)
    return Irdt(tuple(devices), tuple(links))


def _units(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield start and end of each unit."""
    at = _TABLE.size
    while at < len(data):
        rest = len(data) - at
        if rest < _UNIT.size:
            raise IrdtError(at, _length(rest, _UNIT.size, len(data)))
        kind, length, _ = _UNIT.unpack_from(data, at)
        if kind != _RMUD:
            raise IrdtError(at, message("irdt-type", type=kind))
        if not _UNIT.size <= length <= rest:
            raise IrdtError(at, _length(length, _UNIT.size, rest))
        yield at, at + length
        at += length


def _entries(data: bytes, at: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Yield type, start and end of each entry of a unit."""
    while at < end:
        rest = end - at
        if rest < _ENTRY.size:
            raise IrdtError(at, _length(rest, _ENTRY.size, rest))
        kind, length = _ENTRY.unpack_from(data, at)
        if kind not in (_DSS, _RCS):
            raise IrdtError(at, message("irdt-type", type=kind))
        least = _DEVICE.size if kind == _DSS else _LINK.size
        most = rest if kind == _DSS else _LINK.size
        if not least <= length <= min(most, rest):
            raise IrdtError(at, _length(length, least, min(most, rest)))
        yield kind, at, at + length
        at += length


def _unit(data: bytes, at: int, end: int, unit: int) -> tuple[list[Device], list[Link]]:
    segment: int = _UNIT.unpack_from(data, at)[2]
    entries = tuple(_entries(data, at + _UNIT.size, end))
    links: dict[int, Link] = {}
    for kind, start, _ in entries:
        if kind == _RCS:
            link = _link(data, start, unit)
            if link.id in links:
                raise IrdtError(start, message("irdt-link-twice", link=link.id))
            links[link.id] = link
    devices: dict[str, Device] = {}
    for kind, start, stop in entries:
        if kind == _DSS:
            device = _device(data, start, stop, segment, unit, links)
            if device.address in devices:
                raise IrdtError(start, message("irdt-device-twice", device=device.address))
            devices[device.address] = device
    return list(devices.values()), list(links.values())


def _device(
    data: bytes, at: int, end: int, segment: int, unit: int, links: dict[int, Link]
) -> Device:
    kind, bdf = _DEVICE.unpack_from(data, at)
    if kind not in (_ENDPOINT, _HIERARCHY):
        raise IrdtError(at, message("irdt-device-type", type=kind))
    if (end - at - _DEVICE.size) % _USE.size:
        raise IrdtError(at, message("irdt-uses", length_bytes=end - at))
    channels: dict[Channel, None] = {}
    for use in range(at + _DEVICE.size, end, _USE.size):
        number, virtual = _USE.unpack_from(data, use)
        link = links.get(number)
        if link is None:
            raise IrdtError(use, message("irdt-link-absent", link=number))
        for byte in virtual:
            if not byte & _VALID:
                continue
            channel = byte & _CHANNEL
            if channel >= link.channels:
                state = message(
                    "irdt-channel-absent", link=number, channel=channel, channels=link.channels
                )
                raise IrdtError(use, state)
            channels[Channel(unit, number, channel)] = None
    address = f"{segment:04x}:{bdf >> 8:02x}:{bdf >> 3 & 0x1F:02x}.{bdf & 7}"
    return Device(address, kind == _HIERARCHY, tuple(channels))


def _link(data: bytes, at: int, unit: int) -> Link:
    kind, number, channels, flags, rmids, classes, base = _LINK.unpack_from(data, at)
    if kind not in (_PCIE, _CXL):
        raise IrdtError(at, message("irdt-link-type", type=kind))
    if not 0 < channels <= MOST_CHANNELS:
        state = message("irdt-channels", channels=channels, most=MOST_CHANNELS)
        raise IrdtError(at, state)
    width = 2 if flags & _SHORT else 4

    def address(tags: int, offset: int) -> int | None:
        if not flags & tags:
            return None
        found: int = base + offset
        if not base or found % width or (found + channels * width) >> _ADDRESS_BITS:
            raise IrdtError(at, message("irdt-address", address=found))
        return found

    class_enable = True if flags & _BIT_6 else None if flags & _BIT_5 else False
    rmid_enable = bool(flags & _BIT_5)
    return Link(
        unit,
        number,
        channels,
        width,
        address(_CLASSES, classes),
        address(_RMIDS, rmids),
        class_enable,
        rmid_enable if flags & _BIT_6 or not flags & (_BIT_4 | _BIT_5) else None,
    )


def _check_registers(links: list[Link]) -> None:
    """Refuse overlapping registers: a write to a register would change another register."""
    blocks = sorted(
        (start, start + link.channels * link.register_bytes)
        for link in links
        for start in (link.class_address, link.rmid_address)
        if start is not None
    )
    for (_, end), (start, _) in itertools.pairwise(blocks):
        if start < end:
            raise IrdtError(0, message("irdt-registers-overlap", address=start))


def _length(length: int, least: int, most: int) -> Message:
    return message("irdt-length", length_bytes=length, least_bytes=least, most_bytes=most)
