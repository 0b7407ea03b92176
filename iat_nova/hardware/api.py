# SPDX-License-Identifier: Apache-2.0
"""The protocols between the loop and a machine: counters, classes, root ports, DDIO's ways.

A back end implements one or several protocols; `iat_nova.experiments.server` has all in virtual
time. Reading never writes. All calls come from the loop's thread.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from iat_nova.model import CacheDomain, Message, PortGroup, WayMask, message
from iat_nova.model.message import as_message


class HardwareError(Exception):
    """The machine refused: `state` has the failure and its place, `remedy` the advice or None.

    `message` has both. A text instead of a message is a sentence from outside this package.
    """

    def __init__(self, state: Message | str, remedy: Message | str | None = None) -> None:
        advice = None if remedy is None else as_message(remedy)
        self.state, self.remedy = as_message(state), advice
        super().__init__(self.state, advice)

    @property
    def message(self) -> Message:
        """The failure, with the remedy if known."""
        if self.remedy is None:
            return self.state
        return message("with-remedy", state=self.state, remedy=self.remedy)

    def __str__(self) -> str:
        return str(self.message)


FAILURES: tuple[type[Exception], ...] = (HardwareError, OSError)
"""Errors of hardware and files, which a working agent shows; other errors are bugs and end it."""


class KernelError(HardwareError):
    """The kernel refused; `code` is the errno, None if unknown."""

    def __init__(
        self, state: Message | str, code: int | None = None, remedy: Message | str | None = None
    ) -> None:
        super().__init__(state, remedy)
        self.code = code


class LastingRefusal(HardwareError):
    """The machine would refuse every retry: the configuration must change."""


class ForeignHand(HardwareError):
    """Another program changed settings since the agent's write, or during the write."""


class DomainOffline(HardwareError):
    """A cache domain cannot be reached: all its CPUs are offline."""

    def __init__(self, domain: int) -> None:
        super().__init__(message("domain-all-offline", domain=domain))


def joined(errors: Sequence[HardwareError]) -> HardwareError:
    """Return one error for several: all failures, then each remedy once."""
    if len(errors) == 1:
        return HardwareError(errors[0].state, errors[0].remedy)
    remedies: list[Message] = []
    for error in errors:
        if error.remedy is not None and error.remedy not in remedies:
            remedies.append(error.remedy)
    state = message("several", causes=tuple(error.state for error in errors))
    if len(remedies) < 2:
        return HardwareError(state, *remedies)
    return HardwareError(state, message("several", causes=tuple(remedies)))


def unusable(path: Path, error: OSError | ValueError) -> Message:
    """Return the message of a file that cannot be used, with the kernel's reason."""
    reason = error.strerror if isinstance(error, OSError) else None
    return message("file-unusable", path=str(path), reason=reason or str(error))


class CoreCounts(NamedTuple):
    """Counts of one CPU since some fixed moment; the counts never decrease."""

    instructions: int
    cycles: int
    references: int  # LLC
    misses: int  # LLC


class DomainCounts(NamedTuple):
    """Counts of one cache domain since some fixed moment; None: no such counter.

    `ddio_writes`: lines that devices wrote to the domain's socket, where no counter distinguishes
    hits from misses (AMD). If a socket has several LLCs, no counter shows the LLC of a line either.
    """

    ddio_hits: int | None  # write updates
    ddio_misses: int | None  # write allocates
    memory_bytes: int | None
    ddio_writes: int | None = None


class L2Counts(NamedTuple):
    """L2 hits and misses of one CPU's loads since a fixed moment."""

    hits: int
    misses: int


class InboundCounts(NamedTuple):
    """Bytes that devices wrote to one socket since some fixed moment."""

    storage: int
    network: int


class TenantCounts(NamedTuple):
    """LLC occupancy of a tenant or port in a cache domain, and memory traffic; None: unknown."""

    occupancy_bytes: int | None  # now
    memory_bytes: int | None  # since some fixed moment


@dataclasses.dataclass(frozen=True, slots=True)
class Counts:
    """One reading of all watched counters. Unreadable values are absent, never zero.

    `l2` (by CPU), `inbound` (by domain) and `monitored` (by domain, and tenant or port of devices)
    are empty without such counters.
    """

    taken_at_s: float  # the loop's clock
    cores: Mapping[int, CoreCounts]
    domains: Mapping[int, DomainCounts]
    l2: Mapping[int, L2Counts] = dataclasses.field(default_factory=dict)
    inbound: Mapping[int, InboundCounts] = dataclasses.field(default_factory=dict)
    monitored: Mapping[tuple[int, str], TenantCounts] = dataclasses.field(default_factory=dict)


class Counters(Protocol):
    """Per-CPU and per-domain event counters."""

    def watch(self, cpus: Iterable[int]) -> None:
        """Count on exactly these CPUs from now on; keep earlier counts."""

    def read(self) -> Counts:
        """Return the running totals. A CPU that went offline is absent."""

    def close(self) -> None:
        """Close all descriptors."""


DEFAULT_CLASS = "host"
"""The name of the machine's default class (class 0, resctrl's root group).

The default class always exists and does not count among our classes. Its CPUs are the CPUs without
another class, so the `cpus` of a `ClassMask` with this name are not written.
"""


@dataclasses.dataclass(frozen=True, slots=True)
class ClassMask:
    """One class of service to program: our name for the class, CPUs, mask.

    `bandwidth`: a limit of memory bandwidth, in the unit of `CacheDomain.bandwidth`; None: no limit
    of ours. A lower limit of the default class, set by other programs, applies to all classes.
    """

    name: str
    cpus: tuple[int, ...]
    mask: WayMask
    bandwidth: int | None = None


class CacheAllocator(Protocol):
    """CAT: the ways that the CPUs of a class may fill."""

    def domains(self) -> tuple[CacheDomain, ...]:
        """Return the cache domains with their limits, as found."""

    def apply(self, domain: int, classes: tuple[ClassMask, ...]) -> Mapping[str, WayMask]:
        """Program exactly these classes in a domain and return the *effective* masks, read back.

        CPUs of the domain without a class belong to the default class. A class that is no longer
        named is released. Raises `HardwareError` with all changes undone.
        """

    def effective(self, domain: int) -> Mapping[str, WayMask]:
        """Read back the masks of our classes from the machine, by class name."""

    def bandwidth(self, domain: int) -> Mapping[str, int]:
        """Read back the memory bandwidth of our classes, by class name.

        The default class is left out, because the agent never limits it. Empty if the machine
        cannot limit bandwidth.
        """


class PortDca(Protocol):
    """Root ports on which DDIO can be off: writes of devices then bypass the LLC."""

    def off(self) -> None:
        """Switch DDIO off on the ports that stay off while the agent enforces.

        Called with the snapshot on disk, before each write of a layout. Raises `HardwareError`.
        """

    def switch(self, domain: int, off: Iterable[str]) -> None:
        """Switch DDIO off on these ports of a domain (`CacheDomain.dca_ports`), on at other ports.

        Raises `HardwareError`.
        """


class PortWays(Protocol):
    """Ports (`CacheDomain.device_ports`) whose devices may have ways of their own (I/O RDT)."""

    def place(self, domain: int, groups: tuple[PortGroup, ...]) -> Mapping[str, WayMask]:
        """Give these groups of ports their ways; return the masks by port, read back.

        All other ports of the domain share the DDIO ways. Raises `HardwareError` with all changes
        undone.
        """

    def placed(self, domain: int) -> Mapping[str, WayMask]:
        """Read back the masks of the domain's ports that have ways of their own, by port."""


class DdioWays(Protocol):
    """The ways into which inbound I/O may allocate."""

    def read(self, domain: int) -> WayMask | None:
        """Return DDIO's mask in a domain, None if unknown.

        Empty if devices may fill any way without ways of their own.
        """

    def write(self, domain: int, mask: WayMask) -> WayMask:
        """Set DDIO's mask and return the mask as read back. Raises `HardwareError`.

        The empty mask is valid only if `read` returned the empty mask.
        """
