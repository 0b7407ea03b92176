# SPDX-License-Identifier: Apache-2.0
"""Counters through the kernel: one perf group per CPU, one system call per CPU and poll."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from iat_nova.common.clock import Clock
from iat_nova.hardware.api import CoreCounts, Counts, DomainCounts
from iat_nova.hardware.counters.events import CoreEvents
from iat_nova.hardware.counters.perf_event import EventGroup, Groups, OpenEvents


class DomainReader(Protocol):
    """Counters of whole cache domains, read together with the counters of the CPUs."""

    def watch(self) -> None:
        """Open all missing groups; only this call and `close` open or close descriptors."""

    def read(self) -> Mapping[int, DomainCounts]:
        """Return the running totals by domain; unreadable domains are absent."""

    def close(self) -> None:
        """Close all descriptors."""


class PerfCounters:
    """`hardware.api.Counters` through ``perf_event_open``.

    `domains` adds DDIO's counters. `cores`: the open groups by CPU.

    `watch` raises `HardwareError` if the kernel refuses the events; open groups stay open.
    """

    def __init__(
        self,
        events: CoreEvents,
        clock: Clock,
        *,
        domains: DomainReader | None = None,
        open_group: OpenEvents = EventGroup,
    ) -> None:
        self._events = events.events
        self._clock = clock
        self._domains = domains
        self.cores: Groups[int] = Groups(open_group)

    def watch(self, cpus: Iterable[int]) -> None:
        """Count on exactly these CPUs from now on; keep earlier counts."""
        self.cores.follow({cpu: (self._events, cpu) for cpu in sorted(set(cpus))})
        if self._domains is not None:
            self._domains.watch()

    def read(self) -> Counts:
        """Return the running totals; see `api.Counters`."""
        taken_at_s = self._clock.now()
        cores = {cpu: CoreCounts._make(totals) for cpu, totals in self.cores.read().items()}
        domains = self._domains.read() if self._domains is not None else {}
        return Counts(taken_at_s, cores, domains)

    def close(self) -> None:
        """Close all descriptors; the totals are kept for a later `watch`."""
        self.cores.close()
        if self._domains is not None:
            self._domains.close()
