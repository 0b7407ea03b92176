# SPDX-License-Identifier: Apache-2.0
"""The host's part of a scenario file: cards, guests and the virtual switch as facts."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from iat_nova.model import Attachment, AttachmentKind, Guest, SwitchPort, VirtualSwitch
from iat_nova.nova import extra_specs
from iat_nova.policy.problems import Path
from iat_nova.sim import values
from iat_nova.sim.fields import Fields
from iat_nova.sim.machine import Machine
from iat_nova.sim.scenario import DiskSpec, NicSpec, Stay
from iat_nova.sim.values import Check

# Keys of a guest that is not there from the start to the end.
_STAY = ("arrives", "leaves")


def nics(f: Fields, value: object, machine: Machine) -> dict[str, NicSpec]:
    """Read the section ``nics``."""
    found = {}
    for name, item in f.mapping(value, ("nics",)).items():
        known = {
            "address": values.text,
            "name": values.text,
            "speed": values.bits_per_s,
            "dca": values.flag,
            "socket": values.whole(0, machine.sockets - 1),
            "overload": values.flag,
        }
        got = f.fields(item, ("nics", name), known, ("address", "speed"))
        if {"address", "speed"} <= got.keys():
            found[name] = NicSpec(
                name,
                got["address"],
                got.get("name"),
                got["speed"],
                got.get("dca", True),
                got.get("socket", 0),
                got.get("overload", False),
            )
    return found


def disks(f: Fields, value: object) -> dict[str, DiskSpec]:
    """Read the section ``disks``."""
    found = {}
    known = {
        "address": values.text,
        "speed": values.bytes_per_s,
        "iops": values.IOPS,
        "latency": values.MEDIUM,
        "dca": values.flag,
    }
    for name, item in f.mapping(value, ("disks",)).items():
        got = f.fields(item, ("disks", name), known, ("address", "speed"))
        if {"address", "speed"} <= got.keys():
            standard = DiskSpec(name, got["address"], got["speed"])
            found[name] = dataclasses.replace(
                standard,
                commands_per_s=got.get("iops"),
                medium_s=got.get("latency", standard.medium_s),
                dca=got.get("dca", True),
            )
    return found


def guests(
    f: Fields, value: object, machine: Machine, nics: Mapping[str, NicSpec]
) -> tuple[Guest, ...]:
    """Read the section ``guests``."""
    found = []
    seen: dict[str, int] = {}
    for number, item in enumerate(f.listing(value, ("guests",))):
        path: Path = ("guests", number)
        known: dict[str, Check] = {
            "name": values.text,
            "display_name": values.text,
            "uuid": values.text,
            "flavor": values.text,
            "project": values.text,
            "extra_specs": values.anything,
            "cpus": values.cpus(machine.processors),
            "floating": values.cpus(machine.processors),
            "attachments": values.anything,
            **dict.fromkeys(_STAY, values.MOMENT),
        }
        got = f.fields(item, path, known, ("name", "uuid"))
        if not {"name", "uuid"} <= got.keys():
            continue
        if got["uuid"] in seen:
            f.complain((*path, "uuid"), f"guests[{seen[got['uuid']]}] has it already")
        seen[got["uuid"]] = number
        found.append(
            Guest(
                uuid=got["uuid"],
                run=number + 1,
                name=got["name"],
                display_name=got.get("display_name", got["name"]),
                flavor=got.get("flavor"),
                extra_specs=_specs(f, got.get("extra_specs"), (*path, "extra_specs")),
                project=got.get("project"),
                dedicated_cpus=got.get("cpus", ()),
                floating_cpus=got.get("floating", ()),
                numa_nodes=_nodes(machine, *got.get("cpus", ()), *got.get("floating", ())),
                attachments=_attachments(
                    f, got.get("attachments", []), (*path, "attachments"), nics
                ),
            )
        )
    return tuple(found)


def stays(f: Fields, value: object) -> dict[str, Stay]:
    """Read from the section ``guests``, which `guests` has checked, who comes or goes when."""
    found = {}
    for number, item in enumerate(value if isinstance(value, list) else ()):
        if not isinstance(item, dict) or not set(_STAY) & item.keys():
            continue
        try:
            given = {f"{key}_s": values.MOMENT(item[key]) for key in _STAY if key in item}
        except values.NotAllowed:
            continue  # `guests` has complained
        stay = Stay(**given)
        if stay.leaves_s <= stay.arrives_s:
            f.complain(("guests", number, "leaves"), "the guest must arrive before it leaves")
        found[str(item.get("uuid"))] = stay
    return found


def _nodes(machine: Machine, *cpus: int) -> tuple[int, ...]:
    """Return the NUMA nodes that processors are on: one a socket."""
    return tuple(sorted({machine.socket_of(cpu) for cpu in cpus})) or (0,)


def _specs(f: Fields, value: object, path: Path) -> dict[str, str]:
    """Read a flavor's extra specs; what the agent would not use of them is wrong here."""
    if value is None:
        return {}
    specs = {
        key: f.document.texts.get((*path, key), str(item))
        for key, item in f.mapping(value, path).items()
    }
    wrong = {key: extra_specs.parse({key: text}).problems for key, text in specs.items()}
    for key, problems in wrong.items():
        for problem in problems:
            f.complain((*path, key), problem)
    if not any(wrong.values()):  # each is right alone; together they may contradict
        for problem in extra_specs.parse(specs).problems:
            f.complain(path, problem)
    return specs


def _attachments(
    f: Fields, value: object, path: Path, nics: Mapping[str, NicSpec]
) -> tuple[Attachment, ...]:
    found = []
    known: dict[str, Check] = {
        "kind": values.one_of(*AttachmentKind),
        "device": values.text,
        "mac": values.text,
        "nic": values.one_of(*nics),
        "port": values.text,
        "bridge": values.text,
    }
    for number, item in enumerate(f.listing(value, path)):
        got = f.fields(item, (*path, number), known, ("kind", "device"))
        if {"kind", "device"} <= got.keys():
            nic = nics.get(got.get("nic", ""))
            found.append(
                Attachment(
                    AttachmentKind(got["kind"]),
                    got["device"],
                    mac=got.get("mac"),
                    pf=nic.address if nic else None,
                    numa_node=nic.socket if nic else 0,
                    port=got.get("port"),
                    bridge=got.get("bridge"),
                )
            )
    return tuple(found)


def switch(f: Fields, value: object, machine: Machine) -> VirtualSwitch | None:
    """Read the section ``switch``."""
    known: dict[str, Check] = {
        "cpus": values.cpus(machine.processors),
        "bridge": values.text,
        "ports": values.anything,
    }
    got = f.fields(value, ("switch",), known, ("cpus",))
    bridge = got.get("bridge", "br-int")
    ports = []
    port_keys: dict[str, Check] = {
        "name": values.text,
        "type": values.text,
        "vm_uuid": values.text,
        "mac": values.text,
        "dpdk_device": values.text,
    }
    for number, item in enumerate(f.listing(got.get("ports", []), ("switch", "ports"))):
        port = f.fields(item, ("switch", "ports", number), port_keys, ("name", "type"))
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
