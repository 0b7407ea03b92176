# SPDX-License-Identifier: Apache-2.0
"""What was measured, by which numbers it was judged, and what was decided."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping

from iat_nova.model.ways import WayMask


@dataclasses.dataclass(frozen=True, slots=True)
class Rates:
    """What a tenant's processors did, summed over them, a second."""

    instructions_per_s: float
    cycles_per_s: float
    references_per_s: float  # LLC
    misses_per_s: float  # LLC

    @property
    def ipc(self) -> float:
        """Instructions a cycle; 0 while the processors slept."""
        return self.instructions_per_s / self.cycles_per_s if self.cycles_per_s else 0.0

    @property
    def miss_ratio(self) -> float:
        """LLC misses a reference, 0..1 (the paper's *miss rate*)."""
        return self.misses_per_s / self.references_per_s if self.references_per_s else 0.0


@dataclasses.dataclass(frozen=True, slots=True)
class Sample:
    """Rates of one cache domain over one measured interval.

    A tenant whose counters could not be read is absent from `tenants`; DDIO rates are None
    where the machine has no such counters. Hits are write updates, misses write allocates.
    """

    domain: int
    taken_at_s: float  # on the loop's clock
    interval_s: float
    tenants: Mapping[str, Rates]
    ddio_hits_per_s: float | None = None
    ddio_misses_per_s: float | None = None
    memory_bytes_per_s: float | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Switches:
    """What the controller may do. The paper's policies are presets of it.

    `avoid_ddio`: DDIO's ways are never given to cores, whatever that costs them (I/O-iso).
    """

    resize_ddio: bool = True
    resize_cores: bool = True
    shuffle: bool = True
    avoid_ddio: bool = False


PRESETS: Mapping[str, Switches] = {
    "baseline": Switches(False, False, False, False),
    "core-only": Switches(False, True, False, False),
    "io-iso": Switches(False, True, False, True),
    "iat": Switches(True, True, True, False),
}
"""The paper's comparison policies (section VI-A) as switches of one controller."""


@dataclasses.dataclass(frozen=True, slots=True)
class Parameters:
    """The policy's numbers, compiled. Defaults are the paper's (section VI-A) unless noted."""

    threshold_stable: float = 0.03  # relative change
    threshold_miss_low_per_s: float = 1e6
    ddio_ways_min: int = 2  # the paper's 1 is used by the figures' scenarios only
    ddio_ways_max: int = 6
    interval_s: float = 1.0
    floor_references_per_s: float = 100e3  # smaller moves do not count (ours)
    floor_ddio_per_s: float = 100e3  # smaller moves do not count (ours)
    reclaim_fall: float = 0.10  # demand this far below the granted one ends the grant (ours)
    retry_change: float = 0.10  # demand moved this far: an undone step may be tried again (ours)
    backoff_initial_s: float = 10.0  # doubles with each step undone (ours)
    backoff_max_s: float = 640.0
    mask_changes_per_minute: int = 30  # damping (ours)
    ddio_growth: str = "one"  # "one" way an iteration, or "miss-curve"


@dataclasses.dataclass(frozen=True, slots=True)
class Allocation:
    """Way counts: how many, not where."""

    ddio_ways: int
    tenants: Mapping[str, int]


@dataclasses.dataclass(frozen=True, slots=True)
class Group:
    """Tenants that share one class of service, hence one mask. Most groups hold one tenant."""

    tenants: tuple[str, ...]
    mask: WayMask


@dataclasses.dataclass(frozen=True, slots=True)
class Layout:
    """Where the ways lie: one mask a group, and DDIO's.

    `exact` is False when there were too many groups for the exact solver and the layout was
    only searched for. `grouped` tells that tenants share partitions for want of ways or classes.
    """

    ddio: WayMask
    groups: tuple[Group, ...]
    exact: bool = True
    grouped: bool = False

    def mask_of(self, tenant: str) -> WayMask | None:
        """Return the mask of a tenant, None when the layout does not know it."""
        return next((group.mask for group in self.groups if tenant in group.tenants), None)

    @property
    def overlaps_ddio(self) -> tuple[str, ...]:
        """The tenants whose ways DDIO writes into as well."""
        return tuple(
            tenant
            for group in self.groups
            if group.mask.overlaps(self.ddio)
            for tenant in group.tenants
        )


class FsmState(enum.StrEnum):
    """The five states of the paper's Mealy machine (Figure 6)."""

    LOW_KEEP = "low keep"
    IO_DEMAND = "I/O demand"
    CORE_DEMAND = "core demand"
    RECLAIM = "reclaim"
    HIGH_KEEP = "high keep"


class Quantity(enum.StrEnum):
    """What can move between two samples."""

    IPC = "ipc"
    REFERENCES = "references_per_s"
    MISSES = "misses_per_s"
    DDIO_HITS = "ddio_hits_per_s"
    DDIO_MISSES = "ddio_misses_per_s"


@dataclasses.dataclass(frozen=True, slots=True)
class Change:
    """A quantity that moved by more than THRESHOLD_STABLE against the reference."""

    subject: str  # a tenant's id, or "ddio"
    quantity: Quantity
    before: float
    after: float

    @property
    def fraction(self) -> float:
        """The relative change; infinite from zero."""
        if self.before:
            return (self.after - self.before) / self.before
        return float("inf") if self.after else 0.0


class Action(enum.StrEnum):
    """What a decision did with one way, or why it did nothing."""

    GROW = "grow"  # a way was granted
    GIVE = "give"  # a way was taken from a best-effort tenant for a grant
    SHRINK = "shrink"  # a granted way went back because its demand has gone
    UNDO = "undo"  # the last grant did not help
    SHUFFLE = "shuffle"  # masks moved, counts did not
    ADOPT = "adopt"  # tenants came, went or changed
    HOLD = "hold"  # something was wanted and not done; the reason tells why


@dataclasses.dataclass(frozen=True, slots=True)
class Step:
    """One action with its subject and its reason, as data (`explain` words it)."""

    action: Action
    subject: str  # a tenant's id, "ddio" or "layout"
    reason: str  # a short sentence in the field's terms, with figures
    ways_before: int | None = None
    ways_after: int | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Decision:
    """What one iteration decided for one cache domain, and why.

    `transition` is the paper's number (1..12), None when the state stayed. `exception` is the
    number (1..3) of the paper's exception that applied. `layout` is what should be on the
    hardware after this decision, `moved` the tenants (and "ddio") whose mask differs from before.
    """

    domain: int
    iteration: int
    at_s: float
    stable: bool
    state_before: FsmState
    state_after: FsmState
    transition: int | None
    exception: int | None
    changes: tuple[Change, ...]
    steps: tuple[Step, ...]
    allocation: Allocation
    layout: Layout
    moved: tuple[str, ...]
