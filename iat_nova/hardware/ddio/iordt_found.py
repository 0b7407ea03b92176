# SPDX-License-Identifier: Apache-2.0
"""The switches of cache domains and the tags of channels, of one kind, as an agent found them.

Saved before the first write, and restored: the switch first, because channels without a tag would
fill the ways, or count for the RMID, that the tag 0 stands for.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping
from typing import Any

from iat_nova.hardware.api import DomainOffline, LastingRefusal
from iat_nova.hardware.cat.resctrl_fs import ResctrlFs
from iat_nova.hardware.ddio.iordt_registers import Tag, TagRegisters
from iat_nova.hardware.ddio.irdt import MOST_CHANNELS, Channel
from iat_nova.hardware.kernel.msr import L3_IO_QOS_CFG, Msr, with_bits
from iat_nova.hardware.kernel.rollback import Reach, Step, put_all_back
from iat_nova.hardware.kernel.shape import (
    INDEX,
    NUMBER,
    Shape,
    listing,
    mapping,
    one_of,
    record,
    row,
    whole,
)
from iat_nova.hardware.kernel.topology import Topology
from iat_nova.model import Message, message

_SWITCH_OFFLINE = {Tag.CLASS: "iordt-switch-offline", Tag.RMID: "iordt-rmid-switch-offline"}
_SWITCH_RESTORED = {Tag.CLASS: "iordt-switch-restored", Tag.RMID: "iordt-rmid-switch-restored"}
_TAG_RESTORED = {Tag.CLASS: "iordt-tag-restored", Tag.RMID: "iordt-rmid-restored"}


def shape(bit: int) -> Shape:
    """Return the schema of saved settings whose switch is `bit` of `msr.L3_IO_QOS_CFG`."""
    return record(
        {
            "switches": mapping(NUMBER, one_of((0, bit))),
            "tags": listing(
                row(INDEX, whole(0, 255), whole(0, MOST_CHANNELS - 1), whole(0, 2**32 - 1))
            ),
        }
    )


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
    """Switches and tags of one kind. `registers` returns the registers; `bit` is the switch's."""

    msr: Msr
    topology: Topology
    registers: Callable[[], TagRegisters]
    tag: Tag
    bit: int

    def is_on(self, cpu: int) -> bool:
        """Return whether the switch of a CPU's cache domain is on."""
        return bool(self.msr.read(cpu, L3_IO_QOS_CFG) & self.bit)

    def switch(self, cpu: int, wanted: int, undo: list[Step]) -> bool:
        """Set the switch of a CPU's domain to 0 or the bit; return whether it differed."""
        now = self.msr.read(cpu, L3_IO_QOS_CFG)
        value = with_bits(now, wanted, self.bit)
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
            wanted = saved["switches"][domain]
            if not self.switch(self.cpu(int(domain)), wanted, []):
                return None
            return message(_SWITCH_RESTORED[self.tag], domain=int(domain), on=int(bool(wanted)))

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
