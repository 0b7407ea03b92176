# SPDX-License-Identifier: Apache-2.0
"""Observations of a host by the inventory."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterable, Mapping

from iat_nova.model.devices import Cards, LookUp, cards_of
from iat_nova.model.message import Message, message
from iat_nova.model.ways import WayMask


class AttachmentKind(enum.StrEnum):
    """The forms of a guest's connection to devices (facts of libvirt's domain XML)."""

    VF = "vf"  # <interface type='hostdev'>, <hostdev> of a virtual function
    PF = "pf"  # <hostdev> of a whole physical function
    MACVTAP = "macvtap"  # <interface type='direct'>
    VDPA = "vdpa"  # <interface type='vdpa'>
    VHOST_USER = "vhost-user"  # <interface type='vhostuser'>
    TAP = "tap"  # <interface type='bridge' | 'ethernet' | 'network'>
    PCI = "pci"  # <hostdev> or <disk> of a PCI device that is not a network card
    TARGET = "vhost-target"  # storage of another process, such as SPDK: vhost-user, vhost-scsi


class DeviceModel(enum.StrEnum):
    """The owner of a device and of its buffers (ISCA 2021, section II-B)."""

    AGGREGATION = "aggregation"  # a software stack owns the device and the buffers
    SLICING = "slicing"  # the tenant owns a VF, or a device, and its buffers
    NONE = "none"


@dataclasses.dataclass(frozen=True, slots=True)
class Attachment:
    """One device of a guest.

    `device` is the common name: a PCI address (``0000:3b:02.1``), a target device (``vhu1234``,
    ``tap1234``), a vhost-vdpa node. `packets` counts both directions since the device was attached;
    `packets_per_s` is the rate between the last two inventories. Both are None without a counter (a
    VF). `exclusive` is False for a macvtap whose device the kernel shares between guests (every
    mode but passthrough).
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
    exclusive: bool = True
    vhost_path: str | None = None  # of a vhost-user socket

    @property
    def model(self) -> DeviceModel:
        """Slicing when the tenant owns (a share of) the device, aggregation behind a switch."""
        return _MODELS[self.kind] if self.exclusive else DeviceModel.NONE


_MODELS = {
    AttachmentKind.VF: DeviceModel.SLICING,
    AttachmentKind.PF: DeviceModel.SLICING,
    AttachmentKind.MACVTAP: DeviceModel.SLICING,
    AttachmentKind.VDPA: DeviceModel.SLICING,
    AttachmentKind.VHOST_USER: DeviceModel.AGGREGATION,
    AttachmentKind.TAP: DeviceModel.NONE,  # the kernel's stack has no cores of its own
    AttachmentKind.PCI: DeviceModel.NONE,
    AttachmentKind.TARGET: DeviceModel.NONE,
}


@dataclasses.dataclass(frozen=True, slots=True)
class Guest:
    """A running domain as reported by libvirt.

    `uuid` and `run` (libvirt's domain id) together are the identity: names are reused.
    `extra_specs` None means unknown (Nova below 32), an empty mapping means none. `dedicated_cpus`:
    CPUs that belong to one vCPU of this guest alone. `floating_cpus`: the set over which its other
    vCPUs float (empty when all are dedicated). `emulator_cpus`: the CPUs that Nova reserved for the
    guest's emulator and I/O threads (``hw:emulator_threads_policy=isolate``). The three sets are
    disjoint and online. `offline_cpus`: offline CPUs among its own, or the whole floating set if
    all of the set is offline.
    """

    uuid: str
    run: int
    name: str  # the domain's name, instance-0000001a
    display_name: str  # name chosen by the owner; the domain's name without metadata from Nova
    flavor: str | None
    extra_specs: Mapping[str, str] | None
    project: str | None  # UUID of the owner's project
    dedicated_cpus: tuple[int, ...]
    floating_cpus: tuple[int, ...]
    emulator_cpus: tuple[int, ...] = ()
    numa_nodes: tuple[int, ...] = ()
    attachments: tuple[Attachment, ...] = ()
    cachetune: bool = False  # libvirt itself allocates cache to it: observe only
    warnings: tuple[Message, ...] = ()
    project_name: str | None = None
    image_properties: Mapping[str, str] | None = None  # None: unknown
    offline_cpus: tuple[int, ...] = ()


_MOST_SHOWN = 60  # characters of a port's option in a warning
USERSPACE = "netdev"
"""The datapath type with PMD threads; "" and "system" are the kernel's."""


@dataclasses.dataclass(frozen=True, slots=True)
class SwitchPort:
    """One interface of Open vSwitch; `vm_uuid` is the UUID of the attached guest.

    `dpdk_device`: ``options:dpdk-devargs``, as long as `cards` does not know the cards that it
    names (None). `vhost_path`: path of the guest's vhost-user socket.
    """

    name: str
    bridge: str
    type: str  # dpdk, dpdkvhostuserclient, system, internal, ...
    vm_uuid: str | None = None
    iface_id: str | None = None
    mac: str | None = None
    dpdk_device: str | None = None
    rx_descriptors: int | None = None  # of a queue, where the operator set it
    rx_queues: int | None = None  # where the operator set it
    mtu: int | None = None  # bytes
    packets: int | None = None  # received and sent
    drops: int | None = None  # received or to be sent, and dropped for any reason
    cards: Cards | None = None
    vhost_path: str | None = None

    def resolved(self, look_up: LookUp) -> SwitchPort:
        """Return the port with its cards, if `look_up` knows these."""
        cards = cards_of(self.name, self.type, self.dpdk_device, look_up)
        device = self.dpdk_device if cards is None else None
        return dataclasses.replace(self, cards=cards, dpdk_device=device)


@dataclasses.dataclass(frozen=True, slots=True)
class PmdThread:
    """Activity of a PMD thread of Open vSwitch between the last two readings.

    `busy`: the share of cycles with packets to forward, 0..1; None if the thread had no cycles.
    `cycles_per_packet`: of busy cycles; None when no packet came. `lost_upcalls_per_s`: packets
    without a matching flow that were dropped.
    """

    cpu: int
    busy: float | None
    packets_per_s: float
    cycles_per_packet: float | None
    lost_upcalls_per_s: float


@dataclasses.dataclass(frozen=True, slots=True)
class VirtualSwitch:
    """Open vSwitch on this host: the software stack of the aggregation model.

    Only a userspace (netdev) datapath has CPUs of its own, and only this datapath is managed:
    `pmd_cpus` is empty otherwise. `pmd_source`: the source of `pmd_cpus`; ``ended``: ovs-vswitchd
    does not run. `pmd_threads`: the threads whose counters ovs-vswitchd has reported twice.
    `drops_per_s`: packets dropped by the switch's ports, None before the second reading.
    """

    bridges: Mapping[str, str]  # name -> datapath type: netdev or system
    ports: tuple[SwitchPort, ...]
    pmd_cpus: tuple[int, ...]
    pmd_source: str | None = None  # pmd-cpu-mask, pmd-rxq-show, threads, ended
    warnings: tuple[Message, ...] = ()
    pmd_threads: tuple[PmdThread, ...] = ()
    drops_per_s: float | None = None

    @property
    def unknown_cards(self) -> tuple[SwitchPort, ...]:
        """The ports of userspace datapaths whose cards are unknown: these may be any cards."""
        return tuple(filter(self._is_unknown, self.ports))

    @property
    def devices(self) -> tuple[str, ...]:
        """The addresses of the ports' cards, and the names of the ports whose cards are unknown."""
        cards = (card for port in self.ports for card in port.cards or ())
        return tuple(dict.fromkeys((*cards, *(port.name for port in self.unknown_cards))))

    @property
    def all_warnings(self) -> tuple[Message, ...]:
        """The warnings, with those about unknown cards."""
        unknown = ((one.name, one.dpdk_device or one.name) for one in self.unknown_cards)
        told = (message("port-card-unknown", port=a, device=b[:_MOST_SHOWN]) for a, b in unknown)
        return (*self.warnings, *told)

    def _is_unknown(self, port: SwitchPort) -> bool:
        return port.cards is None and self.bridges.get(port.bridge, USERSPACE) == USERSPACE

    def resolved(self, look_up: LookUp) -> VirtualSwitch:
        """Return the switch with the cards of its ports, as far as `look_up` knows these."""
        ports = (port.resolved(look_up) if self._is_unknown(port) else port for port in self.ports)
        return dataclasses.replace(self, ports=tuple(ports))


@dataclasses.dataclass(frozen=True, slots=True)
class Nic:
    """A physical function that carries traffic of tenants or of the switch.

    A physical function may have several ports. `name` and `mac` are the first port's, `speed_gbps`
    is the sum of all ports.
    """

    address: str  # PCI
    name: str | None  # net device; None when a userspace driver has it
    numa_node: int | None
    speed_gbps: float | None  # of the ports whose links are up; None: unknown
    mac: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class DcaPort:
    """A PCIe root port on which DDIO can be switched off and on.

    `devices`: PCI addresses below the port. The switch acts on all of these devices.
    """

    address: str
    devices: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class DevicePort:
    """Devices whose lines one class of service places, because they share a channel (I/O RDT).

    `id`: PCI address of the first device. `devices`: PCI addresses, virtual functions and devices
    below a bridge included.
    """

    id: str
    devices: tuple[str, ...]


EIGHTHS = 8
"""Units of AMD's limits of memory bandwidth in one GB/s."""


@dataclasses.dataclass(frozen=True, slots=True)
class BandwidthControl:
    """Limits of a class of service's memory bandwidth (Intel's MBA, AMD's QoS).

    A limit is a multiple of `step` from `least` to `most`; `most` limits nothing. If `percent` is
    true, a limit is a percentage of a CPU's bandwidth without a limit. Otherwise the unit is an
    eighth of a GB/s (AMD), for all CPUs of a class in a cache domain together. Hardware does not
    report the total bandwidth of a domain in these units: `whole` is the operator's setting. If
    `whole` is None, percentages cannot be used.
    """

    least: int
    step: int
    most: int
    percent: bool
    whole: int | None = None

    @property
    def percents(self) -> tuple[int, int] | None:
        """The least limit and the step between limits in percent; None if 100 % is not defined.

        Different percentages of this series are different limits.
        """
        if self.percent:
            return self.least, self.step
        if self.whole is None:
            return None
        step = max(1, -(-100 * self.step // self.whole))
        least = -(-100 * self.least // self.whole)
        return -(-least // step) * step, step

    def limit(self, percent: int) -> int:
        """Return the limit for a percentage, in the unit of `step`, rounded up to a step in bounds.

        Raises `ValueError` where the operator has not set the value of 100 %.
        """
        whole = 100 if self.percent else self.whole
        if whole is None:
            raise ValueError("nobody said what 100 % of memory bandwidth is")
        steps = -(-percent * whole // (100 * self.step))
        return min(max(steps * self.step, self.least), self.most)

    def felt_below(self, bytes_per_s: float) -> float:
        """Return the percentage below which a tenant with this memory traffic is slowed down.

        The result is 100, i.e. every limit, if limits are relative to a CPU's own bandwidth or if
        100 % is not defined.
        """
        if self.percent or self.whole is None:
            return 100.0
        return 100.0 * bytes_per_s / (self.whole * 1e9 / EIGHTHS)

    def gbps(self, percent: int) -> float | None:
        """Return the GB/s of the limit for this percentage; None if not defined in GB/s."""
        return None if self.percent or self.whole is None else self.limit(percent) / EIGHTHS


@dataclasses.dataclass(frozen=True, slots=True)
class CacheDomain:
    """The CPUs that share one LLC, and the capabilities of this LLC.

    `coerced_ways`: ways that the hardware ties together: a mask with any of these ways takes all of
    them. Zero: none. Skylake ties the two I/O ways: 0x400 reads back 0x600. `reserved_ways` are
    never touched. `ddio_found` is the DDIO mask found on the hardware before the first write.
    `ddio_found` is None when the mask cannot be read, and empty when devices may fill all ways
    (resctrl's io_alloc while disabled). `ddio_counters`: DDIO hits and misses are counted, and
    separately. `dca_ports`: the root ports on which the operator allows switching DDIO off.
    `bandwidth`: limits of memory bandwidth, or None. `device_ports`: the ports that may have ways
    of their own; empty without I/O RDT. `shared_port_classes`: classes of service that the ports of
    all cache domains share, each domain with masks of its own. 0: no other domain's ports need a
    class.
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
    numa_nodes: tuple[int, ...] = ()  # of its socket, whose devices write here; empty: unknown
    dca_ports: tuple[DcaPort, ...] = ()
    bandwidth: BandwidthControl | None = None
    device_ports: tuple[DevicePort, ...] = ()
    shared_port_classes: int = 0

    @property
    def open_ways(self) -> WayMask:
        """All ways except the reserved ways; the longest unbroken run if these divide the cache."""
        lengths = range(self.ways, 0, -1)
        spans = (WayMask.span(at, n) for n in lengths for at in range(self.ways - n + 1))
        return next((span for span in spans if not span & self.reserved_ways), WayMask(0))

    def ports_of(self, devices: Iterable[str | None]) -> tuple[str, ...]:
        """Return the ids of the I/O RDT ports of devices with these PCI addresses."""
        wanted = frozenset(devices)
        return tuple(one.id for one in self.device_ports if not wanted.isdisjoint(one.devices))

    def reserving(self, more: WayMask) -> WayMask:
        """Return the reserved ways together with the ways `more`.

        If a coerced way is reserved, all coerced ways are: no mask could have the rest alone.
        """
        reserved = (self.reserved_ways | more) & ((1 << self.ways) - 1)
        return WayMask(reserved | self.coerced_ways if reserved & self.coerced_ways else reserved)


@dataclasses.dataclass(frozen=True, slots=True)
class HostFacts:
    """Facts about the host that the policy template can use.

    `hour` (0 to 23) and `weekday` (``mon`` to ``sun``) are local time; None without a clock.
    `unseen_domains`: the number of cache domains beyond `domains`, whose CPUs have been offline
    since the start. The agent assumes that unseen domains are like `domains`.
    """

    hostname: str
    domains: tuple[CacheDomain, ...]
    online_cpus: tuple[int, ...]
    nics: tuple[Nic, ...] = ()
    hour: int | None = None
    weekday: str | None = None
    unseen_domains: int = 0


class Source(enum.StrEnum):
    """A source of the inventory."""

    HOST = "host"
    LIBVIRT = "libvirt"
    SWITCH = "Open vSwitch"


class Trouble(enum.StrEnum):
    """The kind of a source's problem."""

    WARNING = "warning"  # the source does not answer, or reports a problem
    UNREADABLE = "unreadable"  # the agent's own code failed on an answer
    WAITING = "waiting"  # never read: the content is unknown, not empty


@dataclasses.dataclass(frozen=True, slots=True)
class SourceProblem:
    """A problem of a source of the inventory as a whole; WAITING: `message` names the source."""

    source: Source
    kind: Trouble
    message: Message


@dataclasses.dataclass(frozen=True, slots=True)
class Facts:
    """A complete inventory of the host. Each reconcile makes a new value, never a difference.

    `switch` None: no Open vSwitch is configured or OVSDB has never answered.
    """

    host: HostFacts
    guests: tuple[Guest, ...]
    switch: VirtualSwitch | None
    problems: tuple[SourceProblem, ...] = ()

    @property
    def warnings(self) -> tuple[Message, ...]:
        """Messages on sources that cannot be read, or whose last values are used."""
        return tuple(one.message for one in self.problems if one.kind is not Trouble.WAITING)

    @property
    def waiting_for(self) -> tuple[Message, ...]:
        """The configured sources that have never been read."""
        return tuple(one.message for one in self.problems if one.kind is Trouble.WAITING)

    def __post_init__(self) -> None:
        """Resolve ports that only `host` can: of an emulated host, or of a file of facts."""
        if self.switch is not None and self.switch.unknown_cards:
            names = {name: (nic.address,) for nic in self.host.nics for name in (nic.name, nic.mac)}
            object.__setattr__(self, "switch", self.switch.resolved(names.get))

    @property
    def lasting(self) -> Facts:
        """The same facts without packets, drops and time of day, which change by themselves."""
        host, switch = dataclasses.replace(self.host, hour=None, weekday=None), self.switch
        if switch is not None:
            ports = tuple(
                dataclasses.replace(port, packets=None, drops=None) for port in switch.ports
            )
            switch = dataclasses.replace(switch, ports=ports, pmd_threads=(), drops_per_s=None)
        guests = tuple(map(_without_counts, self.guests))
        return dataclasses.replace(self, host=host, guests=guests, switch=switch)


def _without_counts(guest: Guest) -> Guest:
    attachments = (
        dataclasses.replace(one, packets=None, packets_per_s=None) for one in guest.attachments
    )
    return dataclasses.replace(guest, attachments=tuple(attachments))
