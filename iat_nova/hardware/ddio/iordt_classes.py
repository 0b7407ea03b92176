# SPDX-License-Identifier: Apache-2.0
"""DDIO's ways by a class of service of devices (I/O RDT), as a group of resctrl without CPUs.

With the switch of a cache domain on, each channel's lines go into the ways of its tag's class, no
longer into those of IIO_LLC_WAYS. The kernel hands out no class that a group has, and other
programs see the group's masks. The order keeps devices in their ways at each step:

1. make the group, and tag every channel with its class (a channel without a tag would fill class
   0's ways);
2. in a domain, set the group's mask to the ways that devices have there, and switch on;
3. only then change the mask.

A port with ways of its own has a further group, made in the same order: the group's mask, then the
tags of the port's channels. Before such a group goes or gets other ports, the channels of its
former ports return to the class of all devices. Each cache domain uses these groups from the first
on, with masks of its own.

A restore switches off first, then writes the tags as found, and removes the groups last.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from iat_nova.hardware.api import HardwareError
from iat_nova.hardware.cat import limits
from iat_nova.hardware.cat.resctrl_fs import DEVICES, PREFIX, ResctrlFs
from iat_nova.hardware.ddio import iordt, iordt_registers
from iat_nova.hardware.ddio.iordt import IoRdt
from iat_nova.hardware.ddio.iordt_registers import FoundTags, Tag, TagRegisters
from iat_nova.hardware.ddio.irdt import Channel
from iat_nova.hardware.ddio.ways import FixedDdio, MsrDdio
from iat_nova.hardware.kernel import files
from iat_nova.hardware.kernel.msr import L3_MASK, Msr
from iat_nova.hardware.kernel.rollback import SavedKeys, Step, undoing
from iat_nova.hardware.kernel.topology import Topology
from iat_nova.model import CacheDomain, Message, PortGroup, WayMask, message

GROUP = DEVICES
"""The group whose class all devices have; groups of ports have this name and a number."""

_L3 = "L3"


def check_usable(found: IoRdt, fs: ResctrlFs) -> None:
    """Raise `HardwareError` unless all devices can be tagged with a class."""
    if not found.cpu.classes:
        raise HardwareError(message("iordt-without-classes"))
    if fs.info().resources != (_L3,):
        raise HardwareError(message("iordt-with-cdp"), message("mount-resctrl-without-cdp"))
    channels = found.registers.channels(Tag.CLASS)
    if missing := [one for one in found.registers.table.channels if one not in channels]:
        raise HardwareError(message("iordt-channels-untagged", channels=_names(missing)))
    for channel in channels:
        found.registers.tagged(channel, Tag.CLASS, 0)  # raises if the enable bit is unknown


class DeviceClass:
    """`hardware.api.DdioWays` through the class of all devices, and `PortWays` beside this class.

    Nothing is opened before the first use. `registers` returns the registers of all channels.
    `found` has the ways of devices while they have no class.
    """

    shape = iordt_registers.saved_shape(Tag.CLASS)

    def __init__(
        self,
        fs: ResctrlFs,
        msr: Msr,
        topology: Topology,
        registers: Callable[[], TagRegisters],
        domains: Callable[[], tuple[CacheDomain, ...]],
        found: MsrDdio | FixedDdio,
    ) -> None:
        self._fs = fs
        self._msr = msr
        self._topology = topology
        self._registers = functools.cache(registers)
        self._domains = domains
        self._found = found
        self._settings = FoundTags(msr, topology, self._registers, Tag.CLASS)
        self.reachable = self._settings.reachable
        self._saved = SavedKeys()
        self._tags: dict[Channel, int] = {}  # as written; empty while devices have no class
        self._on: set[int] = set()  # domains that this process has switched on
        self._wrote: set[int] = set()  # the same, also after a restore
        self._number = 0  # of the class of all devices, while this class exists
        self._ports: dict[int, dict[str, PortGroup]] = {}  # by domain and name of the group
        self._numbers: dict[str, int] = {}  # of these groups' classes

    def read(self, domain: int) -> WayMask | None:
        """Return the ways of devices; None if another program removed the group."""
        return self.mask_of(limits.find(self._domains(), domain))

    def mask_of(self, domain: CacheDomain) -> WayMask | None:
        """Return the ways of devices in a given domain; None if unknown or the group is gone."""
        if domain.id not in self._on:
            return self._found.mask_of(domain)
        if GROUP not in self._fs.groups():
            return None
        return limits.effective(domain, self._fs.mask(GROUP, _L3, domain.id))

    def write(self, domain: int, mask: WayMask) -> WayMask:
        """Set the ways of devices; return them as read back. Raises `HardwareError`.

        The first write gives all devices their class. A refused step is undone, and all before it.
        """
        found = limits.find(self._domains(), domain)
        limits.check_ddio(found, mask)
        limits.check_mask(found, mask, GROUP)
        with self._fs.locked(), undoing() as undo:
            tags = self._switched_on(found, undo)
            self._set(GROUP, domain, mask, undo)
            self._tags = tags
            self._on.add(domain)
        return self.mask_of(found) or WayMask(0)

    def _switched_on(self, domain: CacheDomain, undo: list[Step]) -> dict[Channel, int]:
        """Put a domain's devices into their class with their present ways; return all tags."""
        if domain.id in self._on:
            return self._tags
        self._saved.check(domain.id)
        cpu = self._settings.cpu(domain.id)
        ways = self._found.mask_of(domain)
        if not ways:
            raise HardwareError(message("iordt-ways-unknown", domain=domain.id))
        self._wrote.add(domain.id)
        tags = self._tags or self._tag(domain, ways, undo)
        self._set(GROUP, domain.id, ways, undo)
        self._settings.switch(cpu, True, undo)
        return tags

    def _tag(self, domain: CacheDomain, ways: WayMask, undo: list[Step]) -> dict[Channel, int]:
        """Make the group and give its class to all channels; return their tags."""
        registers = self._registers()
        for cache in self._topology.caches():
            if self._settings.is_on(cache.cpus[0]):
                raise HardwareError(
                    message("iordt-on-already", domain=cache.id), message("iordt-off-first")
                )
        self._fs.add(GROUP)
        undo.append(lambda: self._fs.remove(GROUP))
        number = self._number = self._class_number(GROUP, domain, ways)
        before = registers.read(Tag.CLASS)
        tags = {one: registers.tagged(one, Tag.CLASS, number) for one in before}
        for channel, value in tags.items():
            undo.append(lambda c=channel: registers.write(c, Tag.CLASS, before[c]))  # type: ignore[misc]
            registers.write(channel, Tag.CLASS, value)
        return tags

    def _set(self, group: str, domain: int, mask: WayMask, undo: list[Step]) -> None:
        before = self._fs.mask(group, _L3, domain)
        if before != mask:
            self._fs.set_masks(group, domain, {_L3: mask})
            undo.append(lambda: self._fs.set_masks(group, domain, {_L3: before}))

    def _class_number(self, group: str, domain: CacheDomain, ways: WayMask) -> int:
        """Return the hardware's number of a group's class.

        Without resctrl's mount option ``debug`` the class is the one whose register follows the
        group's mask, twice.
        """
        if (number := self._fs.hardware_class(group)) is not None:
            return number
        cpu, numbers = self._settings.cpu(domain.id), set(range(1, self._fs.info().closids))
        most = WayMask((1 << domain.ways) - 1)
        for mask in (ways if ways != most else WayMask.span(0, domain.min_ways), most, ways):
            self._fs.set_masks(group, domain.id, {_L3: mask})
            numbers = {one for one in numbers if self._msr.read(cpu, L3_MASK + one) == mask}
        if len(numbers) != 1:
            raise HardwareError(message("iordt-class-unknown", group=group))
        return numbers.pop()

    def place(self, domain: int, groups: tuple[PortGroup, ...]) -> Mapping[str, WayMask]:
        """Give ports ways of their own; see `api.PortWays`.

        A port that changes its group has the class of all devices meanwhile. A group that goes is
        removed after all else, because a class made again has another number. A group that the
        kernel does not remove stays ours, without ports, until the next call.
        """
        found, there = limits.find(self._domains(), domain), self._fs.groups()
        had, wanted = self._ports.get(domain, {}), self._named(domain, groups)
        elsewhere = {name for one in self._ports.keys() - {domain} for name in self._ports[one]}
        tenants = [one for one in there if one.startswith(PREFIX) and not one.startswith(GROUP)]
        limits.check_ports(found, groups, len(tenants) + len(elsewhere - wanted.keys()))
        if wanted == had and all(
            name in there and self._fs.mask(name, _L3, domain) == group.mask
            for name, group in wanted.items()
        ):  # the kernel resets the masks of a domain that was offline
            return self.placed(domain)
        with self._fs.locked():
            with undoing() as undo:
                tags = self._moved(found, wanted, self._switched_on(found, undo), undo)
                self._tags = tags
                left = {name: PortGroup((), had[name].mask) for name in had.keys() - wanted.keys()}
                self._ports[domain] = wanted | left
                self._on.add(domain)
            for name in left:
                if name in there and name not in elsewhere:
                    self._fs.remove(name)
                del self._ports[domain][name]
        return self.placed(domain)

    def _named(self, domain: int, groups: tuple[PortGroup, ...]) -> dict[str, PortGroup]:
        """Return the groups of ports by the name of the resctrl group.

        A group keeps the name of a former group with a common port. Other groups get a name without
        ports in this domain, then a name of another domain, where the group has another mask. So
        only a further group takes a further class.
        """
        had, left = self._ports.get(domain, {}), list(groups)
        named: dict[str, PortGroup] = {}
        for name, before in had.items():
            common = [len({*before.ports} & {*group.ports}) for group in left]
            if any(common):
                named[name] = left.pop(common.index(max(common)))
        numbered = (f"{GROUP}.{number}" for number in itertools.count(1))
        spare = itertools.chain(had, *self._ports.values(), numbered)
        for group in left:
            named[next(name for name in spare if name not in named)] = group
        return named

    def assign(self, devices: Path, domains: Iterable[CacheDomain]) -> tuple[CacheDomain, ...]:
        """Return the domains with their ports (`iordt.assign`). Raises `HardwareError`."""
        return iordt.assign(self._registers().table, devices, domains)

    def placed(self, domain: int) -> Mapping[str, WayMask]:
        """Read back the masks of the ports with ways of their own; see `api.PortWays`."""
        groups = self._ports.get(domain, {})
        if not groups:
            return {}
        found, there = limits.find(self._domains(), domain), self._fs.groups()
        return {
            port: limits.effective(found, self._fs.mask(name, _L3, domain))
            for name, group in groups.items()
            if name in there
            for port in group.ports
        }

    def _moved(
        self,
        domain: CacheDomain,
        wanted: Mapping[str, PortGroup],
        tags: Mapping[Channel, int],
        undo: list[Step],
    ) -> dict[Channel, int]:
        """Take ports out of groups, give groups their masks, and put ports in; return all tags."""
        there = self._fs.groups()
        numbers: dict[str, int] = {}
        leave = [
            port
            for name, group in self._ports.get(domain.id, {}).items()
            for port in group.ports
            if name not in wanted or port not in wanted[name].ports
        ]
        tags = self._tagged(dict.fromkeys(leave, self._number), tags, undo)
        for name, group in wanted.items():
            if name not in there:
                self._fs.add(name)
                undo.append(lambda n=name: self._fs.remove(n))  # type: ignore[misc]
                self._numbers.pop(name, None)
            if name not in self._numbers:
                self._numbers[name] = self._class_number(name, domain, group.mask)
            self._set(name, domain.id, group.mask, undo)
            numbers |= dict.fromkeys(group.ports, self._numbers[name])
        return self._tagged(numbers, tags, undo)

    def _tagged(
        self, numbers: Mapping[str, int], tags: Mapping[Channel, int], undo: list[Step]
    ) -> dict[Channel, int]:
        """Give ports' channels the classes with these numbers; return all tags."""
        registers, now = self._registers(), dict(tags)
        channels = registers.table.port_channels()
        for port, number in numbers.items():
            if port not in channels:
                raise HardwareError(message("iordt-port-absent", port=port))
            for channel in channels[port]:
                value, before = registers.tagged(channel, Tag.CLASS, number), now[channel]
                if value != before:
                    undo.append(lambda c=channel, b=before: registers.write(c, Tag.CLASS, b))  # type: ignore[misc]
                    registers.write(channel, Tag.CLASS, value)
                    now[channel] = value
        return now

    def inspect(self) -> tuple[Message, ...]:
        """Return messages on tags and switches that another program changed."""
        if not self._tags:
            return ()
        now = self._registers().read(Tag.CLASS)
        changed = [one for one, value in self._tags.items() if now.get(one) != value]
        told = [message("iordt-tags-changed", channels=_names(changed))] if changed else []
        for cache in self._topology.caches():
            if cache.id in self._on and not self._settings.is_on(cache.cpus[0]):
                told.append(message("iordt-switch-changed", domain=cache.id))
        return tuple(told)

    def save(self) -> dict[str, Any]:
        """Return, as plain JSON values, the settings for `restore`."""
        found = self._settings.save()
        self._saved.renew(found["switches"])
        return found

    def written(self, saved: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the switches that this process has written, and all tags; see `rollback.Noting`.

        The first switch comes with all tags.
        """
        return iordt_registers.written(saved, self._wrote, saved["tags"])

    def restore(self, saved: Mapping[str, Any]) -> tuple[Message, ...]:
        """Restore switches and tags, and then remove the groups; return a message for each change.

        May be repeated. The groups stay while a tag could not be restored: nobody else gets their
        classes.
        """
        if not saved["tags"]:  # a domain that is in reach again
            return self._settings.restore(saved)
        self._tags = {}
        self._on.clear()
        self._ports.clear()
        return (*self._settings.restore(saved), *self.remove_groups())

    def release(self) -> tuple[Message, ...]:
        """Restore devices without a snapshot; only for the host's writer. Return messages.

        The groups were made while all switches were off. So they are switched off, and tags, which
        then have no effect, get class 0.
        """
        return self.restore(self._settings.cleared())

    def remove_groups(self) -> tuple[Message, ...]:
        """Remove the groups of all devices and of ports; return messages."""
        if not files.exists(self._fs.root / "schemata"):  # not mounted any more
            return ()
        groups = [name for name in self._fs.groups() if name.startswith(GROUP)]
        return iordt_registers.remove_groups(self._fs, groups)


def _names(channels: Iterable[Channel]) -> tuple[str, ...]:
    return tuple(map(str, channels))
