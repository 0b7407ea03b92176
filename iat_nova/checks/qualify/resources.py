# SPDX-License-Identifier: Apache-2.0
"""Resources of a real host for `qualify`: idle CPUs, and slice counters of the kernel's PMUs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from iat_nova.checks.qualify.api import Unavailable
from iat_nova.common.cpulist import format_cpus
from iat_nova.hardware.api import HardwareError
from iat_nova.hardware.counters.cha import ChaPerf, Pmu, cha_pmus
from iat_nova.hardware.counters.events import ChaEvents
from iat_nova.hardware.host.cures import Symptom, find
from iat_nova.hardware.host.probe import Host
from iat_nova.model import CacheDomain, message
from iat_nova.model.message import MessageError

IDLE = 0.05  # an idle CPU is busy for less of the time


class NoCpus(MessageError):
    """There are no CPUs for the tests; `message` says what to do."""


def busy_times(proc: Path) -> Mapping[int, tuple[int, int]]:
    """Return (busy, all) ticks of each CPU since boot, from ``/proc/stat``."""
    found = {}
    for line in (proc / "stat").read_text().splitlines():
        name, *values = line.split()
        if name.startswith("cpu") and name != "cpu":
            ticks = [int(value) for value in values[:8]]  # guest time is part of user time
            found[int(name[3:])] = (sum(ticks) - ticks[3] - ticks[4], sum(ticks))
    return found


def choose_cpus(
    asked: frozenset[int],
    domains: Sequence[CacheDomain],
    before: Mapping[int, tuple[int, int]],
    after: Mapping[int, tuple[int, int]],
    taken: frozenset[int] = frozenset(),
) -> tuple[CacheDomain, tuple[int, ...]]:
    """Return CPUs of a single cache domain that were idle between two readings of `busy_times`.

    `asked`: the CPUs to use; if empty, two idle CPUs are chosen. `taken`: CPUs to which guests are
    pinned, never chosen unasked. Raises `NoCpus`.
    """
    if asked:
        domain = next((one for one in domains if asked <= set(one.cpus)), None)
        if domain is None:
            there = tuple(format_cpus(one.cpus) for one in domains)
            raise NoCpus(message("cpus-of-several-domains", cpus=format_cpus(asked), domains=there))
        busy = {cpu for cpu in asked if not _idle(cpu, before, after)}
        if busy:
            raise NoCpus(message("cpus-busy", cpus=format_cpus(asked), busy=format_cpus(busy)))
        return domain, tuple(sorted(asked))
    for domain in domains:
        idle = [cpu for cpu in domain.cpus if cpu not in taken and _idle(cpu, before, after)]
        if len(idle) >= 2:
            return domain, tuple(idle[-2:])
    raise NoCpus(message("no-idle-cpus"))


def _idle(
    cpu: int, before: Mapping[int, tuple[int, int]], after: Mapping[int, tuple[int, int]]
) -> bool:
    if cpu not in before or cpu not in after:
        return False
    busy, passed = (now - then for then, now in zip(before[cpu], after[cpu], strict=True))
    return passed > 0 and busy < IDLE * passed


class SlicePmus:
    """`api.SliceCounters` through the kernel's CHA PMUs."""

    def __init__(self, host: Host) -> None:
        if host.model is None or host.model.cha is None:
            raise Unavailable(message("slices-not-counted"))
        pmus = cha_pmus(host.roots.pmus)
        if not pmus:
            absent = find(Symptom.CHA, host)
            raise Unavailable(absent.state, absent.remedy)
        domains = {cpu: cache.id for cache in host.topology.caches() for cpu in cache.cpus}
        self._readers = [_only(pmu, host.model.cha, domains) for pmu in pmus]
        try:
            for reader in self._readers:
                reader.watch()
        except HardwareError:
            self.close()
            raise

    def read(self) -> Mapping[int, Sequence[int]]:
        """Return each slice's running total of devices' writes; see `api.SliceCounters`."""
        each = [reader.read() for reader in self._readers]
        return {
            domain: [(one[domain].ddio_hits or 0) + (one[domain].ddio_misses or 0) for one in each]
            for domain in each[0]
            if all(domain in one for one in each)
        }

    def close(self) -> None:
        """Close all descriptors."""
        for reader in self._readers:
            reader.close()


def _only(pmu: Pmu, events: ChaEvents, domains: Mapping[int, int]) -> ChaPerf:
    """Return counters of a single slice of each socket."""
    return ChaPerf(events, lambda: domains, slices=None, find=lambda: (pmu,))
