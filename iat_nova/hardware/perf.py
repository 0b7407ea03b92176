# SPDX-License-Identifier: Apache-2.0
"""Counters through the kernel: one perf group a CPU, one system call a CPU a poll."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from iat_nova.common.clock import Clock
from iat_nova.hardware.api import CoreCounts, Counts, DomainCounts
from iat_nova.hardware.events import CoreEvents
from iat_nova.hardware.perf_event import CpuOffline, EventGroup, PerfEvent, allow_descriptors

_READING = struct.Struct("=7Q")  # nr, time enabled, time running, four values
_SIZE = _READING.size
_Reading = tuple[int, int, int, int, int, int, int]
_ZERO = CoreCounts(0, 0, 0, 0)


class DomainReader(Protocol):
    """Counters of whole cache domains, read together with those of the CPUs."""

    def watch(self) -> None:
        """Open what is not open yet; the only call that opens or closes descriptors."""

    def read(self) -> Mapping[int, DomainCounts]:
        """Return the running totals by domain; a domain that cannot be read is absent."""

    def close(self) -> None:
        """Give all descriptors back."""


class OpenGroup(Protocol):
    """An open group of counters, as `perf_event.EventGroup` is one."""

    @property
    def fd(self) -> int:
        """The descriptor one read of which returns all counts."""

    def close(self) -> None:
        """Give the descriptors back."""


class PerfCounters:
    """`hardware.api.Counters` through ``perf_event_open``.

    Descriptors are opened and closed in `watch` and `close` only, so a CPU that went
    offline stays absent until the first `watch` after its return. Totals never fall: a group
    that is opened anew counts on from where its predecessor stopped.

    `real_cpu` maps the number a caller uses to the CPU that is counted; several numbers
    may map to one (the bench's 512 emulated CPUs on two real ones). `domains` adds DDIO's
    counters. `open_group` opens the events on a CPU and starts them.

    `watch` raises `HardwareError` when the kernel refuses the events; what was open stays open.
    """

    def __init__(
        self,
        events: CoreEvents,
        clock: Clock,
        *,
        domains: DomainReader | None = None,
        real_cpu: Callable[[int], int] = lambda cpu: cpu,
        open_group: Callable[[Sequence[PerfEvent], int], OpenGroup] = EventGroup,
    ) -> None:
        self._events = events.events
        self._clock = clock
        self._domains = domains
        self._real_cpu = real_cpu
        self._open_group = open_group
        self._cores: tuple[_Core, ...] = ()
        self._totals: dict[int, CoreCounts] = {}  # of CPUs that are not counted now

    def watch(self, cpus: Iterable[int]) -> None:
        """Count on exactly these CPUs from now on; keeps what is already counted."""
        wanted = set(cpus)
        counted = {core.cpu: core for core in self._cores}
        for core in self._cores:
            if core.cpu not in wanted or core.lost:
                self._totals[core.cpu] = core.close()
                del counted[core.cpu]
        self._cores = tuple(counted.values())
        allow_descriptors(len(wanted - counted.keys()) * len(self._events))
        try:
            for cpu in sorted(wanted - counted.keys()):
                counted |= self._open(cpu)
        finally:
            self._cores = tuple(counted[cpu] for cpu in sorted(counted))
        if self._domains is not None:
            self._domains.watch()

    def _open(self, cpu: int) -> dict[int, _Core]:
        try:
            group = self._open_group(self._events, self._real_cpu(cpu))
        except CpuOffline:
            return {}
        return {cpu: _Core(cpu, group, self._totals.pop(cpu, _ZERO))}

    def read(self) -> Counts:
        """Return the running totals; see `api.Counters`."""
        taken_at_s = self._clock.now()
        cores = {}
        for core in self._cores:
            counts = core.read()
            if counts is not None:
                cores[core.cpu] = counts
        domains = self._domains.read() if self._domains is not None else {}
        return Counts(taken_at_s, cores, domains)

    def raw_read(self) -> None:
        """Do the system calls of `read` on the CPUs' descriptors, and nothing else.

        This is the floor under any way of reading them: what a loop costs beyond it is its own.
        """
        read = os.read
        for fd in [core.fd for core in self._cores]:
            read(fd, _SIZE)

    def close(self) -> None:
        """Give all descriptors back; the totals are kept for a later `watch`."""
        for core in self._cores:
            self._totals[core.cpu] = core.close()
        self._cores = ()
        if self._domains is not None:
            self._domains.close()


class _Core:
    """The group of one CPU.

    Its totals are the kernel's counts plus `_offset`: what was counted by a group before it, and
    what scaling added.
    """

    __slots__ = ("_group", "_last", "_offset", "cpu", "fd", "lost")

    def __init__(self, cpu: int, group: OpenGroup, offset: CoreCounts) -> None:
        self._group = group
        self.cpu = cpu
        self.fd = group.fd
        self.lost = False
        self._offset = offset
        self._last: _Reading = (0, 0, 0, 0, 0, 0, 0)

    def read(self) -> CoreCounts | None:
        """Return the totals, None when this interval's counts cannot be trusted.

        An interval in which the group ran less than half the time is rejected (its scaled counts
        still enter the totals, the best estimate there is). When the CPU goes offline the
        kernel takes the group apart and its time stands still: the group is then lost.
        """
        if self.lost:
            return None
        try:
            reading: _Reading = _READING.unpack(os.read(self.fd, _SIZE))
        except (OSError, struct.error):  # an error, or fewer members than there were
            self.lost = True
            return None
        last, self._last = self._last, reading
        interval, ran = reading[1] - last[1], reading[2] - last[2]
        if interval <= 0:
            self.lost = True
            return None
        if ran != interval:
            self._offset = _scaled(self._offset, last, reading, interval, ran)
            if 2 * ran < interval:
                return None
        return self._total()

    def _total(self) -> CoreCounts:
        _, _, _, instructions, cycles, references, misses = self._last
        more = self._offset
        return CoreCounts(
            instructions + more[0], cycles + more[1], references + more[2], misses + more[3]
        )

    def close(self) -> CoreCounts:
        """Close the group and return its totals."""
        self._group.close()
        return self._total()


def _scaled(
    offset: CoreCounts, last: _Reading, reading: _Reading, interval: int, ran: int
) -> CoreCounts:
    """Return the offset with what the group missed while it did not run."""
    missed = interval - ran
    return CoreCounts(
        *(
            old + ((after - before) * missed // ran if ran else 0)
            for old, before, after in zip(offset, last[3:], reading[3:], strict=True)
        )
    )
