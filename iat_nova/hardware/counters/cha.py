# SPDX-License-Identifier: Apache-2.0
"""DDIO's hits and misses: PCIe writes counted at the LLC lookup, in the CHAs.

Every LLC slice has a CHA (caching and home agent) with four counters. Addresses are spread evenly
over the slices, so the count of one slice times the number of slices is an estimate, and counting
all slices is exact. With sub-NUMA clustering, addresses are spread over the slices of their
memory's cluster: then at least one slice of each cluster is counted.

The kernel's PMUs ``uncore_cha_N`` count.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from iat_nova.common.cpulist import parse_cpus
from iat_nova.hardware.api import DomainCounts, HardwareError, unusable
from iat_nova.hardware.counters.events import ChaEvents
from iat_nova.hardware.counters.perf_event import EventGroup, Groups, OpenEvents, PerfEvent
from iat_nova.hardware.kernel import files
from iat_nova.model import message

DEVICES = Path("/sys/bus/event_source/devices")


@dataclasses.dataclass(frozen=True, slots=True)
class Pmu:
    """A PMU of the kernel: type, counting CPU of each package, formats.

    `formats` maps a term to the bits of the term, such as ``config1:41-50`` or
    ``config:8-15,32-57``.
    """

    name: str
    type: int
    cpumask: tuple[int, ...]
    formats: Mapping[str, str]

    def event(self, terms: Mapping[str, int]) -> PerfEvent:
        """Return the event with these terms. Raises `HardwareError` for an unknown term."""
        words = {"config": 0, "config1": 0, "config2": 0}
        for term, value in terms.items():
            if term not in self.formats:
                there = tuple(sorted(self.formats))
                raise HardwareError(
                    message("pmu-term-absent", pmu=self.name, term=term, there=there)
                )
            word, _, places = self.formats[term].partition(":")
            words[word] |= _spread(value, places)
        return PerfEvent(self.type, words["config"], words["config1"], words["config2"])


def _spread(value: int, places: str) -> int:
    """Put the bits of a value, lowest first, into bit ranges such as ``8-15,32-57``."""
    word = 0
    for place in places.split(","):
        first, _, last = place.partition("-")
        width = int(last or first) - int(first) + 1
        word |= (value & ((1 << width) - 1)) << int(first)
        value >>= width
    if value:
        raise HardwareError(message("pmu-value-too-wide", bits=places))
    return word


def cha_pmus(root: Path = DEVICES) -> tuple[Pmu, ...]:
    """Return the kernel's CHA PMUs in order of their slices; empty without such PMUs."""
    found = []
    for name in files.names(root):
        if match := re.fullmatch(r"uncore_cha_([0-9]+)", name):
            found.append((int(match[1]), root / name))
    return tuple(read_pmu(folder) for _, folder in sorted(found))


def read_pmu(folder: Path) -> Pmu:
    """Return the PMU of a sysfs folder. Raises `HardwareError`."""
    try:
        number, formats = _lasting(folder, folder.stat().st_ino)
        cpumask = tuple(sorted(parse_cpus((folder / "cpumask").read_text())))
    except OSError as error:
        raise HardwareError(unusable(folder, error)) from error
    return Pmu(folder.name, number, cpumask, formats)


@functools.lru_cache(maxsize=1024)
def _lasting(folder: Path, inode: int) -> tuple[int, Mapping[str, str]]:
    """Return a PMU's type and formats, which are constant as long as the folder exists.

    A slice has a dozen of these files, and every arrival or departure of a guest reads the slices.
    A driver that is loaded again makes new folders with other inodes.
    """
    formats = {path.name: path.read_text().strip() for path in (folder / "format").iterdir()}
    return int((folder / "type").read_text()), formats


def spread(slices: int, counted: int | None) -> tuple[int, ...]:
    """Return the slices of a package to count, evenly spread; `counted` None: all slices.

    The slices of a cluster are assumed to have consecutive numbers; no manual confirms this.
    """
    count = slices if counted is None else min(counted, slices)
    return tuple(number * slices // count for number in range(count))


class ChaPerf:
    """`perf.DomainReader` on the kernel's CHA PMUs.

    `domains` returns the domain of every CPU. `slices` PMUs are counted in every package (None:
    all), and the counts are scaled to all PMUs. If a group cannot be opened, was lost, or ran less
    than half of an interval, the domain is absent.
    """

    def __init__(
        self,
        events: ChaEvents,
        domains: Callable[[], Mapping[int, int]],
        *,
        slices: int | None = 1,
        find: Callable[[], Sequence[Pmu]] = cha_pmus,
        open_group: OpenEvents = EventGroup,
    ) -> None:
        self._events = events
        self._domains = domains
        self._slices = slices
        self._find = find
        self._boxes: Groups[tuple[str, int]] = Groups(open_group)  # by PMU and domain
        self._factor = (1, 1)

    def watch(self) -> None:
        """Open all missing groups. Raises `HardwareError`."""
        pmus = tuple(self._find())
        if not pmus:
            raise HardwareError(
                message("uncore-cha-absent", path=str(DEVICES)),
                message("load-module", module="intel_uncore"),
            )
        chosen = [pmus[number] for number in spread(len(pmus), self._slices)]
        self._factor = (len(pmus), len(chosen))
        domain_of = self._domains()
        terms = (*self._events.hits, *self._events.misses)
        events = {pmu.name: [pmu.event(term) for term in terms] for pmu in chosen}
        # When a counting CPU goes offline, the kernel moves the package's events to another CPU.
        self._boxes.follow(
            {
                (pmu.name, domain_of[cpu]): (events[pmu.name], cpu)
                for pmu in chosen
                for cpu in pmu.cpumask
                if cpu in domain_of
            }
        )

    def read(self) -> Mapping[int, DomainCounts]:
        """Return the running totals by domain, scaled to all slices."""
        good: dict[int, list[tuple[int, ...]]] = {}
        for (_, domain), values in self._boxes.read().items():
            good.setdefault(domain, []).append(values)
        _, counted = self._factor
        return {
            domain: counts(
                [sum(event) for event in zip(*readings, strict=True)],
                len(self._events.hits),
                self._factor,
            )
            for domain, readings in good.items()
            if len(readings) == counted
        }

    def close(self) -> None:
        """Close all descriptors."""
        self._boxes.close()


def counts(total: Sequence[int], hits: int, factor: tuple[int, int]) -> DomainCounts:
    """Return sums over events, of which the first `hits` are hits, scaled by (slices, counted)."""
    slices, counted = factor
    return DomainCounts(
        sum(total[:hits]) * slices // counted, sum(total[hits:]) * slices // counted, None
    )
