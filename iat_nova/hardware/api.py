# SPDX-License-Identifier: Apache-2.0
"""The three small protocols between the loop and a machine.

A back end implements what it can; `iat_nova.sim` implements all of them in virtual time. Reading
never writes. All calls come from one thread, the loop's.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from iat_nova.model import CacheDomain, Message, WayMask, message
from iat_nova.model.message import as_message


class HardwareError(Exception):
    """The machine refused: `state` says what and where, `remedy` what to do, None: unknown.

    `message` is both. A text in the place of a message is a sentence of a part outside the package.
    """

    def __init__(self, state: Message | str, remedy: Message | str | None = None) -> None:
        advice = None if remedy is None else as_message(remedy)
        self.state, self.remedy = as_message(state), advice
        super().__init__(self.state, advice)

    @property
    def message(self) -> Message:
        """What happened, with its remedy where one is known."""
        if self.remedy is None:
            return self.state
        return message("with-remedy", state=self.state, remedy=self.remedy)

    def __str__(self) -> str:
        return str(self.message)


class LastingRefusal(HardwareError):
    """It would refuse again, however often it is tried: the configuration must change."""


class DomainOffline(HardwareError):
    """Nothing of a cache domain can be reached: its CPUs are all offline."""

    def __init__(self, domain: int) -> None:
        super().__init__(message("domain-all-offline", domain=domain))


def joined(errors: Sequence[HardwareError]) -> HardwareError:
    """Return one error of several: what happened in each, then each remedy once."""
    if len(errors) == 1:
        return HardwareError(errors[0].state, errors[0].remedy)
    remedies: list[Message] = []
    for error in errors:
        if error.remedy is not None and error.remedy not in remedies:
            remedies.append(error.remedy)
    return HardwareError(
        message("several", causes=tuple(error.state for error in errors)),
        message("several", causes=tuple(remedies)) if remedies else None,
    )


def unusable(path: Path, error: OSError | ValueError) -> Message:
    """Return that a file could not be used, with the kernel's word for the reason."""
    reason = error.strerror if isinstance(error, OSError) else None
    return message("file-unusable", path=str(path), reason=reason or str(error))


class CoreCounts(NamedTuple):
    """Counts of one CPU since some fixed moment; they only grow."""

    instructions: int
    cycles: int
    references: int  # LLC
    misses: int  # LLC


class DomainCounts(NamedTuple):
    """Counts of one cache domain since some fixed moment; None: there is no such counter.

    `ddio_writes`: lines that devices wrote to the domain's socket, where nobody counts which of
    them hit (AMD). With several LLCs in a socket no counter says either which of them took a line.
    """

    ddio_hits: int | None  # write updates
    ddio_misses: int | None  # write allocates
    memory_bytes: int | None
    ddio_writes: int | None = None


class L2Counts(NamedTuple):
    """Loads of one CPU that reached its L2, since some fixed moment."""

    hits: int
    misses: int


class InboundCounts(NamedTuple):
    """Bytes that devices wrote to one socket since some fixed moment."""

    storage: int
    network: int


class TenantCounts(NamedTuple):
    """What one tenant has in a cache domain's LLC, and moved to and from memory; None: unknown."""

    occupancy_bytes: int | None  # now
    memory_bytes: int | None  # since some fixed moment


@dataclasses.dataclass(frozen=True, slots=True)
class Counts:
    """One reading of everything watched. What could not be read is absent, never zero.

    `l2` (by CPU), `inbound` (by domain) and `monitored` (by domain and tenant) are empty where
    nobody counts them.
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
        """Count on exactly these CPUs from now on; keeps what is already counted."""

    def read(self) -> Counts:
        """Return the running totals. A CPU that went offline is absent."""

    def close(self) -> None:
        """Give all descriptors back."""


DEFAULT_CLASS = "host"
"""The name under which the machine's default class (class 0, resctrl's root group) is programmed.

It is always there and costs no class of ours; its CPUs are those in no other class, so
the `cpus` of a `ClassMask` of this name are not written anywhere.
"""


@dataclasses.dataclass(frozen=True, slots=True)
class ClassMask:
    """One class of service to be programmed: a name of ours, its CPUs, its mask.

    `bandwidth`: a limit of its memory bandwidth as `CacheDomain.bandwidth` has them; None: none of
    ours. What others set in the default class holds for all classes, where it is the lower one.
    """

    name: str
    cpus: tuple[int, ...]
    mask: WayMask
    bandwidth: int | None = None


class CacheAllocator(Protocol):
    """CAT: which ways the CPUs of a class may fill."""

    def domains(self) -> tuple[CacheDomain, ...]:
        """Return the cache domains with their limits, as found."""

    def apply(self, domain: int, classes: tuple[ClassMask, ...]) -> Mapping[str, WayMask]:
        """Program exactly these classes in a domain and return the *effective* masks, read back.

        CPUs of the domain in no class belong to the default class. A class that is no
        longer named is given up. Raises `HardwareError` with nothing half-done.
        """

    def effective(self, domain: int) -> Mapping[str, WayMask]:
        """Read the masks of our classes back from the machine, by class name."""

    def bandwidth(self, domain: int) -> Mapping[str, int]:
        """Read the memory bandwidth of our classes back, by class name.

        The default class is left out: it is never limited. Empty where nothing can be limited.
        """


class PortDca(Protocol):
    """Root ports whose devices' writes can be kept out of the LLC."""

    def switch(self, domain: int, off: Iterable[str]) -> None:
        """Have DDIO off on these ports of a domain (`CacheDomain.dca_ports`), on at its others.

        Raises `HardwareError`.
        """


class DdioWays(Protocol):
    """The ways into which inbound I/O may allocate."""

    def read(self, domain: int) -> WayMask | None:
        """Return DDIO's mask in a domain, None where it is not known.

        Empty where devices may fill any way and have none of their own.
        """

    def write(self, domain: int, mask: WayMask) -> WayMask:
        """Set DDIO's mask and return it as read back. Raises `HardwareError`.

        The empty mask only where `read` gave it.
        """
