# SPDX-License-Identifier: Apache-2.0
"""What A4 remembers between two samples. Plain data, so that it can be recorded."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping

from iat_nova.model import CacheDomain, Layout, Sample


class Phase(enum.StrEnum):
    """Which part of the policy runs."""

    INIT = "init"  # zones are at their least; sizes are to be found
    ADJUST = "adjust"  # the low-priority zone grows, or trash ways shrink
    STABLE = "stable"  # watched for another load


class Kind(enum.StrEnum):
    """What A4 must know of a tenant beside its priority."""

    CORES = "cores"
    NETWORK = "network"
    STORAGE = "storage"


@dataclasses.dataclass(frozen=True, slots=True)
class Label:
    """A tenant as A4 sees it."""

    id: str
    high: bool  # priority
    kind: Kind

    @property
    def io(self) -> bool:
        """Whether it has a device."""
        return self.kind is not Kind.CORES


@dataclasses.dataclass(frozen=True, slots=True)
class Look:
    """A tenant's rates over a tick, in percent of accesses; None where they are not known."""

    hit: float | None  # LLC
    l2_miss: float | None

    @property
    def llc_miss(self) -> float | None:
        """LLC misses, percent."""
        return None if self.hit is None else 100.0 - self.hit


@dataclasses.dataclass(frozen=True, slots=True)
class Reading:
    """A tick's counters. None where there is no such counter: rules that need it are skipped.

    `pool` is what the antagonists without storage did together. Memory, storage and network are
    bytes a second, `ddio_miss` is in percent.
    """

    tenants: Mapping[str, Look]
    pool: Look | None = None
    ddio_miss: float | None = None
    memory: float | None = None
    storage: float | None = None
    network: float | None = None

    @property
    def storage_percent(self) -> float | None:
        """Storage's inbound bytes against the network's; None without a network to crowd."""
        if self.storage is None or not self.network:
            return None
        return 100.0 * self.storage / self.network


@dataclasses.dataclass(frozen=True, slots=True)
class Flags:
    """What is to be done once INIT and ADJUST come to it."""

    grow: bool = False
    shrink: bool = False
    restart: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Zones:
    """Ways of the low-priority zone (B in the artifact), and trash ways for antagonists (A)."""

    low: int = 2
    trash: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class Memory:
    """What the policy remembers from tick to tick.

    `initial` is the reading that sizes are judged against, `stable` the one a change of load is
    seen against, `previous` the tick before.
    """

    phase: Phase = Phase.INIT
    zones: Zones = dataclasses.field(default_factory=Zones)
    flags: Flags = dataclasses.field(default_factory=Flags)
    antagonists: tuple[str, ...] = ()
    launched: tuple[str, ...] = ()
    initial: Reading | None = None
    stable: Reading | None = None
    previous: Reading | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class State:
    """The memory between two steps; `pending` is the first sample of a tick."""

    iteration: int = 0
    labels: tuple[Label, ...] = ()
    domain: CacheDomain | None = None
    memory: Memory = dataclasses.field(default_factory=Memory)
    layout: Layout | None = None
    pending: Sample | None = None
