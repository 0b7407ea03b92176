# SPDX-License-Identifier: Apache-2.0
"""The parts of a test, and the host's resources given to a test."""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar

from iat_nova.common.clock import Clock
from iat_nova.hardware.api import CacheAllocator, ClassMask, Counters, DdioWays, PortWays
from iat_nova.model import CacheDomain, Message, WayMask, message
from iat_nova.model.message import MessageError

CLASS = "qualify"
"""The name of the class of service in which tests run."""


class Verdict(enum.StrEnum):
    """A test's verdict on the hardware."""

    PASS = "pass"
    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"  # measured, but the figures allow no judgement
    UNAVAILABLE = "unavailable"  # could not be measured here


class Unavailable(MessageError):
    """A test cannot run here: a tool, an interface or a right is missing."""


@dataclasses.dataclass(frozen=True, slots=True)
class Judgement:
    """A verdict: the observation, its meaning for the agent, and the remedy."""

    verdict: Verdict
    says: Message
    means: Message
    remedy: Message | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Chart:
    """Curves of the measurement, each with a name and points (x, y). `ticks` are labels along x.

    `unit` is the unit of y: share (0 to 1), count, seconds, bytes_per_s.
    """

    title: str
    x: str
    unit: str
    lines: Sequence[tuple[str, Sequence[tuple[float, float]]]]
    ticks: Sequence[tuple[float, str]]


Walker = Callable[[int, int, int], Callable[[], float]]
"""(CPU, size, accesses) -> a function that walks through an array of `size` bytes on the CPU.

The array was walked once. The function makes `accesses` accesses in random order, each waits for
the previous access, and returns the seconds taken. Raises `Unavailable`.
"""


class InboundTraffic(Protocol):
    """Devices that write to memory."""

    def flowing(self, cpu: int, footprint: int) -> contextlib.AbstractContextManager[None]:
        """Make devices write into buffers of `footprint` bytes, repeatedly.

        `cpu` issues the requests. Raises `Unavailable`.
        """

    @property
    def ours(self) -> bool:
        """Whether the buffers have the requested size; false for traffic of other programs."""

    @property
    def devices(self) -> tuple[str, ...]:
        """The PCI addresses of the writing device and of all bridges above; empty: unknown.

        Raises `Unavailable` if several devices write.
        """


Streams = Callable[[Sequence[int]], float]
"""A program that moves data between CPUs and memory at full speed; returns their bytes per second.

Raises `Unavailable`.
"""


class Have(Protocol):
    """A function that gives ways and bandwidth to the tests' class. Raises `HardwareError`."""

    def __call__(self, count: int, bandwidth: int | None = None) -> None:
        """Give the class `count` ways and a bandwidth limit.

        `bandwidth`: in units of `CacheDomain.bandwidth`; None: no limit.
        """


class SliceCounters(Protocol):
    """Counters of devices' writes in each slice of each socket's LLC."""

    def read(self) -> Mapping[int, Sequence[int]]:
        """Return running totals of each slice by cache domain. Raises `Unavailable`."""

    def close(self) -> None:
        """Close all descriptors."""


@dataclasses.dataclass(frozen=True, slots=True)
class Bench:
    """The host's resources for a test.

    `cpus`: idle CPUs of `domain`; the first walks, the last issues I/O. `clusters`: number of NUMA
    nodes that share the LLC. `ddio_refused`: the reason why DDIO's ways cannot be moved, or None.
    `ddio_counted`: how DDIO's hits and misses are counted, or why not. `port_ways`: None without
    I/O RDT.
    """

    domain: CacheDomain
    domains: tuple[CacheDomain, ...]
    cpus: tuple[int, ...]
    clusters: int
    counters: Counters
    allocator: CacheAllocator
    ddio: DdioWays
    ddio_refused: Message | None
    ddio_counted: Message
    clock: Clock
    walker: Walker
    inbound: InboundTraffic
    streams: Streams
    slices: Callable[[], SliceCounters]
    port_ways: PortWays | None = None

    def pause(self, seconds: float) -> None:
        """Wait `seconds` seconds."""
        self.clock.wait(threading.Event(), seconds)

    @property
    def ways(self) -> tuple[int, ...]:
        """Numbers of ways to try for a class, ascending: the fewest, a few, most."""
        least = max(2, self.domain.min_ways)
        room = self.domain.ways - self.domain.reserved_ways.count
        return tuple(sorted({least, min(4, room), min(8, room), room} - set(range(least))))

    @contextlib.contextmanager
    def in_class(self) -> Iterator[Have]:
        """Put the CPUs in a class of their own; yield a function that sets ways and bandwidth."""

        def have(count: int, bandwidth: int | None = None) -> None:
            mask = lowest_free(self.domain, count)
            item = ClassMask(CLASS, self.cpus, mask, bandwidth)
            self.allocator.apply(self.domain.id, (item,))

        try:
            yield have
        finally:
            self.allocator.apply(self.domain.id, ())


def lowest_free(domain: CacheDomain, count: int) -> WayMask:
    """Return the lowest run of unreserved ways. Raises `Unavailable` if there is none."""
    for lowest in range(domain.ways - count + 1):
        mask = WayMask.span(lowest, count)
        if not mask.overlaps(domain.reserved_ways):
            return mask
    raise Unavailable(message("no-adjoining-ways-free", ways=count))


Row = TypeVar("Row")


@dataclasses.dataclass(frozen=True, slots=True)
class Test(Generic[Row]):
    """A test, listed in `run.TESTS`. `about_s`: approximate duration in seconds.

    `measure` raises `Unavailable` or `HardwareError` and restores all settings; its second argument
    shows each step. `judge` and `chart` are pure.
    """

    name: str
    question: str
    about_s: float
    measure: Callable[[Bench, Callable[[str], None]], Sequence[Row]]
    judge: Callable[[Sequence[Row]], Judgement]
    chart: Callable[[Sequence[Row]], Chart]


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """Result of a test; `chart` is None if nothing was measured."""

    name: str
    question: str
    judgement: Judgement
    seconds: float
    rows: tuple[Mapping[str, Any], ...] = ()
    chart: Chart | None = None
