# SPDX-License-Identifier: Apache-2.0
"""The registers of I/O RDT's channels: tags of their lines with classes and RMIDs.

A register has 2 or 4 bytes. Its low bits are the number, and its top bit enables the tag where the
link's flags say so. Other bits are kept as found.

libpqos cannot be used here. It refuses to tag while the switch (`msr.L3_IO_QOS_CFG`) is off, but a
device without a tag fills the ways of class 0 as soon as the switch is on. The call that sets
libpqos's switch also resets all masks and associations of the host, also those of other programs.

Tags, and the switches of cache domains, are saved as an agent found them before the first write. A
restore begins with the switch, because channels without a tag would fill the ways, or count for the
RMID, that the tag 0 stands for.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Collection, Mapping
from typing import Any

from iat_nova.hardware.api import DomainOffline, HardwareError, LastingRefusal
from iat_nova.hardware.cat.resctrl_fs import ResctrlFs
from iat_nova.hardware.ddio.irdt import MOST_CHANNELS, Channel, Irdt, Link
from iat_nova.hardware.kernel import shape
from iat_nova.hardware.kernel.msr import L3_IO_QOS_CFG, Msr, with_bits
from iat_nova.hardware.kernel.physical_memory import PhysicalMemory
from iat_nova.hardware.kernel.rollback import Reach, Step, put_all_back
from iat_nova.hardware.kernel.topology import Topology
from iat_nova.model import Message, message

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


SWITCH = {Tag.CLASS: 1 << 0, Tag.RMID: 1 << 1}
"""The bits of `msr.L3_IO_QOS_CFG`, the switch of a cache domain."""

_SWITCH_OFFLINE = {Tag.CLASS: "iordt-switch-offline", Tag.RMID: "iordt-rmid-switch-offline"}
_SWITCH_RESTORED = {Tag.CLASS: "iordt-switch-restored", Tag.RMID: "iordt-rmid-switch-restored"}
_TAG_RESTORED = {Tag.CLASS: "iordt-tag-restored", Tag.RMID: "iordt-rmid-restored"}


def saved_shape(tag: Tag) -> shape.Shape:
    """Return the schema of saved switches and tags of one kind."""
    switches = shape.mapping(shape.NUMBER, shape.one_of((0, SWITCH[tag])))
    bounds = (255, MOST_CHANNELS - 1, 2**32 - 1)  # of link, number in the link, value
    tags = shape.row(shape.INDEX, *(shape.whole(0, most) for most in bounds))
    return shape.record({"switches": switches, "tags": shape.listing(tags)})


def written(
    saved: Mapping[str, Any], domains: Collection[int], tags: list[list[int]]
) -> dict[str, Any] | None:
    """Return the saved switches of these domains, with these tags; None without any."""
    switches = {domain: one for domain, one in saved["switches"].items() if int(domain) in domains}
    return {"switches": switches, "tags": tags} if domains else None


def remove_groups(fs: ResctrlFs, names: Collection[str]) -> tuple[Message, ...]:
    """Remove groups of resctrl whose numbers no tag has any more; return messages."""

    def remove(name: str) -> Message:
        fs.remove(name)
        return message("removed", path=str(fs.root / name))

    if not names:
        return ()
    with fs.locked():
        return put_all_back(names, remove)


@dataclasses.dataclass(frozen=True)
class FoundTags:
    """Switches and tags of one kind. `registers` returns the registers."""

    msr: Msr
    topology: Topology
    registers: Callable[[], TagRegisters]
    tag: Tag

    @property
    def bit(self) -> int:
        """The bit of the switch."""
        return SWITCH[self.tag]

    def is_on(self, cpu: int) -> bool:
        """Return whether the switch of a CPU's cache domain is on."""
        return bool(self.msr.read(cpu, L3_IO_QOS_CFG) & self.bit)

    def switch(self, cpu: int, on: bool, undo: list[Step]) -> bool:
        """Set the switch of a CPU's domain; return whether it differed."""
        now = self.msr.read(cpu, L3_IO_QOS_CFG)
        value = with_bits(now, self.bit if on else 0, self.bit)
        if value == now:
            return False
        undo.append(lambda: self.msr.write(cpu, L3_IO_QOS_CFG, now))
        self.msr.write(cpu, L3_IO_QOS_CFG, value)
        if (kept := self.msr.read(cpu, L3_IO_QOS_CFG)) != value:
            raise LastingRefusal(message("iordt-switch-differs", value=value, now=kept))
        return True

    def cpu(self, domain: int) -> int:
        """Return a CPU of a domain that is online. Raises `DomainOffline`."""
        for cache in self.topology.caches():
            if cache.id == domain:
                return cache.cpus[0]
        raise DomainOffline(domain)

    def save(self) -> dict[str, Any]:
        """Return, as plain JSON values, the settings for `restore`."""
        switches = {
            str(one.id): self.msr.read(one.cpus[0], L3_IO_QOS_CFG) & self.bit
            for one in self.topology.caches()
        }
        tags = self.registers().read(self.tag)
        return {"switches": switches, "tags": [[*one, value] for one, value in tags.items()]}

    def cleared(self) -> dict[str, Any]:
        """Return, as `save` does, switches that are off and tags with the number 0."""
        switches = {str(one.id): 0 for one in self.topology.caches()}
        tags = [[*one, 0] for one in self.registers().channels(self.tag)]
        return {"switches": switches, "tags": tags}

    def reachable(self, saved: Mapping[str, Any]) -> Reach:
        """Divide the settings: the switch of a domain without online CPUs is out of reach."""
        there = {str(cache.id) for cache in self.topology.caches()}
        later = {domain: one for domain, one in saved["switches"].items() if domain not in there}
        now = {domain: one for domain, one in saved["switches"].items() if domain in there}
        return Reach(
            {"switches": now, "tags": saved["tags"]} if now or saved["tags"] else None,
            {"switches": later, "tags": []} if later else None,
            tuple(message(_SWITCH_OFFLINE[self.tag], domain=domain) for domain in later),
        )

    def restore(self, saved: Mapping[str, Any]) -> tuple[Message, ...]:
        """Restore switches and tags; return a message for each change. May be repeated."""

        def switch(domain: str) -> Message | None:
            on = bool(saved["switches"][domain])
            if not self.switch(self.cpu(int(domain)), on, []):
                return None
            return message(_SWITCH_RESTORED[self.tag], domain=int(domain), on=int(on))

        def tag(one: list[int]) -> Message | None:
            channel, value = Channel(*one[:-1]), one[-1]
            if now.get(channel) == value:
                return None
            registers.write(channel, self.tag, value)
            return message(_TAG_RESTORED[self.tag], channel=str(channel), value=value)

        done = put_all_back(saved["switches"], switch)  # after a failure, the tags must stay
        if not saved["tags"]:
            return done
        registers = self.registers()
        now = registers.read(self.tag)
        return (*done, *put_all_back(saved["tags"], tag))
