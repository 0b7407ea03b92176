# SPDX-License-Identifier: Apache-2.0
"""Scenario files: a machine, who runs on it, what they do, and what happens when.

``doc/source/examples/scenario.yaml`` is one; ``scenario.schema.yaml`` has every key.
What is wrong with a file is reported all at once, each with line and path.
"""

from __future__ import annotations

import dataclasses
import math
import pathlib
from collections.abc import Mapping

from iat_nova.model import (
    CacheDomain,
    DcaPort,
    Facts,
    Guest,
    HostFacts,
    Nic,
    VirtualSwitch,
    WayMask,
)
from iat_nova.sim.machine import Io, Machine
from iat_nova.sim.workloads.profiles import Profile

SHIPPED = pathlib.Path(__file__).parent / "scenarios"


class ScenarioError(Exception):
    """The scenario cannot be used; the text lists every problem with file, line and path."""


@dataclasses.dataclass(frozen=True, slots=True)
class NicSpec:
    """A network card on a socket. `dca`: its port's writes may allocate in that socket's LLC.

    `overload`: more may be sent to it than its speed, so that its rings fill; else that is refused.
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
    """An NVMe disk, or a striped array of them. `dca`: as of a card.

    `commands_per_s`: how many commands of one page it completes; None: as its bandwidth allows.
    `medium_s`: how long its medium takes to find a block. `drives`: over how many it is striped.
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
    """What runs on some CPUs, one thread each.

    A network workload is attached to a card (`nic`) or to the workload that is its `switch`.
    `ring` and `send_ring` are the numbers of descriptors of each of its queues, `backlog` how many
    packets more may wait for it, as in a socket's receive buffer; `buffers` the size of its mempool
    and `pool` that pool's handler: ``stack`` (last in, first out, which is also what one core's own
    cache of buffers makes of a ring) or ``ring``. A storage workload keeps `depth` commands of
    `block_bytes` on its `disk` from each of its CPUs. `jitter_s` is the longest time for
    which its threads lose their core now and then.
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
class Traffic:
    """Packets from the wire to a workload, in bursts of `burst`, spread over its queues.

    With `clients` it is a closed loop instead: so many requests are under way, each followed by
    the next a round trip after its reply has left.
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
class Event:
    """At `at_s`, the property of `subject` becomes `value` (base units)."""

    at_s: float
    subject: str  # a workload, ``traffic.NAME`` or ``ddio``
    key: str
    value: float


@dataclasses.dataclass(frozen=True, slots=True)
class Stay:
    """From when until when a guest is on the host, in seconds; its workloads run only then."""

    arrives_s: float = 0.0
    leaves_s: float = math.inf

    def covers(self, at_s: float) -> bool:
        """Tell whether the guest is there at a moment."""
        return self.arrives_s <= at_s < self.leaves_s


@dataclasses.dataclass(frozen=True, slots=True)
class Scenario:
    """A scenario, read and checked.

    `policy` are parameters that differ from the policy's, `masks` masks to start with by
    workload (`random_masks`: laid out at random from the seed instead). `sampling`: 1 line in so
    many is simulated; `compression`: so much of each second is. `counter_noise`, 0..1: relative
    standard deviation of what each reading adds to a counter; `one_slice`: DDIO is counted in one
    CHA and multiplied; None: as the caller sees fit. `restarts_s`: when the agent is
    restarted.
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
    traffic: tuple[Traffic, ...]
    events: tuple[Event, ...]
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
        """Return what an inventory of this host would show at a moment."""
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
        """The cache domains; each disk lies below a root port of its own, of the same address."""
        ports = tuple(
            DcaPort(disk.address, (disk.address,))
            for disk in self.disks
            if disk.dca and self.machine.io is not Io.DMA
        )
        first, *others = self.machine.domains  # where all disks are
        return dataclasses.replace(first, dca_ports=ports), *others

    def is_here(self, guest: Guest, at_s: float) -> bool:
        """Tell whether a guest is on the host at a moment."""
        return self.stays.get(guest.uuid, Stay()).covers(at_s)

    def workload(self, name: str) -> Workload:
        """Return the workload of a name."""
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
        """What a report must say of how these numbers were made."""
        return {
            "scenario": self.name,
            "machine": self.machine.title,
            "sockets": self.machine.sockets,
            "seed": self.seed,
            "sampling": f"1 in {self.sampling} lines",
            "time_compression": f"{self.compression:g} of each second is simulated",
        }


def shipped() -> tuple[str, ...]:
    """Return the names of the scenarios that ship."""
    return tuple(sorted(path.stem for path in SHIPPED.glob("*.yaml")))
