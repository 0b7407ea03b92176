# SPDX-License-Identifier: Apache-2.0
"""A4's memory between two samples. Plain data, so that states can be recorded."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping

from iat_nova.model import CacheDomain, Layout, Sample


class A4Phase(enum.StrEnum):
    """The active part of the policy."""

    INIT = "init"  # zones have their minimum; sizes are unknown
    ADJUST = "adjust"  # the low-priority zone grows, or trash ways shrink
    STABLE = "stable"  # sizes are settled; the load is watched


class DeviceKind(enum.StrEnum):
    """The kind of a tenant's device."""

    CORES = "cores"
    NETWORK = "network"
    STORAGE = "storage"


@dataclasses.dataclass(frozen=True, slots=True)
class Label:
    """A tenant in A4's terms."""

    id: str
    high: bool  # high priority
    kind: DeviceKind

    @property
    def io(self) -> bool:
        """Whether the tenant has a device."""
        return self.kind is not DeviceKind.CORES


@dataclasses.dataclass(frozen=True, slots=True)
class TickRates:
    """A tenant's rates over a tick, in percent of accesses; None if unknown."""

    hit: float | None  # LLC
    l2_miss: float | None

    @property
    def llc_miss(self) -> float | None:
        """LLC misses, percent."""
        return None if self.hit is None else 100.0 - self.hit


@dataclasses.dataclass(frozen=True, slots=True)
class TickReading:
    """Counters of a tick. None if there is no such counter: rules based on the counter are skipped.

    `pool`: the total of all antagonists without storage. `memory`, `storage`, `network`: bytes per
    second. `ddio_miss`: percent.
    """

    tenants: Mapping[str, TickRates]
    pool: TickRates | None = None
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
    """Work that is pending for the phases INIT and ADJUST.

    `grow`: enlarge the low-priority zone. `shrink`: reduce the trash ways. `restart`: begin with
    the least zones.
    """

    grow: bool = False
    shrink: bool = False
    restart: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Zones:
    """Number of ways of the low-priority zone (B in the artifact), and of the trash ways (A)."""

    low: int = 2
    trash: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class A4Memory:
    """The policy's memory from tick to tick.

    `initial`: the reading by which sizes are judged. `stable`: the reading by which a change of
    load is detected. `previous`: the tick before.
    """

    phase: A4Phase = A4Phase.INIT
    zones: Zones = dataclasses.field(default_factory=Zones)
    flags: Flags = dataclasses.field(default_factory=Flags)
    antagonists: tuple[str, ...] = ()
    launched: tuple[str, ...] = ()
    initial: TickReading | None = None
    stable: TickReading | None = None
    previous: TickReading | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class A4State:
    """The memory between two steps; `pending` is the first sample of a tick."""

    iteration: int = 0
    labels: tuple[Label, ...] = ()
    domain: CacheDomain | None = None
    memory: A4Memory = dataclasses.field(default_factory=A4Memory)
    layout: Layout | None = None
    pending: Sample | None = None
