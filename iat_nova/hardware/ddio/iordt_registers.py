# SPDX-License-Identifier: Apache-2.0
"""The registers of I/O RDT's channels: tags of their lines with classes and RMIDs.

A register has 2 or 4 bytes. Its low bits are the number, and its top bit enables the tag where the
link's flags say so. Other bits are kept as found.

libpqos cannot be used here. It refuses to tag while the switch (`msr.L3_IO_QOS_CFG`) is off, but a
device without a tag fills the ways of class 0 as soon as the switch is on. The call that sets
libpqos's switch also resets all masks and associations of the host, also those of other programs.
"""

from __future__ import annotations

import enum

from iat_nova.hardware.api import HardwareError
from iat_nova.hardware.ddio.irdt import Channel, Irdt, Link
from iat_nova.hardware.kernel.msr import with_bits
from iat_nova.hardware.kernel.physical_memory import PhysicalMemory
from iat_nova.model import message

_NUMBER = 0x7FFF  # a class or RMID; the top bit of the shorter registers is left out


class Tag(enum.StrEnum):
    """What a register tags a channel's lines with."""

    CLASS = "class"
    RMID = "rmid"


class TagRegisters:
    """The registers of all channels of a table.

    A value is the number and the enable bit of a register, as `tagged` returns it.
    """

    def __init__(self, table: Irdt, memory: PhysicalMemory) -> None:
        self.table = table
        self._links = {(link.unit, link.id): link for link in table.links}
        self._memory = memory

    def channels(self, tag: Tag) -> tuple[Channel, ...]:
        """Return the channels with registers of a kind."""
        return tuple(
            Channel(*key, number)
            for key, link in self._links.items()
            if _address(link, tag) is not None
            for number in range(link.channels)
        )

    def tagged(self, channel: Channel, tag: Tag, number: int) -> int:
        """Return the value of a register that tags a channel with a class or RMID.

        Raises `HardwareError` if the number does not fit or the enable bit is unknown.
        """
        enable, top = self._enable(channel, tag)
        if enable is None:
            raise HardwareError(message("iordt-enable-unknown", channel=str(channel)))
        if not 0 <= number <= _NUMBER:
            raise HardwareError(message("iordt-number", channel=str(channel), number=number))
        return number | top if enable else number

    def read(self, tag: Tag) -> dict[Channel, int]:
        """Return the values of all registers of a kind. Raises `HardwareError`."""
        found: dict[Channel, int] = {}
        for key, link in self._links.items():
            start = _address(link, tag)
            if start is not None:
                values = self._memory.load(start, link.register_bytes, link.channels)
                channels = (Channel(*key, number) for number in range(link.channels))
                for channel, value in zip(channels, values, strict=True):
                    found[channel] = value & self._bits(channel, tag)
        return found

    def write(self, channel: Channel, tag: Tag, value: int) -> None:
        """Write a register's tag and read it back. Raises `HardwareError`, also if it differs."""
        link = self._link(channel)
        start = _address(link, tag)
        if start is None:
            raise HardwareError(message("iordt-register-absent", channel=str(channel), tag=tag))
        address = start + channel.number * link.register_bytes
        (before,) = self._memory.load(address, link.register_bytes)
        value = with_bits(before, value, self._bits(channel, tag))
        self._memory.store(address, link.register_bytes, value)
        (now,) = self._memory.load(address, link.register_bytes)
        if now != value:
            state = message(
                "iordt-register-differs",
                channel=str(channel),
                address=address,
                value=value,
                now=now,
            )
            raise HardwareError(state)

    def _bits(self, channel: Channel, tag: Tag) -> int:
        """Return the bits of a register that are a tag."""
        enable, top = self._enable(channel, tag)
        return _NUMBER | top if enable else _NUMBER

    def _enable(self, channel: Channel, tag: Tag) -> tuple[bool | None, int]:
        """Return whether a tag needs the enable bit (None: unknown), and the bit."""
        link = self._link(channel)
        enable = link.class_enable if tag is Tag.CLASS else link.rmid_enable
        return enable, 1 << 8 * link.register_bytes - 1

    def _link(self, channel: Channel) -> Link:
        link = self._links.get((channel.unit, channel.link))
        if link is None or not 0 <= channel.number < link.channels:
            raise HardwareError(message("iordt-channel-absent", channel=str(channel)))
        return link


def _address(link: Link, tag: Tag) -> int | None:
    return link.class_address if tag is Tag.CLASS else link.rmid_address
