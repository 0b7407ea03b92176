# SPDX-License-Identifier: Apache-2.0
"""Hosts drawn at random, as texts of ordinary scenarios.

A strategy should be judged on hosts that were not chosen by hand. This module has all drawn
properties and their limits, and no property depends on a strategy. Equal arguments give equal texts
under every version of Python: the only source is `random.Random.random`, whose sequence Python
guarantees.
"""

from __future__ import annotations

import dataclasses
import enum
import math
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any, TypeVar

import yaml

from iat_nova.experiments.machines.machine import MACHINES, Machine
from iat_nova.experiments.scenarios.profiles import PROFILES
from iat_nova.experiments.scenarios.reader import read_scenario
from iat_nova.experiments.scenarios.scenario import Scenario

T = TypeVar("T")

LENGTH_S = 40
COMPRESSION = "3%"  # 30 ms of each second: filling the LLC takes some 8 ms
HOST_CPUS = 2  # of each socket, for the host
NETWORK_MAX = 3  # guests with cards of their own, on a socket
NETWORK_SHARE = 0.45  # of guests, while fewer than NETWORK_MAX
GUARANTEED_MAX = 5  # ways of a socket: the rest is for DDIO and for guests without a guarantee
STALL_CYCLES = 100  # assumed stall cycles of a packet, beside the profile's own cycles
RINGS = (512, 1024, 2048, 4096)
SWITCHED_RINGS = (256, 512, 1024)
PACKETS = (64, 128, 256, 512, 1024, 1500)
NOISES = ("1%", "3%", "5%")
RECEIVERS = ("testpmd", "l3fwd", "touch", "fastclick", "dpdk-t", "dpdk-nt")
PROGRAMS = (
    "bzip2", "gcc", "mcf", "milc", "zeusmp", "cactusADM", "leslie3d", "GemsFDTD", "lbm", "omnetpp",
    "astar", "sphinx3", "xalancbmk", "rocksdb-a", "rocksdb-b", "rocksdb-c", "rocksdb-e",
)  # fmt: skip


class Kind(enum.StrEnum):
    """The kind of random hosts.

    `STORAGE`: drives of guests beside a critical receiver of packets, on a CPU with I/O RDT.
    """

    ANY = "any"
    STORAGE = "storage"

    @property
    def limits(self) -> _Limits:
        """The properties of this kind that differ from other kinds."""
        return _LIMITS[self]


@dataclasses.dataclass(frozen=True, slots=True)
class _Limits:
    """Properties of a kind of hosts.

    `machine`: None to draw the machine and the number of sockets. `first`: the kinds of the first
    guests, as shares drawn for other guests. `disks`: largest number of guests with disks. `cards`:
    Gb/s, `drives`: GB/s. `storage`: upper end of the shares drawn for guests with disks, whose
    lower end is `NETWORK_SHARE`. `pools`: handlers of receivers' mempools; without any, a stack.
    """

    machine: str | None = None
    first: tuple[float, ...] = ()
    disks: int = 2
    cards: tuple[int, ...] = (40, 100, 100)
    drives: tuple[float, ...] = (3.5, 7, 10.5)
    storage: float = 0.55
    pools: tuple[str, ...] = ()


_LIMITS = {
    Kind.ANY: _Limits(),
    # Cards and drives of the time of the CPU: 7 GB/s a drive of PCIe 4, 14 one of PCIe 5, and 28 an
    # array. DPDK's mempools are rings unless configured otherwise.
    Kind.STORAGE: _Limits(
        machine="granite-rapids",
        first=(0.0, 0.5),
        disks=4,
        cards=(100, 200),
        drives=(7, 14, 28),
        storage=0.7,
        pools=("ring", "stack"),
    ),
}


def scenarios(count: int, seed: int, kind: Kind = Kind.ANY) -> Iterator[tuple[Scenario, str]]:
    """Yield the first `count` hosts of a seed, each with the text of the scenario."""
    word = "random" if kind is Kind.ANY else kind.value
    for number in range(1, count + 1):
        name, drawn = f"{word}-{seed}-{number:03}", text(number, seed, kind)
        yield read_scenario(drawn, name, f"{name}.yaml"), drawn


def text(number: int, seed: int, kind: Kind = Kind.ANY) -> str:
    """Return a host as the text of a scenario file."""
    host = _Host(_Dice(Random(f"iat-nova host {seed} {number}")), kind.limits)
    told = yaml.dump(host.document(), Dumper=_Plain, sort_keys=False, width=120)
    asked = "--random" if kind is Kind.ANY else f"--random --hosts {kind}"
    return f"# Host {number} of seed {seed}, drawn by iat-nova simulate compare {asked}.\n{told}"


class _Plain(yaml.SafeDumper):
    """Write every list in full, on one line unless nested."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{**kwargs, "default_flow_style": None})

    def ignore_aliases(self, data: Any) -> bool:
        return True


class _Dice:
    """Random choices by the one method of `Random` that is the same in all versions of Python."""

    def __init__(self, source: Random) -> None:
        self._source = source

    def chance(self, share: float) -> bool:
        return self._source.random() < share

    def among(self, values: Sequence[T]) -> T:
        return values[int(self._source.random() * len(values))]

    def between(self, low: float, high: float) -> float:
        return low + (high - low) * self._source.random()

    def whole(self, low: int, high: int) -> int:
        return low + int(self._source.random() * (high - low + 1))

    def spread(self, low: float, high: float) -> float:
        """Return a value between the limits; every order of magnitude is equally likely."""
        return low * math.pow(high / low, self._source.random())


@dataclasses.dataclass(slots=True)
class _Socket:
    """A socket while guests are added: the free CPUs, and the numbers of guests by kind."""

    number: int
    cpus: list[int]
    receivers: int = 0
    disks: int = 0
    guaranteed: int = 0


class _Host:
    """One host while drawn, with all sections of the scenario's file."""

    def __init__(self, dice: _Dice, limits: _Limits) -> None:
        self._dice, self._limits = dice, limits
        sockets = 1 if limits.machine else 1 + dice.chance(0.2)
        names = ["gold-6140", "gold-6140", "gold-6148"]
        drawn = limits.machine or dice.among(names if sockets > 1 else [*names, "gold-6338"])
        self._model: Machine = MACHINES[drawn]
        self._top: dict[str, Any] = {
            "machine": self._model.name,
            "sockets": sockets,
            "length": f"{LENGTH_S}s",
            "compression": COMPRESSION,
            "counter_noise": dice.among(NOISES),
        }
        if dice.chance(0.2):
            self._top |= {"mba": True, "bandwidth_min": "30%"}
        self._guarantees, self._visits = dice.chance(0.3), dice.chance(0.35)
        self._guests: list[dict[str, Any]] = []
        self._switch: dict[str, Any] = {}
        self._nics: dict[str, Any] = {}
        self._disks: dict[str, Any] = {}
        self._workloads: dict[str, Any] = {}
        self._traffic: dict[str, Any] = {}
        self._rates: dict[str, tuple[float, float]] = {}  # Gb/s of the cores, and of the card
        cores = self._model.cores
        for number in range(sockets):
            first = number * cores
            socket = _Socket(number, list(range(first + HOST_CPUS, first + cores)))
            if not number and dice.chance(0.25):
                self._add_switch(socket)
            for _ in range(dice.whole(3, 7) if sockets == 1 else dice.whole(2, 5)):
                self._add_guest(socket)

    def document(self) -> dict[str, Any]:
        """Return the sections of the file, without empty sections."""
        kinds = ", ".join(str(one["profile"]) for one in self._workloads.values())
        sections = {
            "nics": self._nics, "disks": self._disks, "guests": self._guests,
            "switch": self._switch, "workloads": self._workloads, "traffic": self._traffic,
            "events": list(self._events()),
        }  # fmt: skip
        kept = {name: section for name, section in sections.items() if section}
        return {"title": kinds, **self._top, **kept}

    # ------------------------------------------------------------------ guests

    def _add_switch(self, socket: _Socket) -> None:
        cpus = [socket.cpus.pop(0) for _ in range(2)]
        self._switch = {"cpus": cpus, "ports": [self._card("sw", socket, 40)]}
        ring = self._dice.among(RINGS)
        self._workloads["ovs"] = {"profile": "ovs", "cpus": cpus, "nic": "sw", "ring": ring}

    def _add_guest(self, socket: _Socket) -> None:
        dice = self._dice
        number = len(self._guests) + 1
        cpus = [socket.cpus.pop(0) for _ in range(dice.among((1, 2, 2, 3))) if socket.cpus]
        if not cpus:
            return
        critical = number == 1 or dice.chance(0.5)
        specs = {"iat:priority": "PC" if critical else "BE"}
        guest: dict[str, Any] = {
            "name": f"instance-{number:08}",
            "display_name": f"g{number}",
            "uuid": f"{number:08}-d1ce-4000-8000-000000000001",
            "extra_specs": specs,
            "cpus": cpus,
        }
        self._guests.append(guest)
        ways = dice.whole(1, 3)
        if self._guarantees and dice.chance(0.5) and socket.guaranteed + ways <= GUARANTEED_MAX:
            socket.guaranteed += ways
            specs["iat:llc_ways"] = str(ways)
        if self._visits and number > 1 and dice.chance(0.4):
            guest["arrives"] = f"{dice.whole(4, 20)}s"
        if self._visits and number > 1 and dice.chance(0.25):
            guest["leaves"] = f"{dice.whole(24, 36)}s"
        first = self._limits.first
        kind = first[number - 1] if number <= len(first) else dice.between(0.0, 1.0)
        if kind < NETWORK_SHARE and socket.receivers < NETWORK_MAX:
            socket.receivers += 1
            self._add_receiver(guest, socket)
        elif (
            kind < self._limits.storage and not socket.number and socket.disks < self._limits.disks
        ):
            socket.disks += 1
            self._add_storage(guest)
        else:
            self._workloads[f"g{number}"] = self._program(cpus)

    def _add_receiver(self, guest: dict[str, Any], socket: _Socket) -> None:
        """Attach a guest to the switch or to a card of its own, and add traffic to the guest."""
        dice, name, cpus = self._dice, guest["display_name"], guest["cpus"]
        guest["extra_specs"]["iat:io"] = "true"
        behind = bool(self._switch) and not socket.number and dice.chance(0.6)
        redis = dice.chance(0.15)
        flows = dice.among((1, 1000, 10000, 1000000))
        workload: dict[str, Any] = {"profile": "redis-b" if redis else "", "cpus": cpus}
        if behind:
            port = f"vhu-{name}"
            guest["attachments"] = [{"kind": "vhost-user", "device": port, "bridge": "br-int"}]
            self._switch["ports"].append(
                {"name": port, "type": "dpdkvhostuserclient", "vm_uuid": guest["uuid"]}
            )
            workload |= {"switch": "ovs", "ring": dice.among(SWITCHED_RINGS)}
            workload["profile"] = workload["profile"] or "virtio-forward"
            speed, share = 12, len(self._workloads["ovs"]["cpus"]) / NETWORK_MAX
            capacity = share * self._packets_per_s("ovs", 1)
        else:
            card = self._card(name, socket, dice.among(self._limits.cards))
            address = card["dpdk_device"].replace(":00.0", ":02.0")
            guest["attachments"] = [{"kind": "vf", "device": address, "nic": name}]
            workload |= {"nic": name, "ring": dice.among(RINGS)}
            workload["profile"] = workload["profile"] or dice.among(RECEIVERS)
            speed = int(self._nics[name]["speed"].removesuffix("Gb/s"))
            capacity = self._packets_per_s(workload["profile"], len(cpus))
        if self._limits.pools:
            workload["pool"] = dice.among(self._limits.pools)
        self._workloads[name] = workload
        if redis:
            self._traffic[name] = {"to": name, "clients": dice.among((4, 16, 64)), "flows": 64}
            return
        packet = dice.among(PACKETS)
        self._rates[name] = 8e-9 * packet * capacity, float(speed)
        self._traffic[name] = {
            "to": name,
            "rate": self._rate(name),
            "packet": f"{packet}B",
            "flows": flows,
            "burst": dice.among((1, 1, 32, 256)),
        }

    def _card(self, name: str, socket: _Socket, speed: int) -> dict[str, Any]:
        """Add a card; return the port that a virtual switch would have on the card."""
        number = len(self._nics)
        address = f"0000:{0x3B + number:02x}:00.0"
        self._nics[name] = {
            "address": address,
            "name": f"ens{number}f0",
            "speed": f"{speed}Gb/s",
            "socket": socket.number,
        }
        return {"name": f"dpdk{number}", "type": "dpdk", "dpdk_device": address}

    def _packets_per_s(self, profile: str, cpus: int) -> float:
        cycles = PROFILES[profile].own_cycles + STALL_CYCLES
        return cpus * self._model.frequency_hz / cycles

    def _rate(self, name: str) -> str:
        """Return a load from idle to beyond the capacity of the cores, or the card's speed."""
        of_all, speed = self._rates[name]
        share = 0.002 if self._dice.chance(0.1) else self._dice.between(0.05, 1.4)
        return f"{max(0.001, min(share * of_all, speed)):.3f}Gb/s"

    def _add_storage(self, guest: dict[str, Any]) -> None:
        dice, name = self._dice, guest["display_name"]
        address = f"0000:{0x5E + len(self._disks):02x}:00.0"
        guest["attachments"] = [{"kind": "pci", "device": address}]
        speed = dice.among(self._limits.drives)
        self._disks[name] = {"address": address, "speed": f"{speed}GB/s", "iops": 2500000}
        self._workloads[name] = {
            "profile": "fio",
            "cpus": guest["cpus"],
            "disk": name,
            "block": dice.among(("4KiB", "64KiB", "256KiB", "1MiB")),
            "depth": dice.among((8, 32)),
            "writes": dice.among(("0.1%", "50%")),
        }

    def _program(self, cpus: list[int]) -> dict[str, Any]:
        """Return the workload of a guest without devices."""
        dice = self._dice
        if dice.chance(0.5):
            return {"profile": dice.among(PROGRAMS), "cpus": cpus}
        return {
            "profile": dice.among(("xmem", "xmem", "xmem-stream")),
            "cpus": cpus,
            "working_set": self._working_set(),
            "writes": dice.among(("0.1%", "30%")),
            "duty": dice.among(("100%", "100%", "100%", "50%", "5%")),
        }

    def _working_set(self) -> str:
        return f"{int(self._dice.spread(256, 65536))}KiB"

    # ------------------------------------------------------------------ events

    def _events(self) -> Iterator[dict[str, Any]]:
        """Yield the events: some loads change once; on some hosts a load changes periodically."""
        dice = self._dice
        names = [name for name in self._workloads if self._changeable(name)]
        if not names:
            return
        for _ in range(dice.whole(0, 3)):
            yield self._event(dice.among(names), dice.whole(5, LENGTH_S - 8))
        if dice.chance(0.2):
            name, period_s = dice.among(names), dice.among((4, 7, 12))
            turns = [self._event(name, 0), self._event(name, 0)]
            turns[1]["set"], turns[1]["to"] = turns[0]["set"], self._value(turns[0]["set"])
            for number, at_s in enumerate(range(period_s, LENGTH_S - 2, period_s)):
                yield {**turns[number % 2], "at": f"{at_s}s"}

    def _changeable(self, name: str) -> bool:
        return name in self._rates or "working_set" in self._workloads[name]

    def _event(self, name: str, at_s: int) -> dict[str, Any]:
        if name in self._rates:
            what = f"traffic.{name}.{self._dice.among(('rate', 'rate', 'burst'))}"
        else:
            what = f"{name}.{self._dice.among(('working_set', 'working_set', 'duty'))}"
        return {"at": f"{at_s}s", "set": what, "to": self._value(what)}

    def _value(self, what: str) -> Any:
        subject, _, key = what.rpartition(".")
        match key:
            case "rate":
                return self._rate(subject.removeprefix("traffic."))
            case "burst":
                return self._dice.among((1, 32, 256))
            case "duty":
                return self._dice.among(("5%", "50%", "100%"))
        return self._working_set()
