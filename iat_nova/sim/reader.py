# SPDX-License-Identifier: Apache-2.0
"""From a scenario's YAML to a `Scenario`: every problem with its line and path."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping
from typing import Any

from iat_nova.model import (
    PRESETS,
    Attachment,
    AttachmentKind,
    Guest,
    Parameters,
    SwitchPort,
    VirtualSwitch,
    WayMask,
)
from iat_nova.policy import document, units
from iat_nova.policy.problems import Path, PolicyError, Problem, nearest
from iat_nova.policy.render import Rendered
from iat_nova.sim.machine import MACHINES, Machine
from iat_nova.sim.scenario import Event, NicSpec, Scenario, ScenarioError, Traffic, Workload
from iat_nova.sim.workloads.profiles import PROFILES, Form

# A thread's own memory lies in a stretch of this size (see build).
WORKING_SET_MAX = 256 << 20
_BITS = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([kKMG]?)(?:b/s|bps|bit/s)\s*")
_FACTORS = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9}
_EVENT_KEYS = {
    "workload": ("working_set", "duty"),
    "traffic": ("rate", "packet", "flows", "burst"),
    "ddio": ("ways",),
}
Check = Callable[[object], Any]


def read_scenario(text: str, name: str, source: str) -> Scenario:
    """Build a scenario from its text. Raises `ScenarioError` with all problems."""
    lines = tuple(range(1, text.count("\n") + 2))
    try:
        parsed = document.read(Rendered(text, lines))
    except PolicyError as error:
        raise ScenarioError(_listing(source, error.problems)) from None
    reader = _Reader(parsed)
    scenario = reader.scenario(name)
    if scenario is None or reader.problems:
        problems = sorted(reader.problems, key=lambda problem: problem.line or 0)
        raise ScenarioError(_listing(source, problems))
    return scenario


def _listing(source: str, problems: Any) -> str:
    return "\n".join(f"{source}: {problem}" for problem in problems)


class _Bad(ValueError):
    """A value that is not allowed; says what is."""


def _text(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise _Bad("allowed: text")
    return value


def _whole(least: int, most: int) -> Check:
    def check(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise _Bad(f"allowed: a whole number from {least} to {most}")
        return value

    return check


def _power(least: int, most: int) -> Check:
    whole = _whole(least, most)

    def check(value: object) -> int:
        number: int = whole(value)
        if number & (number - 1):
            raise _Bad(f"allowed: a power of two from {least} to {most}")
        return number

    return check


def _quantity(kind: units.Kind, least: float, most: float) -> Check:
    def check(value: object) -> float:
        try:
            number = units.parse(kind, value)
        except units.UnitError as error:
            raise _Bad(str(error)) from None
        if not least <= number <= most:
            raise _Bad(f"allowed: {least:g} to {most:g} ({units.allowed(kind)})")
        return number

    return check


def _bytes(least: int, most: int) -> Check:
    quantity = _quantity(units.Kind.SIZE, least, most)
    return lambda value: int(quantity(value))


def _rate(value: object) -> float:
    match = _BITS.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise _Bad("allowed: a rate such as 8Gb/s or 500Mb/s")
    return float(match[1]) * _FACTORS[match[2]]


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise _Bad("allowed: true or false")
    return value


def _one_of(*words: str) -> Check:
    def check(value: object) -> str:
        if value not in words:
            hint = nearest(str(value), words)
            raise _Bad(f"allowed: {', '.join(words)}" + (f"; {hint}" if hint else ""))
        return str(value)

    return check


def _working_set(value: object) -> int:
    size: int = _bytes(4096, WORKING_SET_MAX)(value)
    return size


_DURATION = _quantity(units.Kind.DURATION, 0.001, 86400.0)
_MOMENT = _quantity(units.Kind.DURATION, 0.0, 86400.0)
_SHARE = _quantity(units.Kind.FRACTION, 0.001, 1.0)
_RING = _power(32, 8192)
_PACKET = _bytes(64, 2048)
_FLOWS = _whole(1, 100_000_000)
_BURST = _whole(1, 4096)
_VALUES: Mapping[str, Check] = {
    "working_set": _working_set,
    "duty": _SHARE,
    "rate": _rate,
    "packet": _PACKET,
    "flows": _FLOWS,
    "burst": _BURST,
    "ways": _whole(1, 32),
}


class _Reader:
    """Walks the document, keeps what is right and notes what is wrong."""

    def __init__(self, parsed: document.Document) -> None:
        self.document = parsed
        self.problems: list[Problem] = list(parsed.problems)

    def complain(self, path: Path, message: str) -> None:
        self.problems.append(self.document.problem(path, message))

    def fields(
        self,
        value: object,
        path: Path,
        known: Mapping[str, Check],
        required: tuple[str, ...] = (),
    ) -> dict[str, Any]:
        """Return a mapping's checked values; wrong, unknown and missing keys are noted."""
        if not isinstance(value, dict):
            self.complain(path, "allowed: a mapping")
            return {}
        found: dict[str, Any] = {}
        for key, item in value.items():
            if key not in known:
                hint = nearest(key, known)
                message = "unknown key; allowed: " + ", ".join(known)
                self.complain((*path, key), message + (f"; {hint}" if hint else ""))
                continue
            try:
                found[key] = known[key](item)
            except _Bad as error:
                self.complain((*path, key), str(error))
        for key in required:
            if key not in value:
                self.complain(path, f"the key {key} is missing")
        return found

    def cpus(self, machine: Machine) -> Check:
        def check(value: object) -> tuple[int, ...]:
            wanted = f"allowed: a list of processors, 0 to {machine.cores - 1}, each once"
            if not isinstance(value, list) or not value:
                raise _Bad(wanted)
            for cpu in value:
                if isinstance(cpu, bool) or not isinstance(cpu, int):
                    raise _Bad(wanted)
                if not 0 <= cpu < machine.cores:
                    raise _Bad(wanted)
            if len(set(value)) != len(value):
                raise _Bad(wanted)
            return tuple(value)

        return check

    def scenario(self, name: str) -> Scenario | None:
        def keep(value: object) -> object:
            return value

        top = self.fields(
            self.document.value,
            (),
            {
                "title": _text,
                "machine": _one_of(*MACHINES),
                "length": _DURATION,
                "seed": _whole(0, 2**31 - 1),
                "strategy": _one_of(*PRESETS),
                "policy": keep,
                "sampling": _power(1, 64),
                "compression": _SHARE,
                "step": _quantity(units.Kind.DURATION, 1e-7, 1e-3),
                "nics": keep,
                "guests": keep,
                "switch": keep,
                "workloads": keep,
                "traffic": keep,
                "events": keep,
                "masks": keep,
            },
            required=("length", "workloads"),
        )
        machine = MACHINES[top.get("machine", "gold-6140")]
        nics = self.nics(top.get("nics", {}))
        workloads = self.workloads(top.get("workloads", {}), machine, nics)
        traffic = self.traffic(top.get("traffic", {}), nics, workloads)
        guests = self.guests(top.get("guests", []), machine, nics)
        switch = self.switch(top["switch"], machine) if "switch" in top else None
        events = self.events(top.get("events", []), workloads, traffic, machine)
        masks = self.masks(top.get("masks", {}), workloads, machine)
        policy = self.policy(top.get("policy", {}))
        if self.problems:
            return None
        return Scenario(
            name=name,
            title=top.get("title", name),
            machine=machine,
            length_s=top["length"],
            seed=top.get("seed", 1),
            strategy=top.get("strategy", "iat"),
            policy=policy,
            nics=tuple(nics.values()),
            guests=guests,
            switch=switch,
            workloads=tuple(workloads.values()),
            traffic=tuple(traffic.values()),
            events=events,
            masks=masks,
            random_masks=top.get("masks") == "random",
            sampling=top.get("sampling", 32),
            compression=top.get("compression", 1.0),
            step_s=top.get("step", 5e-6),
        )

    def mapping(self, value: object, path: Path) -> dict[str, object]:
        if isinstance(value, dict):
            return value
        self.complain(path, "allowed: a mapping of names")
        return {}

    def listing(self, value: object, path: Path) -> list[object]:
        if isinstance(value, list):
            return value
        self.complain(path, "allowed: a list")
        return []

    def nics(self, value: object) -> dict[str, NicSpec]:
        found = {}
        for name, item in self.mapping(value, ("nics",)).items():
            known = {"address": _text, "name": _text, "speed": _rate, "dca": _flag}
            got = self.fields(item, ("nics", name), known, ("address", "speed"))
            if {"address", "speed"} <= got.keys():
                found[name] = NicSpec(
                    name, got["address"], got.get("name"), got["speed"], got.get("dca", True)
                )
        return found

    def workloads(
        self, value: object, machine: Machine, nics: Mapping[str, NicSpec]
    ) -> dict[str, Workload]:
        section = self.mapping(value, ("workloads",))
        switches = {
            name
            for name, item in section.items()
            if isinstance(item, dict)
            and item.get("profile") in PROFILES
            and PROFILES[str(item["profile"])].form is Form.SWITCH
        }
        known: dict[str, Check] = {
            "profile": _one_of(*PROFILES),
            "cpus": self.cpus(machine),
            "nic": _one_of(*nics),
            "switch": _one_of(*sorted(switches)),
            "ring": _RING,
            "buffers": _whole(64, 1 << 20),
            "pool": _one_of("stack", "ring"),
            "working_set": _working_set,
            "writes": _SHARE,
            "duty": _SHARE,
        }
        found: dict[str, Workload] = {}
        taken: dict[int, str] = {}
        for name, item in section.items():
            path = ("workloads", name)
            got = self.fields(item, path, known, ("profile", "cpus"))
            if not {"profile", "cpus"} <= got.keys():
                continue
            for cpu in got["cpus"]:
                if cpu in taken:
                    self.complain((*path, "cpus"), f"processor {cpu} runs {taken[cpu]} already")
                taken[cpu] = name
            if (workload := self.workload(name, got, path)) is not None:
                found[name] = workload
        return found

    def workload(self, name: str, got: dict[str, Any], path: Path) -> Workload | None:
        profile = PROFILES[got["profile"]]
        places = [key for key in ("nic", "switch") if key in got]
        if profile.form is Form.MEMORY and places:
            self.complain((*path, places[0]), f"{profile.name} has no network")
        elif profile.form is Form.NETWORK and len(places) != 1:
            self.complain(path, f"{profile.name} needs nic or switch, one of them")
        elif profile.form is Form.SWITCH and places != ["nic"]:
            self.complain(path, f"{profile.name} needs nic")
        else:
            ring = got.get("ring", 1024 if "nic" in got else 256)
            buffers = got.get("buffers", max(8192, 4 * ring * len(got["cpus"])))
            # Both rings of each queue must be able to be full, with a burst in hand.
            least = (2 * ring + 32) * len(got["cpus"])
            if profile.form is not Form.MEMORY and buffers < least:
                self.complain((*path, "buffers"), f"too few for its rings: at least {least}")
            return Workload(
                name=name,
                profile=profile,
                cpus=got["cpus"],
                nic=got.get("nic"),
                switch=got.get("switch"),
                ring=ring,
                buffers=buffers,
                pool=got.get("pool", "stack"),
                working_set_bytes=got.get("working_set", profile.working_set_bytes),
                writes_percent=round(100 * got["writes"])
                if "writes" in got
                else profile.writes_percent,
                duty=got.get("duty", profile.duty),
            )
        return None

    def traffic(
        self, value: object, nics: Mapping[str, NicSpec], workloads: Mapping[str, Workload]
    ) -> dict[str, Traffic]:
        targets = [n for n, w in workloads.items() if w.profile.form is not Form.MEMORY]
        known: dict[str, Check] = {
            "to": _one_of(*targets),
            "rate": _rate,
            "packet": _PACKET,
            "flows": _FLOWS,
            "burst": _BURST,
        }
        found = {}
        offered: dict[str, float] = {}
        for name, item in self.mapping(value, ("traffic",)).items():
            path = ("traffic", name)
            got = self.fields(item, path, known, ("to", "rate", "packet"))
            if not {"to", "rate", "packet"} <= got.keys():
                continue
            target = workloads[got["to"]]
            nic = target.nic or workloads[target.switch or ""].nic or ""
            offered[nic] = offered.get(nic, 0.0) + got["rate"]
            if offered[nic] > nics[nic].speed_bits_per_s:
                self.complain((*path, "rate"), f"more than {nic} can carry")
            found[name] = Traffic(
                name,
                nic,
                got["to"],
                got["rate"],
                got["packet"],
                got.get("flows", 1),
                got.get("burst", 1),
            )
        return found

    def guests(
        self, value: object, machine: Machine, nics: Mapping[str, NicSpec]
    ) -> tuple[Guest, ...]:
        found = []
        seen: dict[str, int] = {}
        for number, item in enumerate(self.listing(value, ("guests",))):
            path: Path = ("guests", number)
            known: dict[str, Check] = {
                "name": _text,
                "display_name": _text,
                "uuid": _text,
                "flavor": _text,
                "project": _text,
                "extra_specs": lambda specs: specs,
                "cpus": self.cpus(machine),
                "floating": self.cpus(machine),
                "attachments": lambda devices: devices,
            }
            got = self.fields(item, path, known, ("name", "uuid"))
            if not {"name", "uuid"} <= got.keys():
                continue
            if got["uuid"] in seen:
                self.complain((*path, "uuid"), f"guests[{seen[got['uuid']]}] has it already")
            seen[got["uuid"]] = number
            found.append(
                Guest(
                    uuid=got["uuid"],
                    run=number + 1,
                    name=got["name"],
                    display_name=got.get("display_name", got["name"]),
                    flavor=got.get("flavor"),
                    extra_specs=self.specs(got.get("extra_specs"), (*path, "extra_specs")),
                    project=got.get("project"),
                    dedicated_cpus=got.get("cpus", ()),
                    floating_cpus=got.get("floating", ()),
                    numa_nodes=(0,),
                    attachments=self.attachments(
                        got.get("attachments", []), (*path, "attachments"), nics
                    ),
                )
            )
        return tuple(found)

    def specs(self, value: object, path: Path) -> dict[str, str] | None:
        if value is None:
            return {}
        return {
            key: self.document.texts.get((*path, key), str(item))
            for key, item in self.mapping(value, path).items()
        }

    def attachments(
        self, value: object, path: Path, nics: Mapping[str, NicSpec]
    ) -> tuple[Attachment, ...]:
        found = []
        known: dict[str, Check] = {
            "kind": _one_of(*AttachmentKind),
            "device": _text,
            "mac": _text,
            "nic": _one_of(*nics),
            "port": _text,
            "bridge": _text,
        }
        for number, item in enumerate(self.listing(value, path)):
            got = self.fields(item, (*path, number), known, ("kind", "device"))
            if {"kind", "device"} <= got.keys():
                nic = nics.get(got.get("nic", ""))
                found.append(
                    Attachment(
                        AttachmentKind(got["kind"]),
                        got["device"],
                        mac=got.get("mac"),
                        pf=nic.address if nic else None,
                        numa_node=0,
                        port=got.get("port"),
                        bridge=got.get("bridge"),
                    )
                )
        return tuple(found)

    def switch(self, value: object, machine: Machine) -> VirtualSwitch | None:
        known: dict[str, Check] = {
            "cpus": self.cpus(machine),
            "bridge": _text,
            "ports": lambda ports: ports,
        }
        got = self.fields(value, ("switch",), known, ("cpus",))
        bridge = got.get("bridge", "br-int")
        ports = []
        port_keys: dict[str, Check] = {
            "name": _text,
            "type": _text,
            "vm_uuid": _text,
            "mac": _text,
            "dpdk_device": _text,
        }
        for number, item in enumerate(self.listing(got.get("ports", []), ("switch", "ports"))):
            port = self.fields(item, ("switch", "ports", number), port_keys, ("name", "type"))
            if {"name", "type"} <= port.keys():
                ports.append(
                    SwitchPort(
                        port["name"],
                        bridge,
                        port["type"],
                        vm_uuid=port.get("vm_uuid"),
                        mac=port.get("mac"),
                        dpdk_device=port.get("dpdk_device"),
                    )
                )
        return VirtualSwitch({bridge: "netdev"}, tuple(ports), got.get("cpus", ()), "pmd-cpu-mask")

    def events(
        self,
        value: object,
        workloads: Mapping[str, Workload],
        traffic: Mapping[str, Traffic],
        machine: Machine,
    ) -> tuple[Event, ...]:
        found = []
        known: dict[str, Check] = {"at": _MOMENT, "set": _text, "to": lambda to: to}
        for number, item in enumerate(self.listing(value, ("events",))):
            path: Path = ("events", number)
            got = self.fields(item, path, known, ("at", "set", "to"))
            if not {"at", "set", "to"} <= got.keys():
                continue
            subject, _, key = got["set"].rpartition(".")
            group, name, names = "workload", subject, list(workloads)
            if subject == "ddio":
                group, names = "ddio", ["ddio"]
            elif subject.startswith("traffic."):
                group, name, names = "traffic", subject.removeprefix("traffic."), list(traffic)
            if name not in names or key not in _EVENT_KEYS[group]:
                self.complain(
                    (*path, "set"),
                    "allowed: WORKLOAD.working_set, WORKLOAD.duty, traffic.NAME.rate, .packet, "
                    ".flows, .burst, ddio.ways",
                )
                continue
            try:
                number_value = float(_VALUES[key](got["to"]))
            except _Bad as error:
                self.complain((*path, "to"), str(error))
                continue
            if group == "ddio" and number_value > machine.llc_ways:
                self.complain((*path, "to"), f"the machine has {machine.llc_ways} ways")
            found.append(Event(got["at"], subject, key, number_value))
        return tuple(sorted(found, key=lambda event: event.at_s))

    def masks(
        self, value: object, workloads: Mapping[str, Workload], machine: Machine
    ) -> dict[str, WayMask]:
        if value == "random":
            return {}
        most = (1 << machine.llc_ways) - 1
        known = {name: _whole(1, most) for name in workloads}
        got = self.fields(value, ("masks",), known)
        for name, mask in got.items():
            if not WayMask(mask).is_contiguous:
                self.complain(("masks", name), "allowed: a contiguous mask")
        return {name: WayMask(mask) for name, mask in got.items()}

    def policy(self, value: object) -> dict[str, object]:
        names = {field.name for field in dataclasses.fields(Parameters)}
        known: dict[str, Check] = {name: lambda item: item for name in sorted(names)}
        return self.fields(value, ("policy",), known)
