# SPDX-License-Identifier: Apache-2.0
"""Our resctrl groups: their CPUs and their lines other than L3, and what an agent knows of both.

The kernel forgets the group of a CPU that goes offline. A CPU that was offline since the write is
recognised by its stamp (`Topology.plugged`).

MB, SMBA and L2 of our groups are copies from the default group, so that an operator's limits apply
to every CPU. If we limit a group's memory bandwidth, the lower limit is written. The default
group's own lines are never written. Domains of limits have the numbers of the line ``MB``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping

from iat_nova.common.cpulist import format_cpus
from iat_nova.hardware.api import ClassMask
from iat_nova.hardware.cat.resctrl_fs import DEFAULT_GROUP, PREFIX, ResctrlFs
from iat_nova.hardware.kernel.rollback import Step
from iat_nova.hardware.kernel.topology import Topology
from iat_nova.model import Message, WayMask, message


def group_name(number: int) -> str:
    """Return the name of our group with a number; 0: the default group."""
    return f"{PREFIX}{number}" if number else DEFAULT_GROUP


@dataclasses.dataclass(slots=True)
class ResctrlMemory:
    """The classes, CPUs and masks of an agent's groups; the next agent continues with this value.

    By cache domain: `classes` as requested, `slots` (class -> number of its group), `online` CPUs
    with their stamps (`Topology.plugged`), `read_back` (effective masks after our last write), and
    `default_found`, the default group's original masks by resource. By group: online `cpus` as last
    written, and `limits` of memory bandwidth by domain. `plugged`: stamps of these CPUs at the time
    of the write. `made`: numbers of our groups that exist. `inherited`: lines of ``schemata`` that
    our groups have from the default group; None before the first group.
    """

    classes: dict[int, dict[str, ClassMask]] = dataclasses.field(default_factory=dict)
    slots: dict[int, dict[str, int]] = dataclasses.field(default_factory=dict)
    made: set[int] = dataclasses.field(default_factory=set)
    cpus: dict[int, frozenset[int]] = dataclasses.field(default_factory=dict)
    plugged: dict[int, int | None] = dataclasses.field(default_factory=dict)
    online: dict[int, dict[int, int | None]] = dataclasses.field(default_factory=dict)
    read_back: dict[int, Mapping[str, WayMask]] = dataclasses.field(default_factory=dict)
    default_found: dict[int, dict[str, WayMask]] = dataclasses.field(default_factory=dict)
    inherited: Mapping[str, str] | None = None
    limits: dict[int, dict[int, int]] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class Groups:
    """The CPUs and the other lines of our groups, by the groups' numbers."""

    fs: ResctrlFs
    topology: Topology
    memory: ResctrlMemory

    def write_cpus(self, cpus: Mapping[int, frozenset[int]]) -> None:
        """Write the online CPUs of groups; the kernel removes a CPU from its former group."""
        online = self.topology.online()
        for number, whole in sorted(cpus.items()):
            wanted = whole & online
            before = self.memory.cpus.get(number, frozenset())
            if before == wanted or number not in self.memory.made:
                continue
            # Before writing: then a CPU that goes offline and online after the write is detected.
            plugged = {cpu: self.topology.plugged(cpu) for cpu in wanted}
            self.fs.set_cpus(group_name(number), format_cpus(wanted))
            self.memory.cpus = {n: have - wanted for n, have in self.memory.cpus.items()}
            self.memory.cpus[number] = wanted
            self.memory.plugged |= plugged

    def inspect_cpus(self, numbers: Iterable[int]) -> list[Message]:
        """Return messages on CPUs that others moved; forget the writes to CPUs offline since."""
        lost: set[int] = set()
        foreign: list[Message] = []
        online = self.topology.online()
        for number in numbers:
            wanted = self.memory.cpus.get(number, frozenset()) & online
            have = self.fs.cpus_of(group_name(number))
            returned = {
                cpu
                for cpu in wanted - have
                if self.topology.plugged(cpu) != self.memory.plugged.get(cpu)
            }
            lost |= returned
            moved = (have ^ wanted) - returned
            if moved:
                cpus = format_cpus(moved)
                foreign.append(message("group-cpus-moved", group=group_name(number), cpus=cpus))
        self.memory.cpus = {number: have - lost for number, have in self.memory.cpus.items()}
        return foreign

    def latecomers(self, cpus: Mapping[int, frozenset[int]]) -> set[int]:
        """Return the online CPUs of these groups that are not written."""
        written = frozenset().union(*self.memory.cpus.values())
        return set(self.topology.online() & frozenset().union(*cpus.values()) - written)

    def begin(self, number: int) -> None:
        """Give a new group the default group's lines."""
        if self.memory.inherited is None:
            self.memory.inherited = self.fs.other_lines(DEFAULT_GROUP)
        self.memory.limits.pop(number, None)
        self.fs.set_other_lines(group_name(number), self.memory.inherited)

    def limit(self, number: int, domain: int, limit: int | None, undo: list[Step]) -> None:
        """Limit a group's memory bandwidth in a domain; None: by the default group's limit alone.

        An unchanged limit is not written.
        """
        before = self.memory.limits.get(number, {}).get(domain)
        if before != limit:
            self._put(number, domain, limit)
            undo.append(lambda: self._put(number, domain, before))

    def limited(self, domain: int) -> tuple[int, ...]:
        """Return the groups with a limit of ours in a domain."""
        return tuple(number for number, limits in self.memory.limits.items() if domain in limits)

    def _put(self, number: int, domain: int, limit: int | None) -> None:
        limits = {**self.memory.limits.get(number, {}), domain: limit}
        left = {where: one for where, one in limits.items() if one is not None}
        value = self._merged(left).get(domain)
        if value is not None and self.fs.bandwidth(group_name(number)).get(domain) != value:
            self.fs.set_bandwidth(group_name(number), domain, value)
        self.memory.limits[number] = left

    def _merged(self, limits: Mapping[int, int]) -> dict[int, int]:
        """Return a group's effective limits by domain: never above the default group's limit."""
        shown = self.fs.limits(self.memory.inherited or {}, DEFAULT_GROUP)
        return {domain: min(most, limits.get(domain, most)) for domain, most in shown.items()}

    def renew(self, domain: int, number: int) -> None:
        """Write a limit again that the kernel forgot while the domain was offline."""
        limit = self.memory.limits.get(number, {}).get(domain)
        if limit is not None:
            self._put(number, domain, limit)

    def changed(self) -> bool:
        """Return whether the default group's lines differ from the lines of our groups."""
        return self.fs.other_lines(DEFAULT_GROUP) != self.memory.inherited

    def follow(self, numbers: Iterable[int]) -> None:
        """Copy the default group's present lines, with our limits, to the groups `numbers`."""
        self.memory.inherited = self.fs.other_lines(DEFAULT_GROUP)
        for number in numbers:
            lines = dict(self.memory.inherited)
            merged = self._merged(self.memory.limits.get(number, {}))
            if merged:
                lines["MB"] = ";".join(f"{domain}={limit}" for domain, limit in merged.items())
            self.fs.set_other_lines(group_name(number), lines)

    def foreign(self, numbers: Iterable[int], domains: Collection[int]) -> list[Message]:
        """Return a message for each of our limits in `domains` that another program changed."""
        told: list[Message] = []
        for number in numbers:
            limits = self.memory.limits.get(number, {})
            now = self.fs.bandwidth(group_name(number)) if limits else {}
            wrote = self._merged(limits)
            told += [
                message(
                    "group-limit-changed",
                    group=group_name(number),
                    domain=domain,
                    limit=now[domain],
                    wrote=wrote.get(domain),
                )
                for domain in limits
                if domain in domains and domain in now and now[domain] != wrote.get(domain)
            ]
        return told
