# SPDX-License-Identifier: Apache-2.0
"""Measurements, the parameters that judge them, and decisions."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterable, Mapping

from iat_nova.model.message import Message
from iat_nova.model.ways import WayMask

DDIO = "ddio"
"""The subject of steps, changes and moves that concern DDIO instead of a tenant."""


@dataclasses.dataclass(frozen=True, slots=True)
class Rates:
    """Activity of a tenant's CPUs, summed over the CPUs, per second.

    L2 rates are None where no back end counts them. Their events are MEM_LOAD_RETIRED.L2_HIT and
    .L2_MISS of a CPU. So far the emulated server is the only back end with L2 rates.
    `occupancy_bytes`: the tenant's present occupancy of the LLC. `memory_bytes_per_s`: traffic to
    and from memory. Both are None for a tenant without monitoring.
    """

    instructions_per_s: float
    cycles_per_s: float
    references_per_s: float  # LLC
    misses_per_s: float  # LLC
    l2_hits_per_s: float | None = None
    l2_misses_per_s: float | None = None
    occupancy_bytes: int | None = None
    memory_bytes_per_s: float | None = None

    @property
    def ipc(self) -> float:
        """Instructions per cycle; 0 while the CPUs slept."""
        return self.instructions_per_s / self.cycles_per_s if self.cycles_per_s else 0.0

    @property
    def miss_ratio(self) -> float:
        """LLC misses per reference, 0..1 (the paper's *miss rate*)."""
        return self.misses_per_s / self.references_per_s if self.references_per_s else 0.0


@dataclasses.dataclass(frozen=True, slots=True)
class PortRates:
    """A port's present occupancy of the LLC, and its traffic to and from memory per second.

    None where no RMID counts it.
    """

    occupancy_bytes: int | None = None
    memory_bytes_per_s: float | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Sample:
    """Rates of one cache domain over one measured interval.

    A tenant whose counters could not be read is absent from `tenants`. DDIO rates are None where
    the machine has no such counters. Hits are write updates, misses write allocates. AMD does not
    count hits apart from misses: both are None, and `ddio_writes_per_s` has all lines that devices
    wrote to the domain's socket. Elsewhere `ddio_writes_per_s` is None. Inbound bytes are the
    writes of devices to this socket: storage reads and received packets. The IIO stacks count them
    by port (UNC_IIO_DATA_REQ_OF_CPU.MEM_WRITE.PART0 to 3). Inbound bytes are None without such
    counters; so far the emulated server is the only back end with them. `ports`: by the id of
    `CacheDomain.device_ports`; a port without an RMID (I/O RDT) is absent.
    """

    domain: int
    taken_at_s: float  # on the loop's clock
    interval_s: float
    tenants: Mapping[str, Rates]
    ddio_hits_per_s: float | None = None
    ddio_misses_per_s: float | None = None
    memory_bytes_per_s: float | None = None
    storage_in_bytes_per_s: float | None = None
    network_in_bytes_per_s: float | None = None
    ddio_writes_per_s: float | None = None
    ports: Mapping[str, PortRates] = dataclasses.field(default_factory=dict)

    @property
    def inbound_lines_per_s(self) -> float | None:
        """Lines that devices wrote, hits and misses together; None if not counted."""
        if self.ddio_hits_per_s is None or self.ddio_misses_per_s is None:
            return self.ddio_writes_per_s
        return self.ddio_hits_per_s + self.ddio_misses_per_s


@dataclasses.dataclass(frozen=True, slots=True)
class Parameters:
    """The policy's numbers, compiled. Defaults are the paper's (section VI-A) unless noted.

    `domains`: parameters of cache domains that differ from the host's, by domain id.
    """

    threshold_stable: float = 0.03  # relative change
    threshold_miss_low_per_s: float = 1e6
    ddio_ways_min: int = 2  # the paper's 1 is used by the figures' scenarios only
    ddio_ways_max: int = 6
    interval_s: float = 1.0
    floor_references_per_s: float = 100e3  # smaller moves do not count (ours)
    floor_ddio_per_s: float = 100e3  # smaller moves do not count (ours)
    reclaim_fall: float = 0.10  # demand this far below the granted demand ends the grant (ours)
    retry_change: float = 0.10  # demand moved this far: an undone step may be tried again (ours)
    backoff_initial_s: float = 10.0  # doubles with each step undone (ours)
    backoff_max_s: float = 640.0
    mask_changes_per_minute: int = 30  # damping (ours)
    ddio_growth: str = "one"  # "one" way an iteration, or "miss-curve"
    best_effort_min: float = 0.85  # share of its speed that a best-effort tenant keeps (ours)
    domains: Mapping[int, Parameters] = dataclasses.field(default_factory=dict, hash=False)

    def of(self, domain: int) -> Parameters:
        """Return the parameters of a cache domain."""
        return self.domains.get(domain, self)


@dataclasses.dataclass(frozen=True, slots=True)
class Allocation:
    """Way counts of DDIO and of each tenant, without positions."""

    ddio_ways: int
    tenants: Mapping[str, int]


UNLIMITED = 100
"""The limit of memory bandwidth, in percent, of a class without a limit."""


@dataclasses.dataclass(frozen=True, slots=True)
class Group:
    """Tenants that share one class of service, hence one mask. Most groups hold one tenant.

    `bandwidth`: the memory bandwidth that the class may use, in percent; 100 means no limit. The
    group with the host's own CPUs never has a limit.
    """

    tenants: tuple[str, ...]
    mask: WayMask
    bandwidth: int = UNLIMITED


@dataclasses.dataclass(frozen=True, slots=True)
class PortGroup:
    """Ports (`CacheDomain.device_ports`) that share a class of service, hence one mask."""

    ports: tuple[str, ...]
    mask: WayMask


@dataclasses.dataclass(frozen=True, slots=True)
class Layout:
    """Positions of the ways: one mask per group, and DDIO's mask.

    `exact` is False when there were too many groups for the exact solver and a search found the
    layout. `grouped`: tenants share partitions because ways or classes are scarce. `lent`: the
    host's class with its counted partition, while its mask in `groups` extends over ways guaranteed
    to no tenant. `lent` is None while no ways are lent. `dca_off`: the root ports
    (`CacheDomain.dca_ports`) whose devices write to memory instead of into the LLC. `ports`: ports
    with ways of their own; devices of all other ports write into the DDIO ways.
    """

    ddio: WayMask
    groups: tuple[Group, ...]
    exact: bool = True
    grouped: bool = False
    lent: Group | None = None
    dca_off: tuple[str, ...] = ()
    ports: tuple[PortGroup, ...] = ()

    @property
    def counted(self) -> Layout:
        """The same layout without lent ways: each group has its counted mask."""
        if self.lent is None:
            return self
        others = (group for group in self.groups if group.tenants != self.lent.tenants)
        groups = sorted((*others, self.lent), key=lambda group: group.mask)
        return dataclasses.replace(self, groups=tuple(groups), lent=None)

    def mask_of(self, subject: str) -> WayMask | None:
        """Return the mask of DDIO, a tenant, or a port with own ways; None for other subjects."""
        if subject == DDIO:
            return self.ddio
        for group in self.groups:
            if subject in group.tenants:
                return group.mask
        return self.port_masks.get(subject)

    @property
    def port_masks(self) -> dict[str, WayMask]:
        """The masks of the ports with ways of their own, by id."""
        return {port: group.mask for group in self.ports for port in group.ports}

    @property
    def inbound(self) -> WayMask:
        """The ways into which any device writes."""
        mask = int(self.ddio)
        for group in self.ports:
            mask |= group.mask
        return WayMask(mask)

    def allocation(self, tenants: Iterable[str]) -> Allocation:
        """Return the way counts, 0 without a mask; a shared way counts for each tenant."""
        counts = {tenant: one.mask.count for one in self.groups for tenant in one.tenants}
        return Allocation(self.ddio.count, {one: counts.get(one, 0) for one in tenants})

    def bandwidth_of(self, tenant: str) -> int:
        """Return the memory bandwidth that a tenant may use, in percent; 100 without a limit."""
        found = (group.bandwidth for group in self.groups if tenant in group.tenants)
        return next(found, UNLIMITED)

    def limits_since(self, before: Layout | None) -> dict[str, tuple[int, int]]:
        """Return tenants whose limit of memory bandwidth differs from `before`: (before, now)."""
        if before is self or not (self._limits or (before and before._limits)):
            return {}
        pairs = {
            tenant: (UNLIMITED if before is None else before.bandwidth_of(tenant), group.bandwidth)
            for group in self.groups
            for tenant in group.tenants
        }
        return {tenant: pair for tenant, pair in pairs.items() if pair[0] != pair[1]}

    @property
    def _limits(self) -> bool:
        return any(group.bandwidth != UNLIMITED for group in self.groups)

    def moved_since(self, before: Layout | None) -> tuple[str, ...]:
        """Return the subjects with another mask than `before`: tenants, ports, DDIO.

        DDIO's place includes the root ports where it is off.
        """
        if before is self:
            return ()
        was = {t: group.mask for group in before.groups for t in group.tenants} if before else {}
        moved = [t for group in self.groups for t in group.tenants if was.get(t) != group.mask]
        moved += self.ports_moved_since(before)
        if before is None or (before.ddio, before.dca_off) != (self.ddio, self.dca_off):
            moved.append(DDIO)
        return tuple(moved)

    def ports_moved_since(self, before: Layout | None) -> tuple[str, ...]:
        """Return the ports whose devices write into other ways than `before`, DDIO's included."""
        if not self.ports and (before is None or not before.ports):
            return ()
        had, have = before.port_masks if before is not None else {}, self.port_masks
        ddio = before.ddio if before is not None else self.ddio
        ports = dict.fromkeys((*have, *had))
        return tuple(p for p in ports if have.get(p, self.ddio) != had.get(p, ddio))

    @property
    def overlaps_ddio(self) -> tuple[str, ...]:
        """The tenants whose ways overlap the ways of devices."""
        inbound = self.inbound if self.ports else self.ddio
        return tuple(
            tenant
            for group in self.groups
            if group.mask.overlaps(inbound)
            for tenant in group.tenants
        )


class Quantity(enum.StrEnum):
    """A measured quantity that can change between two samples."""

    IPC = "ipc"
    REFERENCES = "references_per_s"
    MISSES = "misses_per_s"
    DDIO_HITS = "ddio_hits_per_s"
    DDIO_MISSES = "ddio_misses_per_s"


@dataclasses.dataclass(frozen=True, slots=True)
class Change:
    """A quantity that changed against the reference by more than THRESHOLD_STABLE and a floor."""

    subject: str  # a tenant's id, or "ddio"
    quantity: Quantity
    before: float
    after: float

    @property
    def fraction(self) -> float:
        """The relative change; infinite for a change from zero."""
        if self.before:
            return (self.after - self.before) / self.before
        return float("inf") if self.after else 0.0


class Action(enum.StrEnum):
    """The action of a step: a change of ways, or the reason for leaving ways as they are."""

    GROW = "grow"  # a way was granted
    GIVE = "give"  # a way was taken from a best-effort tenant for a grant
    SHRINK = "shrink"  # a granted way went back because its demand has gone
    TRY = "try"  # a move is on the hardware, to measure its gain
    KEEP = "keep"  # the move on trial pays
    UNDO = "undo"  # the last grant, or the move on trial, did not help
    SHUFFLE = "shuffle"  # masks moved, counts did not
    ADOPT = "adopt"  # tenants came, went or changed
    WATCH = "watch"  # the load changed: tenants are measured again
    REFUSE = "refuse"  # a change was wanted and rejected; the reason says why

    @property
    def acts(self) -> bool:
        """Whether the step changes ways, or confirms a change."""
        return self not in (Action.WATCH, Action.REFUSE)


@dataclasses.dataclass(frozen=True, slots=True)
class Step:
    """An action, its subject and its reason, as values. `report` makes sentences from steps.

    `ports`: ids of the ports of devices that the action is about.
    """

    action: Action
    subject: str  # a tenant's id, "ddio" or "layout"
    reason: Message
    ways_before: int | None = None
    ways_after: int | None = None
    ports: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Decision:
    """The decision of one iteration for one cache domain, in the same form for every strategy.

    `phase` is the strategy's own name for its state, `phase_before` the phase of the previous
    iteration. `rule`: the number of the strategy's rule that applied, or None. `why` explains phase
    and rule, the rule's meaning first. `changes` are relative to the sample taken at `since_s`.
    `layout` is the wanted state of the hardware after this decision. `moved`: the tenants (and
    "ddio") whose mask differs from before. `stable`: no step was taken and no mask moved; under
    strategy `iat`, no quantity changed either.
    """

    domain: int
    iteration: int
    at_s: float
    stable: bool
    phase_before: str
    phase: str
    rule: int | None
    changes: tuple[Change, ...]
    steps: tuple[Step, ...]
    allocation: Allocation
    layout: Layout
    moved: tuple[str, ...]
    why: tuple[Message, ...] = ()
    since_s: float | None = None

    @property
    def reasons(self) -> tuple[Message, ...]:
        """The reasons against an action: `why`, and the reasons of steps that change nothing."""
        return (*self.why, *(step.reason for step in self.steps if not step.action.acts))
