# SPDX-License-Identifier: Apache-2.0
"""LLC occupancy and memory traffic of each port of devices, by RMIDs of its channels (I/O RDT).

A port's RMID is that of a monitoring group of resctrl without CPUs or tasks, so the kernel gives
the RMID to nobody else and reads its counters. The number is known only with resctrl's mount
option ``debug`` (``mon_hw_id``, Linux 6.7). Channels are tagged before the switch is on, so that no
line counts for another group's RMID.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from iat_nova.hardware.api import HardwareError, TenantCounts
from iat_nova.hardware.cat.resctrl_fs import PORTS, ResctrlFs
from iat_nova.hardware.ddio import iordt_registers
from iat_nova.hardware.ddio.iordt_registers import FoundTags, Tag, TagRegisters
from iat_nova.hardware.ddio.irdt import Channel
from iat_nova.hardware.kernel import files
from iat_nova.hardware.kernel.msr import Msr
from iat_nova.hardware.kernel.rollback import Step, undoing
from iat_nova.hardware.kernel.topology import Topology
from iat_nova.model import CacheDomain, Message, message

Key = tuple[int, str]
"""A port of a cache domain: the domain's number and the port's id."""


class PortMonitor:
    """A monitoring group for each port whose channels all have registers for RMIDs.

    `occupancy`, `traffic`: the files of the counters of a group, None where the CPU does not count
    it for devices. Nothing is read before the first use.
    """

    shape = iordt_registers.saved_shape(Tag.RMID)

    def __init__(
        self,
        fs: ResctrlFs,
        msr: Msr,
        topology: Topology,
        registers: Callable[[], TagRegisters],
        occupancy: str | None = None,
        traffic: str | None = None,
    ) -> None:
        self._fs = fs
        self._registers = functools.cache(registers)
        self._found = FoundTags(msr, topology, self._registers, Tag.RMID)
        self.reachable = self._found.reachable
        self._occupancy, self._traffic = occupancy, traffic
        self._groups: dict[Key, str] = {}  # paths
        self._before: dict[str, Any] | None = None  # settings as found, while ports are counted
        self._left_on: frozenset[int] = frozenset()  # domains that went offline switched on
        self._saved: frozenset[int] = frozenset()  # domains whose switches are in a snapshot
        self._wrote: set[int] = set()  # domains that were switched on
        self._tagged: set[Channel] = set()

    @property
    def counts(self) -> bool:
        """Whether any port is counted."""
        return bool(self._groups)

    def watch(self, domains: Iterable[CacheDomain], free: int) -> None:
        """Count exactly the ports of these domains from now on.

        A domain that came online after `save` is left out, because it could not be restored.
        `free`: the number of RMIDs for ports, beside those that ports have already. Raises
        `HardwareError` with all changes undone; then no port is counted.
        """
        registers = self._registers()
        channels = registers.table.port_channels()
        counted = frozenset(registers.channels(Tag.RMID))
        wanted = [
            (domain.id, port.id)
            for domain in domains
            if domain.id in self._saved
            for port in domain.device_ports
            if counted.issuperset(channels.get(port.id, ())) and port.id in channels
        ]
        if set(wanted) == self._groups.keys():
            return
        free += len(self._groups)
        self.close()
        if not wanted:
            return
        if len(wanted) > free:
            raise HardwareError(message("port-rmids-too-few", ports=len(wanted), free=max(0, free)))
        for domain_id in dict.fromkeys(domain for domain, _ in wanted):
            ours = domain_id in self._left_on
            if not ours and self._found.is_on(self._found.cpu(domain_id)):
                state = message("iordt-rmids-on-already", domain=domain_id)
                raise HardwareError(state, message("iordt-rmids-off-first"))
        before = self._found.save()
        switches = before["switches"]
        switches |= {str(one): 0 for one in self._left_on if str(one) in switches}
        self._wrote.update(domain for domain, _ in wanted)
        with self._fs.locked(), undoing() as undo:
            groups = {}
            for number, key in enumerate(wanted):
                groups[key] = self._fs.monitor(f"{PORTS}{number}")
                self._tag(groups[key], [*channels[key[1]]], registers, undo)
            for domain_id in dict.fromkeys(domain for domain, _ in wanted):
                self._found.switch(self._found.cpu(domain_id), True, undo)
        self._groups, self._before = groups, before

    def _tag(
        self, group: str, channels: Iterable[Any], registers: TagRegisters, undo: list[Step]
    ) -> None:
        """Make a monitoring group and give its RMID to channels."""
        self._fs.add(group)
        undo.append(lambda: self._fs.remove(group))
        number = self._fs.hardware_monitor(group)
        if number is None:
            raise HardwareError(message("iordt-rmid-unknown"), message("mount-resctrl-debug"))
        now = registers.read(Tag.RMID)
        for channel in channels:
            self._tagged.add(channel)
            value = registers.tagged(channel, Tag.RMID, number)
            undo.append(lambda c=channel: registers.write(c, Tag.RMID, now[c]))  # type: ignore[misc]
            registers.write(channel, Tag.RMID, value)

    def read(self) -> Mapping[Key, TenantCounts]:
        """Return the counts by port; values that the kernel cannot give now are None."""
        return {
            key: TenantCounts(
                self._value(group, key[0], self._occupancy),
                self._value(group, key[0], self._traffic),
            )
            for key, group in self._groups.items()
        }

    def _value(self, group: str, domain: int, event: str | None) -> int | None:
        file = event and f"{group}/mon_data/mon_L3_{domain:02d}/{event}"
        return self._fs.count(file)

    def close(self) -> None:
        """Restore tags and switches, and release all RMIDs; may be repeated.

        Raises `HardwareError`.
        """
        if self._before is None:
            return
        before = self._ours(self._before) or self._before
        groups, reach = self._groups.values(), self.reachable(before)
        ours = {domain for domain, _ in self._groups}
        if reach.now is not None:
            self._put_back(reach.now)
            self._left_on -= {int(domain) for domain in reach.now["switches"]}
        if reach.later is not None:
            self._left_on |= ours & {int(domain) for domain in reach.later["switches"]}
        for group in groups:
            if files.exists(self._fs.root / group):
                self._fs.remove(group)

    def save(self) -> dict[str, Any]:
        """Return, as plain JSON values, the settings for `restore`."""
        found = self._found.save()
        self._saved |= {int(domain) for domain in found["switches"]}
        return found

    def written(self, saved: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the switches and tags that this process has written; see `rollback.Noting`.

        Nothing is counted until the next saving.
        """
        self._saved = frozenset()
        return self._ours(saved)

    def _ours(self, found: Mapping[str, Any]) -> dict[str, Any] | None:
        tags = [one for one in found["tags"] if Channel(*one[:-1]) in self._tagged]
        return iordt_registers.written(found, self._wrote, tags or found["tags"])

    def restore(self, saved: Mapping[str, Any]) -> tuple[Message, ...]:
        """Restore the domains' RMID switches and the channels' RMID tags; return messages.

        Then the ports' groups are removed. They stay while a tag could not be restored: nobody else
        gets their RMIDs.
        """
        self._saved -= {int(domain) for domain in saved["switches"]}
        done = self._put_back(saved)
        return (*done, *self.remove_groups()) if saved["tags"] else done

    def remove_groups(self) -> tuple[Message, ...]:
        """Remove the groups of ports; return messages."""
        paths = [self._fs.monitor(name) for name in self._fs.monitors() if name.startswith(PORTS)]
        return iordt_registers.remove_groups(self._fs, paths)

    def release(self) -> tuple[Message, ...]:
        """Restore devices' RMIDs without a snapshot, as `DeviceClass.release` does."""
        return self.restore(self._found.cleared())

    def _put_back(self, saved: Mapping[str, Any]) -> tuple[Message, ...]:
        done = self._found.restore(saved)
        if saved["tags"]:  # otherwise a domain that is in reach again
            self._groups, self._before = {}, None
        return done
