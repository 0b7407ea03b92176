# SPDX-License-Identifier: Apache-2.0
"""The nouns of iat-nova: frozen values, no I/O, no clock.

Three groups, in the order in which the loop meets them:

* **facts**: what the inventory saw (`HostFacts`, `Guest`, `VirtualSwitch`, together `Facts`);
* **tenants**: what the policy made of it (`Tenant`, one `DomainInventory` a cache domain);
* **control**: what was measured and what was decided (`Sample`, `Allocation`, `Layout`,
  `Decision`).

Units are in the names. A value that could not be had is ``None``, never zero.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping


class WayMask(int):
    """A set of LLC ways, bit n for way n, as the capacity bit masks of CAT write it."""

    __slots__ = ()

    @classmethod
    def span(cls, lowest: int, count: int) -> WayMask:
        """Return the contiguous mask of `count` ways from way `lowest` upwards."""
        return cls(((1 << count) - 1) << lowest)

    @property
    def count(self) -> int:
        """The number of ways in the mask."""
        return self.bit_count()

    @property
    def lowest(self) -> int:
        """The number of the lowest way; -1 for the empty mask."""
        return (self & -self).bit_length() - 1

    @property
    def highest(self) -> int:
        """The number of the highest way; -1 for the empty mask."""
        return self.bit_length() - 1

    @property
    def is_contiguous(self) -> bool:
        """Whether the ways are one unbroken, non-empty run."""
        return self != 0 and self.count == self.highest - self.lowest + 1

    def overlaps(self, other: int) -> bool:
        """Tell whether a way is in both masks."""
        return bool(self & other)

    def __str__(self) -> str:
        return hex(self)

    def __repr__(self) -> str:
        return f"WayMask({self:#x})"


# --------------------------------------------------------------------------- facts


class AttachmentKind(enum.StrEnum):
    """The forms in which a guest meets the network (facts of libvirt's domain XML)."""

    VF = "vf"  # <interface type='hostdev'>, <hostdev> of a virtual function
    PF = "pf"  # <hostdev> of a whole physical function
    MACVTAP = "macvtap"  # <interface type='direct'>
    VDPA = "vdpa"  # <interface type='vdpa'>
    VHOST_USER = "vhost-user"  # <interface type='vhostuser'>
    TAP = "tap"  # <interface type='bridge' | 'ethernet' | 'network'>
    PCI = "pci"  # <hostdev> of a device that is no network card


class DeviceModel(enum.StrEnum):
    """How a tenant's buffers meet a device (ISCA 2021, section II-B)."""

    AGGREGATION = "aggregation"  # a software stack owns the device and the buffers
    SLICING = "slicing"  # the tenant owns a VF, or a device, and its buffers
    NONE = "none"


@dataclasses.dataclass(frozen=True, slots=True)
class Attachment:
    """One device of a guest.

    `device` is the name people know it by: a PCI address (``0000:3b:02.1``), a target device
    (``vhu1234``, ``tap1234``), a vhost-vdpa node. `packets` counts both directions since the
    device was attached, `packets_per_s` is its rate between the last two inventories; both are
    None where nobody counts (a VF).
    """

    kind: AttachmentKind
    device: str
    mac: str | None = None
    pf: str | None = None  # PCI address of the physical function
    numa_node: int | None = None  # of the device; None: unknown
    port: str | None = None  # Neutron's port UUID
    bridge: str | None = None
    packets: int | None = None
    packets_per_s: float | None = None

    @property
    def model(self) -> DeviceModel:
        """Slicing when the tenant owns (a share of) the device, aggregation behind a switch."""
        return _MODELS[self.kind]


_MODELS = {
    AttachmentKind.VF: DeviceModel.SLICING,
    AttachmentKind.PF: DeviceModel.SLICING,
    AttachmentKind.MACVTAP: DeviceModel.SLICING,
    AttachmentKind.VDPA: DeviceModel.SLICING,
    AttachmentKind.VHOST_USER: DeviceModel.AGGREGATION,
    AttachmentKind.TAP: DeviceModel.NONE,  # the kernel's stack has no cores of its own
    AttachmentKind.PCI: DeviceModel.NONE,
}


@dataclasses.dataclass(frozen=True, slots=True)
class Guest:
    """A running domain as the hypervisor shows it.

    `uuid` and `run` (libvirt's domain id) together are its identity: names are reused.
    `extra_specs` None means unknown (Nova below 32), an empty mapping means none.
    `dedicated_cpus` holds the processors that belong to this guest alone; `floating_cpus` the
    set over which its other vCPUs float (empty when all are dedicated).
    """

    uuid: str
    run: int
    name: str  # the domain's name, instance-0000001a
    display_name: str  # what its owner calls it; the domain's name where Nova says nothing
    flavor: str | None
    extra_specs: Mapping[str, str] | None
    project: str | None  # UUID of the owner's project
    dedicated_cpus: tuple[int, ...]
    floating_cpus: tuple[int, ...]
    emulator_cpus: tuple[int, ...] = ()
    numa_nodes: tuple[int, ...] = ()
    attachments: tuple[Attachment, ...] = ()
    cachetune: bool = False  # libvirt itself allocates cache to it: observe only
    warnings: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class SwitchPort:
    """One interface of Open vSwitch; `vm_uuid` joins it with a guest."""

    name: str
    bridge: str
    type: str  # dpdk, dpdkvhostuserclient, system, internal, ...
    vm_uuid: str | None = None
    iface_id: str | None = None
    mac: str | None = None
    vhost_path: str | None = None
    dpdk_device: str | None = None
    rx_descriptors: int | None = None  # of a queue, where the operator set it
    rx_queues: int | None = None  # where the operator set it
    mtu: int | None = None  # bytes
    packets: int | None = None  # received and sent


@dataclasses.dataclass(frozen=True, slots=True)
class VirtualSwitch:
    """Open vSwitch on this host: the software stack of the aggregation model.

    It has cores of its own, and is managed, only with a userspace (netdev) datapath:
    `pmd_cpus` is empty otherwise. `pmd_source` tells where they were read.
    """

    bridges: Mapping[str, str]  # name -> datapath type: netdev or system
    ports: tuple[SwitchPort, ...]
    pmd_cpus: tuple[int, ...]
    pmd_source: str | None = None  # pmd-cpu-mask, pmd-rxq-show, threads
    warnings: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Mempool:
    """A mempool of packet buffers, as ``ovs-appctl netdev-dpdk/get-mempool-info`` tells."""

    name: str
    handler: str  # ring_mp_mc, stack, ...
    buffers: int

    @property
    def in_turn(self) -> bool:
        """Whether buffers are used in turn, so that all of them circulate."""
        return self.handler.startswith("ring")


@dataclasses.dataclass(frozen=True, slots=True)
class Nic:
    """A physical function that carries tenants' or the switch's traffic."""

    address: str  # PCI
    name: str | None  # net device; None when a userspace driver has it
    numa_node: int | None
    speed_gbps: float | None


@dataclasses.dataclass(frozen=True, slots=True)
class CacheDomain:
    """The processors that share one LLC, and what that LLC can do.

    `coerced_ways`: ways that come together, so that a mask with one of them takes all (Skylake
    ties the two I/O ways: 0x400 reads back 0x600). Zero: none. `reserved_ways` are never
    touched. `ddio_found` is the DDIO mask found on the hardware before the first write;
    None when it cannot be read.
    """

    id: int  # L3 id
    cpus: tuple[int, ...]
    ways: int
    classes: int  # usable classes of service, the default class included
    min_ways: int = 1  # the least a mask may hold
    sparse_masks: bool = False  # non-contiguous masks are allowed
    coerced_ways: WayMask = WayMask(0)
    reserved_ways: WayMask = WayMask(0)
    ddio_found: WayMask | None = None
    way_bytes: int | None = None
    ddio_resizable: bool = True
    ddio_counters: bool = True
    numa_nodes: tuple[int, ...] = ()  # of its processors; empty: unknown


@dataclasses.dataclass(frozen=True, slots=True)
class HostFacts:
    """What the policy template may ask about the host."""

    hostname: str
    domains: tuple[CacheDomain, ...]
    online_cpus: tuple[int, ...]
    nics: tuple[Nic, ...] = ()

    def domain_of(self, cpu: int) -> CacheDomain | None:
        """Return the cache domain of a processor, None when it is in none."""
        return next((domain for domain in self.domains if cpu in domain.cpus), None)


@dataclasses.dataclass(frozen=True, slots=True)
class Facts:
    """One full picture of the host. Made anew at each reconcile, never a difference.

    `switch` None: no Open vSwitch is configured or it has never been reached.
    `warnings` concern the whole picture (a source that did not answer).
    """

    host: HostFacts
    guests: tuple[Guest, ...]
    switch: VirtualSwitch | None
    warnings: tuple[str, ...] = ()


# ------------------------------------------------------------------------- tenants


class Priority(enum.StrEnum):
    """Who is served first. The software stack's priority is special (section IV-A)."""

    STACK = "stack"
    PC = "PC"  # performance-critical
    BE = "BE"  # best effort


class TenantKind(enum.StrEnum):
    """What a tenant is made of."""

    GUEST = "guest"
    POOL = "pool"  # all floating guests together
    STACK = "stack"  # Open vSwitch's PMD threads
    HOST = "host"  # everything else: housekeeping, emulator threads


@dataclasses.dataclass(frozen=True, slots=True)
class WayRequest:
    """How many ways a tenant starts with and between which bounds it moves."""

    min: int = 1
    initial: int = 2
    max: int = 11


@dataclasses.dataclass(frozen=True, slots=True)
class Tenant:
    """Who shares a cache domain, as the controller knows it.

    `id` is unique in the domain: ``<uuid>/<run>`` for a guest, ``stack``, ``host``,
    ``pool``. `cpus` are the ones in this domain. A guest on two domains is one tenant in each.
    """

    id: str
    name: str
    kind: TenantKind
    priority: Priority
    io: bool
    cpus: tuple[int, ...]
    ways: WayRequest
    model: DeviceModel = DeviceModel.NONE
    class_name: str = ""  # the policy's class it fell into
    flavor: str | None = None
    project: str | None = None
    devices: tuple[str, ...] = ()
    members: tuple[str, ...] = ()  # of the pool: the guests' names
    warnings: tuple[str, ...] = ()

    @property
    def uuid(self) -> str | None:
        """The guest's UUID; None for the stack, the host and the pool."""
        return self.id.partition("/")[0] if self.kind is TenantKind.GUEST else None


@dataclasses.dataclass(frozen=True, slots=True)
class DomainInventory:
    """The tenants of one cache domain: what `step` is told of the world."""

    domain: CacheDomain
    tenants: tuple[Tenant, ...]


# ------------------------------------------------------------------------- control


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
