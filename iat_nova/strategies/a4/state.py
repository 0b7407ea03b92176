# SPDX-License-Identifier: Apache-2.0
"""A4's memory between two samples. Plain data, so that states can be recorded."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping

from iat_nova.model import CacheDomain, Layout, Sample


class Phase(enum.StrEnum):
    """The active part of the policy."""

    INIT = "init"  # zones have their minimum; sizes are unknown
    ADJUST = "adjust"  # the low-priority zone grows, or trash ways shrink
    STABLE = "stable"  # sizes are settled; the load is watched


class Kind(enum.StrEnum):
    """The kind of a tenant's device."""

    CORES = "cores"
    NETWORK = "network"
    STORAGE = "storage"


@dataclasses.dataclass(frozen=True, slots=True)
class Label:
    """A tenant in A4's terms."""

    id: str
    high: bool  # high priority
    kind: Kind

    @property
    def io(self) -> bool:
        """Whether the tenant has a device."""
        return self.kind is not Kind.CORES


@dataclasses.dataclass(frozen=True, slots=True)
class Look:
    """A tenant's rates over a tick, in percent of accesses; None if unknown."""

    hit: float | None  # LLC
    l2_miss: float | None

    @property
    def llc_miss(self) -> float | None:
        """LLC misses, percent."""
        return None if self.hit is None else 100.0 - self.hit


@dataclasses.dataclass(frozen=True, slots=True)
class Reading:
    """Counters of a tick. None if there is no such counter: rules based on the counter are skipped.

    `pool`: the total of all antagonists without storage. `memory`, `storage`, `network`: bytes per
    second. `ddio_miss`: percent.
    """

    tenants: Mapping[str, Look]
    pool: Look | None = None
    ddio_miss: float | None = None
    memory: float | None = None
    storage: float | None = None
    network: float | None = None

    @property
    def storage_percent(self) -> float | None:
        """Storage's inbound bytes in percent of the network's; None without network traffic."""
        if self.storage is None or not self.network:
            return None
        return 100.0 * self.storage / self.network


@dataclasses.dataclass(frozen=True, slots=True)
class Flags:
    """Pending work for INIT and ADJUST."""

    grow: bool = False
    shrink: bool = False
    restart: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Zones:
    """Number of ways of the low-priority zone (B in the artifact), and of the trash ways (A)."""

    low: int = 2
    trash: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class Memory:
    """The policy's memory from tick to tick.

    `initial`: the reading by which sizes are judged. `stable`: the reading by which a change of
    load is detected. `previous`: the tick before.
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
