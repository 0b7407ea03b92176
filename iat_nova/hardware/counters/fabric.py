# SPDX-License-Identifier: Apache-2.0
"""Lines that devices write on AMD, counted at the entry to a socket's data fabric.

The kernel's PMU ``amd_df`` counts for each socket; the events are `events.Model.fabric`. No event
distinguishes hits in an L3 from misses, or shows the L3 of a line.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from iat_nova.hardware.api import DomainCounts, HardwareError
from iat_nova.hardware.counters.cha import DEVICES, Pmu, read_pmu
from iat_nova.hardware.counters.perf_event import EventGroup, Groups, OpenEvents
from iat_nova.hardware.kernel import files
from iat_nova.hardware.kernel.topology import Cache
from iat_nova.model import message


def fabric_pmu(root: Path = DEVICES) -> Pmu | None:
    """Return the kernel's PMU of the data fabric, or None."""
    folder = root / "amd_df"
    return read_pmu(folder) if files.exists(folder) else None


class FabricPerf:
    """`perf.DomainReader` on amd_df: `DomainCounts.ddio_writes` of every domain of a socket.

    `caches` returns the online cache domains. If a socket's group cannot be opened, was lost, or
    ran less than half of an interval, all domains of the socket are absent.
    """

    def __init__(
        self,
        events: Sequence[Mapping[str, int]],
        caches: Callable[[], Sequence[Cache]],
        *,
        find: Callable[[], Pmu | None] = fabric_pmu,
        open_group: OpenEvents = EventGroup,
    ) -> None:
        self._events = events
        self._caches = caches
        self._find = find
        self._sockets: Groups[int] = Groups(open_group)  # by package
        self._domains: dict[int, int] = {}  # domain -> package

    def watch(self) -> None:
        """Open all missing groups. Raises `HardwareError`."""
        pmu = self._find()
        if pmu is None:
            raise HardwareError(
                message("amd-df-absent", path=str(DEVICES)),
                message("load-module", module="amd_uncore"),
            )
        caches = self._caches()
        self._domains = {cache.id: cache.package for cache in caches}
        package_of = {cpu: cache.package for cache in caches for cpu in cache.cpus}
        events = [pmu.event(terms) for terms in self._events]
        self._sockets.follow(
            {package_of[cpu]: (events, cpu) for cpu in pmu.cpumask if cpu in package_of}
        )

    def read(self) -> Mapping[int, DomainCounts]:
        """Return the running totals by domain: each domain has the totals of its socket."""
        readings = self._sockets.read()
        return {
            domain: DomainCounts(None, None, None, sum(values))
            for domain, package in self._domains.items()
            if (values := readings.get(package)) is not None
        }

    def close(self) -> None:
        """Close all descriptors."""
        self._sockets.close()
