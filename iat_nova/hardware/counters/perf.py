# SPDX-License-Identifier: Apache-2.0
"""Counters through the kernel: one perf group per CPU, one system call per CPU and poll."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from iat_nova.common.clock import Clock
from iat_nova.hardware.api import CoreCounts, Counts, DomainCounts
from iat_nova.hardware.counters.events import CoreEvents
from iat_nova.hardware.counters.perf_event import (
    CpuOffline,
    EventGroup,
    PerfEvent,
    allow_descriptors,
)

_READING = struct.Struct("=7Q")  # nr, time enabled, time running, four values
_SIZE = _READING.size
_Reading = tuple[int, int, int, int, int, int, int]
_ZERO = CoreCounts(0, 0, 0, 0)


class DomainReader(Protocol):
    """Counters of whole cache domains, read together with the counters of the CPUs."""

    def watch(self) -> None:
        """Open all missing groups; only this call and `close` open or close descriptors."""

    def read(self) -> Mapping[int, DomainCounts]:
        """Return the running totals by domain; unreadable domains are absent."""

    def close(self) -> None:
        """Close all descriptors."""


class OpenGroup(Protocol):
    """An open group of counters, such as `perf_event.EventGroup`."""

    @property
    def fd(self) -> int:
        """The leader's descriptor; one read returns all counts."""

    def close(self) -> None:
        """Close the descriptors."""


class PerfCounters:
    """`hardware.api.Counters` through ``perf_event_open``.

    Descriptors are opened and closed in `watch` and `close` only, so a CPU that went offline stays
    absent until the first `watch` after its return. Totals never decrease: a new group continues
    from the totals of the group before.

    `real_cpu` maps the caller's CPU number to the counted CPU; several numbers may map to one CPU
    (the bench's 512 emulated CPUs on two real CPUs). `domains` adds DDIO's counters. `open_group`
    opens the events on a CPU and starts counting.

    `watch` raises `HardwareError` if the kernel refuses the events; open groups stay open.
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
        """Count on exactly these CPUs from now on; keep earlier counts."""
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

    def close(self) -> None:
        """Close all descriptors; the totals are kept for a later `watch`."""
        for core in self._cores:
            self._totals[core.cpu] = core.close()
        self._cores = ()
        if self._domains is not None:
            self._domains.close()


class _Core:
    """The group of one CPU.

    The totals are the kernel's counts plus `_offset`: the counts of earlier groups, and additions
    by scaling.
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
        """Return the totals, None if the counts of this interval are not reliable.

        An interval in which the group ran less than half of the time is rejected; the scaled counts
        still enter the totals, as the best estimate. When the CPU goes offline, the kernel removes
        the group and its time stops: then the group is lost.
        """
        if self.lost:
            return None
        try:
            reading: _Reading = _READING.unpack(os.read(self.fd, _SIZE))
        except (OSError, struct.error):  # an error, or fewer members than before
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
    """Return the offset with an estimate of the counts missed while the group did not run."""
    missed = interval - ran
    return CoreCounts(
        *(
            old + ((after - before) * missed // ran if ran else 0)
            for old, before, after in zip(offset, last[3:], reading[3:], strict=True)
        )
    )
