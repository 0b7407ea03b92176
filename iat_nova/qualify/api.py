# SPDX-License-Identifier: Apache-2.0
"""What a test is made of, and what it is given of the host."""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar

from iat_nova.common.clock import Clock
from iat_nova.hardware.api import CacheAllocator, ClassMask, Counters, DdioWays
from iat_nova.model import CacheDomain, WayMask

CLASS = "qualify"
"""The name of the class of service in which tests run."""


class Verdict(enum.StrEnum):
    """What a test says of the hardware."""

    PASS = "pass"
    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"  # measured, but the figures allow no judgement
    UNAVAILABLE = "unavailable"  # could not be measured here


class Unavailable(Exception):
    """A test cannot be made here: a tool, an interface or a right is missing; `remedy` mends it."""

    def __init__(self, why: str, remedy: str | None = None) -> None:
        super().__init__(why)
        self.remedy = remedy


@dataclasses.dataclass(frozen=True, slots=True)
class Judgement:
    """A verdict: what was seen, what it means for the agent, and what to do about it."""

    verdict: Verdict
    says: str
    means: str
    remedy: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Chart:
    """Curves of what was measured: each has a name and points (x, y); `ticks` are words along x.

    `unit` is that of y: share (0 to 1), count, seconds, bytes_per_s.
    """

    title: str
    x: str
    unit: str
    lines: Sequence[tuple[str, Sequence[tuple[float, float]]]]
    ticks: Sequence[tuple[float, str]]


class Walker(Protocol):
    """Goes through an array in random order, each access waiting for the one before."""

    def __call__(self, cpu: int, size: int, accesses: int) -> Callable[[], float]:
        """Lay out an array of `size` bytes and go through it once, on a CPU.

        Returns what does so many accesses and returns the seconds they took. Raises `Unavailable`.
        """


class Inbound(Protocol):
    """Devices that write to memory."""

    def flowing(self, cpu: int, footprint: int) -> contextlib.AbstractContextManager[None]:
        """Have devices write into buffers of `footprint` bytes, over and over.

        A CPU hands out the requests. Raises `Unavailable`.
        """

    @property
    def ours(self) -> bool:
        """Whether the buffers have the size that was asked for: it is not others' traffic."""


class Streams(Protocol):
    """Moves data between CPUs and memory as fast as it goes."""

    def __call__(self, cpus: Sequence[int]) -> float:
        """Return bytes a second of all these at once. Raises `Unavailable`."""


class Have(Protocol):
    """Sets what the class has in which tests run. Raises `HardwareError`."""

    def __call__(self, count: int, bandwidth: int | None = None) -> None:
        """Give it so many ways, and a limit as `CacheDomain.bandwidth` has them; None: none."""


class SliceCounters(Protocol):
    """Counts devices' writes in each slice of each socket's LLC."""

    def read(self) -> Mapping[int, Sequence[int]]:
        """Return running totals, a slice each, by cache domain. Raises `Unavailable`."""

    def close(self) -> None:
        """Give all descriptors back."""


@dataclasses.dataclass(frozen=True, slots=True)
class Bench:
    """The host as a test meets it.

    `domain` is that of `cpus`, which nobody else needs now; the first walks, the last hands out
    I/O. `clusters`: how many NUMA nodes share its LLC. `ddio_refused` says why DDIO's ways cannot
    be moved, None when they can.
    """

    domain: CacheDomain
    domains: tuple[CacheDomain, ...]
    cpus: tuple[int, ...]
    clusters: int
    counters: Counters
    allocator: CacheAllocator
    ddio: DdioWays
    ddio_refused: str | None
    clock: Clock
    walker: Walker
    inbound: Inbound
    streams: Streams
    slices: Callable[[], SliceCounters]

    def pause(self, seconds: float) -> None:
        """Let time pass."""
        self.clock.wait(threading.Event(), seconds)

    @property
    def ways(self) -> tuple[int, ...]:
        """Some numbers of ways a class may have, ascending: the least, two, a few, most."""
        least = max(2, self.domain.min_ways)
        room = self.domain.ways - self.domain.reserved_ways.count
        return tuple(sorted({least, min(4, room), min(8, room), room} - set(range(least))))

    @contextlib.contextmanager
    def in_class(self) -> Iterator[Have]:
        """Have the CPUs in a class of their own; gives what sets its ways and its bandwidth."""

        def have(count: int, bandwidth: int | None = None) -> None:
            mask = lowest_free(self.domain, count)
            item = ClassMask(CLASS, self.cpus, mask, bandwidth)
            self.allocator.apply(self.domain.id, (item,))

        try:
            yield have
        finally:
            self.allocator.apply(self.domain.id, ())


def lowest_free(domain: CacheDomain, count: int) -> WayMask:
    """Return the lowest run of ways that nobody reserved. Raises `Unavailable` where none is."""
    for lowest in range(domain.ways - count + 1):
        mask = WayMask.span(lowest, count)
        if not mask.overlaps(domain.reserved_ways):
            return mask
    raise Unavailable(f"no {count} adjoining ways are free of exclusive groups")


Row = TypeVar("Row")


@dataclasses.dataclass(frozen=True, slots=True)
class Test(Generic[Row]):
    """One test: a row of `registry.TESTS`. `about_s`: how long it takes, roughly.

    `measure` raises `Unavailable` or `HardwareError`, and leaves things as they were; it is
    given what shows each step. `judge` and `chart` are pure.
    """

    name: str
    question: str
    about_s: float
    measure: Callable[[Bench, Callable[[str], None]], Sequence[Row]]
    judge: Callable[[Sequence[Row]], Judgement]
    chart: Callable[[Sequence[Row]], Chart]


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one test; no chart where nothing was measured."""

    name: str
    question: str
    judgement: Judgement
    seconds: float
    rows: tuple[Mapping[str, Any], ...] = ()
    chart: Chart | None = None
