# SPDX-License-Identifier: Apache-2.0
"""The CPUs of our groups: as written, and as the kernel and other programs left them.

The kernel forgets the group of a CPU that goes offline. A CPU that was offline since the write is
recognised by its stamp (`Topology.plugged`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Container, Iterable, Mapping

from iat_nova.common.cpulist import format_cpus
from iat_nova.hardware.cat.resctrl_fs import ResctrlFs
from iat_nova.hardware.cat.resctrl_memory import ResctrlMemory
from iat_nova.hardware.kernel.topology import Topology
from iat_nova.model import Message, message


@dataclasses.dataclass
class GroupCpus:
    """The CPUs of groups by number; `group` gives the group's name."""

    fs: ResctrlFs
    topology: Topology
    memory: ResctrlMemory
    group: Callable[[int], str]

    def write(self, cpus: Mapping[int, frozenset[int]], made: Container[int]) -> None:
        """Write the online CPUs of each group in `made`.

        The kernel removes a CPU from its former group.
        """
        online = self.topology.online()
        for number, whole in sorted(cpus.items()):
            wanted = whole & online
            if self.memory.cpus.get(number, frozenset()) == wanted or number not in made:
                continue
            # Before writing: then a CPU that goes offline and online after the write is detected.
            plugged = {cpu: self.topology.plugged(cpu) for cpu in wanted}
            self.fs.set_cpus(self.group(number), format_cpus(wanted))
            self.memory.cpus = {n: have - wanted for n, have in self.memory.cpus.items()}
            self.memory.cpus[number] = wanted
            self.memory.plugged |= plugged

    def discard(self, number: int) -> None:
        """Forget a removed group."""
        self.memory.cpus.pop(number, None)

    def inspect(self, numbers: Iterable[int]) -> tuple[set[int], list[Message]]:
        """Return CPUs that were offline since the write, and messages on CPUs moved by others."""
        lost: set[int] = set()
        foreign: list[Message] = []
        online = self.topology.online()
        for number in numbers:
            wanted = self.memory.cpus.get(number, frozenset()) & online
            have = self.fs.cpus_of(self.group(number))
            returned = {
                cpu
                for cpu in wanted - have
                if self.topology.plugged(cpu) != self.memory.plugged.get(cpu)
            }
            lost |= returned
            moved = (have ^ wanted) - returned
            if moved:
                cpus = format_cpus(moved)
                foreign.append(message("group-cpus-moved", group=self.group(number), cpus=cpus))
        return lost, foreign

    def latecomers(self, cpus: Mapping[int, frozenset[int]]) -> set[int]:
        """Return the CPUs that went online after the last write of the groups."""
        written = frozenset().union(*self.memory.cpus.values())
        return set(self.topology.online() & frozenset().union(*cpus.values()) - written)

    def lose(self, cpus: frozenset[int] | set[int]) -> None:
        """Take these CPUs as not written."""
        self.memory.cpus = {number: have - cpus for number, have in self.memory.cpus.items()}
