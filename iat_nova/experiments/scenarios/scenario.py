# SPDX-License-Identifier: Apache-2.0
"""Scenario files: a machine, its guests, their workloads, and events over time.

``doc/source/examples/scenario.yaml`` is an example; ``scenario.schema.yaml`` has every key.
All problems of a file are reported together, each with line and path.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping

from iat_nova.experiments.machines.machine import Machine, WriteTarget
from iat_nova.experiments.scenarios.profiles import Profile
from iat_nova.model import (
    CacheDomain,
    DcaPort,
    DevicePort,
    Facts,
    Guest,
    HostFacts,
    Message,
    Nic,
    VirtualSwitch,
    WayMask,
)
from iat_nova.model.message import MessageError, as_message


class ScenarioError(MessageError):
    """The scenario is invalid; `message` lists every problem with file, line and path."""

    def __init__(self, said: Message | str) -> None:
        super().__init__(as_message(said))


@dataclasses.dataclass(frozen=True, slots=True)
class NicSpec:
    """A network card on a socket. `dca`: the card's writes may allocate in the socket's LLC.

    `overload`: traffic may exceed the card's speed, so that the rings fill; otherwise a scenario
    with such traffic is invalid.
    """

    name: str
    address: str
    device: str | None
    speed_bits_per_s: float
    dca: bool = True
    socket: int = 0
    overload: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class DiskSpec:
    """An NVMe disk, or a striped array of such disks. `dca`: as of a card.

    `commands_per_s`: rate of one-page commands; None: limited by the bandwidth alone. `medium_s`:
    time of the medium to find a block. `drives`: number of drives of the array.
    """

    name: str
    address: str
    bytes_per_s: float
    commands_per_s: float | None = None
    medium_s: float = 85e-6
    drives: int = 1
    dca: bool = True


@dataclasses.dataclass(frozen=True, slots=True)
class Workload:
    """A workload on some CPUs, one thread per CPU (a pipeline has two).

    A network workload is attached to a card (`nic`) or to the workload of a virtual switch
    (`switch`). `ring`, `send_ring`: descriptors of each queue. `backlog`: additional packets that
    may wait per queue, as in a socket's receive buffer. `buffers`: size of the mempool. `pool`: the
    mempool's handler, ``ring`` or ``stack`` (last in, first out, as also a core's own cache in
    front of a ring). A storage workload keeps `depth` commands of `block_bytes` on its `disk` from
    each CPU. `jitter_s`: the longest time for which a thread now and then loses its core.
    """

    name: str
    profile: Profile
    cpus: tuple[int, ...]
    nic: str | None = None
    switch: str | None = None
    ring: int = 1024
    send_ring: int = 1024
    backlog: int = 0
    buffers: int = 8192
    pool: str = "stack"
    working_set_bytes: int = 0
    writes_percent: int = 0
    duty: float = 1.0
    disk: str | None = None
    block_bytes: int = 4096
    depth: int = 32
    jitter_s: float = 0.0


@dataclasses.dataclass(frozen=True, slots=True)
class WireTraffic:
    """Packets from the wire to a workload, in bursts of `burst`, spread over the queues.

    `clients` makes the traffic a closed loop: this number of requests is under way. The next
    request follows a round trip after a reply has left.
    """

    name: str
    nic: str
    to: str
    rate_bits_per_s: float
    packet_bytes: int
    flows: int = 1
    burst: int = 1
    clients: int = 0
    round_trip_s: float = 0.0


@dataclasses.dataclass(frozen=True, slots=True)
class ScenarioEvent:
    """At `at_s`, the property of `subject` becomes `value` (base units)."""

    at_s: float
    subject: str  # a workload, ``traffic.NAME`` or ``ddio``
    key: str
    value: float


@dataclasses.dataclass(frozen=True, slots=True)
class Stay:
    """The time of a guest on the host, in seconds; the guest's workloads run only then."""

    arrives_s: float = 0.0
    leaves_s: float = math.inf

    def covers(self, at_s: float) -> bool:
        """Tell whether the guest is on the host at a moment."""
        return self.arrives_s <= at_s < self.leaves_s


@dataclasses.dataclass(frozen=True, slots=True)
class Scenario:
    """A scenario, read and checked.

    `policy`: parameters that differ from the default policy. `masks`: initial masks by workload;
    `random_masks`: random initial masks from the seed instead. `sampling`: 1 line in `sampling` is
    simulated. `compression`: the simulated share of each second. `counter_noise`, 0..1: relative
    standard deviation of each reading's increment. `one_slice`: DDIO is counted at one CHA and
    multiplied. None for either: the caller decides. `restarts_s`: moments of the agent's restarts.
    """

    name: str
    title: str
    machine: Machine
    length_s: float
    seed: int
    strategy: str
    policy: Mapping[str, object]
    nics: tuple[NicSpec, ...]
    guests: tuple[Guest, ...]
    switch: VirtualSwitch | None
    workloads: tuple[Workload, ...]
    traffic: tuple[WireTraffic, ...]
    events: tuple[ScenarioEvent, ...]
    masks: Mapping[str, WayMask]
    random_masks: bool
    sampling: int
    compression: float
    step_s: float
    disks: tuple[DiskSpec, ...] = ()
    counter_noise: float | None = None
    one_slice: bool | None = None
    stays: Mapping[str, Stay] = dataclasses.field(default_factory=dict)  # by UUID, if not for ever
    restarts_s: tuple[float, ...] = ()
    bandwidth_min: float = 1.0  # of the policy's default class

    def facts(self, at_s: float = 0.0) -> Facts:
        """Return the facts that an inventory of this host would have at a moment."""
        nics = tuple(
            Nic(nic.address, nic.device, nic.socket, nic.speed_bits_per_s / 1e9)
            for nic in self.nics
        )
        cpus = tuple(range(self.machine.cpu_count))
        host = HostFacts(self.name, self.domains, cpus, nics)
        guests = tuple(guest for guest in self.guests if self.is_here(guest, at_s))
        return Facts(host, guests, self.switch)

    @property
    def domains(self) -> tuple[CacheDomain, ...]:
        """The cache domains; each disk is below a root port of its own, with the same address.

        With I/O RDT each card and each disk is a port with a channel of its own.
        """
        ports = tuple(
            DcaPort(disk.address, (disk.address,))
            for disk in self.disks
            if disk.dca and self.machine.port_dca and self.machine.io is not WriteTarget.DMA
        )
        first, *others = self.machine.domains  # where all disks are
        return tuple(
            dataclasses.replace(domain, device_ports=self._device_ports(domain.id))
            for domain in (dataclasses.replace(first, dca_ports=ports), *others)
        )

    def _device_ports(self, socket: int) -> tuple[DevicePort, ...]:
        if not self.machine.device_classes:
            return ()
        cards = [one.address for one in self.nics if one.socket == socket]
        disks = [] if socket else [one.address for one in self.disks]
        return tuple(DevicePort(address, (address,)) for address in (*cards, *disks))

    def is_here(self, guest: Guest, at_s: float) -> bool:
        """Tell whether a guest is on the host at a moment."""
        return self.stays.get(guest.uuid, Stay()).covers(at_s)

    def workload(self, name: str) -> Workload:
        """Return the workload with this name."""
        return next(workload for workload in self.workloads if workload.name == name)

    def clients_of(self, switch: Workload) -> list[Workload]:
        """Return the workloads that are attached to a switch."""
        return [workload for workload in self.workloads if workload.switch == switch.name]

    def workloads_of(self, guest: Guest) -> tuple[str, ...]:
        """Return the names of the workloads that run on a guest's CPUs."""
        cpus = {*guest.dedicated_cpus, *guest.floating_cpus}
        return tuple(one.name for one in self.workloads if cpus & set(one.cpus))

    @property
    def metadata(self) -> Mapping[str, object]:
        """The origin of the numbers, for reports."""
        return {
            "scenario": self.name,
            "machine": self.machine.title,
            "sockets": self.machine.sockets,
            "seed": self.seed,
            "sampling": f"1 in {self.sampling} lines",
            "time_compression": f"{self.compression:g} of each second is simulated",
        }
