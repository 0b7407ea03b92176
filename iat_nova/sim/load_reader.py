# SPDX-License-Identifier: Apache-2.0
"""The load's part of a scenario file: workloads, traffic, events and the masks to start with."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from iat_nova.model import WayMask
from iat_nova.policy.problems import Path
from iat_nova.sim import values
from iat_nova.sim.fields import Fields
from iat_nova.sim.machine import Machine
from iat_nova.sim.scenario import Event, NicSpec, Traffic, Workload
from iat_nova.sim.values import Check
from iat_nova.sim.workloads.profiles import NETWORKED, PROFILES, Form, Profile

_EVENT_KEYS = {
    "workload": ("working_set", "duty"),
    "traffic": ("rate", "packet", "flows", "burst"),
    "ddio": ("ways",),
}
_PLACES = ("nic", "switch", "disk")
_RINGS = ("ring", "send_ring", "backlog", "buffers", "pool", "jitter")


def workloads(
    f: Fields, value: object, machine: Machine, devices: Mapping[str, Sequence[str]]
) -> dict[str, Workload]:
    """Read the section ``workloads``; `devices`: the names of every ``nic`` and every ``disk``."""
    section = f.mapping(value, ("workloads",))
    if isinstance(value, dict) and not section:
        f.complain(("workloads",), "at least one workload is needed")
    known: dict[str, Check] = {
        "profile": values.one_of(*PROFILES),
        "cpus": values.cpus(machine.processors),
        "nic": values.one_of(*devices["nic"]),
        "disk": values.one_of(*devices["disk"]),
        "block": values.BLOCK,
        "depth": values.DEPTH,
        "switch": values.one_of(*_names(section, Form.SWITCH)),
        "ring": values.RING,
        "send_ring": values.RING,
        "backlog": values.whole(0, 8192),
        "buffers": values.whole(64, 1 << 20),
        "pool": values.one_of("stack", "ring"),
        "working_set": values.working_set,
        "writes": values.SHARE,
        "duty": values.SHARE,
        "jitter": values.JITTER,
    }
    found: dict[str, Workload] = {}
    taken: dict[int, str] = {}
    for name, item in section.items():
        path = ("workloads", name)
        got = f.fields(item, path, known, ("profile", "cpus"))
        for cpu in got.get("cpus", ()):
            if cpu in taken:
                f.complain((*path, "cpus"), f"processor {cpu} runs {taken[cpu]} already")
            taken[cpu] = name
        if isinstance(item, dict) and {"profile", "cpus"} <= got.keys():
            profile = PROFILES[got["profile"]]
            places = [key for key in _PLACES if key in item]
            if not _attached(f, path, profile, places):
                continue
            used = _keys(profile)
            for key in [key for key in got if key not in ("profile", "cpus", *_PLACES, *used)]:
                f.complain((*path, key), f"{profile.name} does not use it, only {', '.join(used)}")
                del got[key]
            if all(key in got for key in places):
                found[name] = _workload(f, path, name, got)
    return found


def _keys(profile: Profile) -> tuple[str, ...]:
    """Return the keys of a workload that change what this profile does, beside where it runs."""
    match profile.form:
        case Form.MEMORY:
            return ("writes", "duty") if profile.locality else ("working_set", "writes", "duty")
        case Form.STORAGE:
            return ("block", "depth", "writes")
    return (*_RINGS, "writes") if profile.locality or profile.table_touches else _RINGS


def _names(section: Mapping[str, object], *forms: Form) -> list[str]:
    """Return the names of workloads of some forms, whatever else is wrong with them.

    One whose profile is wrong may be of any form: to name it is no second mistake.
    """
    profiles = {
        name: PROFILES.get(str(item.get("profile")))
        for name, item in section.items()
        if isinstance(item, dict)
    }
    return [name for name, one in profiles.items() if one is None or one.form in forms]


def _attached(f: Fields, path: Path, profile: Profile, places: Sequence[str]) -> bool:
    """Check what a workload is attached to."""
    wrong = [place for place in places if (place == "disk") != (profile.form is Form.STORAGE)]
    if profile.form is Form.MEMORY and places:
        wrong = list(places)
    if wrong:
        what = "disk" if wrong[0] == "disk" else "network"
        f.complain((*path, wrong[0]), f"{profile.name} has no {what}")
    elif profile.form is Form.STORAGE and places != ["disk"]:
        f.complain(path, f"{profile.name} needs disk")
    elif profile.form is Form.NETWORK and len(places) != 1:
        f.complain(path, f"{profile.name} needs nic or switch, one of them")
    elif profile.form in (Form.SWITCH, Form.PIPELINE) and places != ["nic"]:
        f.complain(path, f"{profile.name} needs nic")
    else:
        return True
    return False


def _workload(f: Fields, path: Path, name: str, got: Mapping[str, Any]) -> Workload:
    """Make a workload; what is not given follows from its profile and its rings."""
    profile = PROFILES[got["profile"]]
    ring = got.get("ring", 1024 if "nic" in got else 256)
    buffers = got.get("buffers", max(8192, 4 * ring * len(got["cpus"])))
    # Both rings of each queue must be able to be full, with a burst in hand.
    send_ring, backlog = got.get("send_ring", ring), got.get("backlog", 0)
    if (ring + backlog) & (ring + backlog - 1):
        f.complain((*path, "backlog"), "must be a power of two together with the ring")
    least = (ring + backlog + send_ring + 32) * len(got["cpus"])
    if profile.form in NETWORKED and buffers < least:
        f.complain((*path, "buffers"), f"too few for its rings: at least {least}")
    writes = round(100 * got["writes"]) if "writes" in got else profile.writes_percent
    return Workload(
        name=name,
        profile=profile,
        cpus=got["cpus"],
        nic=got.get("nic"),
        switch=got.get("switch"),
        ring=ring,
        send_ring=send_ring,
        backlog=backlog,
        buffers=buffers,
        pool=got.get("pool", "stack"),
        working_set_bytes=got.get("working_set", profile.working_set_bytes),
        writes_percent=writes,
        duty=got.get("duty", profile.duty),
        disk=got.get("disk"),
        block_bytes=got.get("block", 4096),
        depth=got.get("depth", 32),
        jitter_s=got.get("jitter", 0.0),
    )


def traffic(
    f: Fields,
    value: object,
    section: object,
    nics: Mapping[str, NicSpec],
    workloads: Mapping[str, Workload],
) -> dict[str, Traffic]:
    """Read the section ``traffic``; `section` is the whole one of the workloads."""
    targets = _names(section, *NETWORKED) if isinstance(section, dict) else []
    known: dict[str, Check] = {
        "to": values.one_of(*targets),
        "rate": values.bits_per_s,
        "packet": values.PACKET,
        "flows": values.FLOWS,
        "burst": values.BURST,
        "clients": values.CLIENTS,
        "round_trip": values.ROUND_TRIP,
    }
    found = {}
    offered: dict[str, float] = {}
    for name, item in f.mapping(value, ("traffic",)).items():
        path = ("traffic", name)
        closed = isinstance(item, dict) and "clients" in item
        got = f.fields(item, path, known, ("to",) if closed else ("to", "rate", "packet"))
        target = workloads.get(got.get("to", ""))
        entry = target if target is None or target.nic else workloads.get(target.switch or "")
        card = nics.get(entry.nic or "") if entry else None
        if card is None:
            continue
        if closed:
            _closed_loop(f, path, got, target)
        if not {"rate", "packet"} <= got.keys():
            continue
        offered[card.name] = offered.get(card.name, 0.0) + got["rate"]
        if offered[card.name] > card.speed_bits_per_s and not card.overload:
            f.complain((*path, "rate"), f"more than {card.name} can carry")
        found[name] = Traffic(
            name,
            card.name,
            got["to"],
            got["rate"],
            got["packet"],
            got.get("flows", 1),
            got.get("burst", 1),
            got.get("clients", 0),
            got.get("round_trip", 50e-6),
        )
    return found


def _closed_loop(f: Fields, path: Path, got: dict[str, Any], target: Workload | None) -> None:
    """Complete what is given of clients that wait for their replies."""
    for key in ("rate", "burst"):
        if key in got:
            f.complain((*path, key), "clients send when they are answered: leave it out")
    if target is not None and got.get("clients", 0) > target.ring:
        f.complain(
            (*path, "clients"),
            f"more requests than the ring of {target.name} ({target.ring}) holds: they get lost",
        )
    if "packet" not in got and target is not None:
        if target.profile.request_bytes:
            got["packet"] = target.profile.request_bytes
        else:
            f.complain(path, f"the key packet is missing: {target.profile.name} tells no size")
    got["rate"] = 0.0


def events(
    f: Fields,
    value: object,
    length_s: float | None,
    workloads: Mapping[str, Workload],
    traffic: Mapping[str, Traffic],
    nics: Mapping[str, NicSpec],
    machine: Machine,
) -> tuple[Event, ...]:
    """Read the section ``events``, in the order of their moments."""
    found: list[tuple[Path, Event]] = []
    known: dict[str, Check] = {"at": values.MOMENT, "set": values.text, "to": values.anything}
    for number, item in enumerate(f.listing(value, ("events",))):
        path: Path = ("events", number)
        got = f.fields(item, path, known, ("at", "set", "to"))
        if not {"at", "set", "to"} <= got.keys():
            continue
        if length_s is not None and got["at"] >= length_s:
            f.complain((*path, "at"), f"the scenario is over then: its length is {length_s:g} s")
        subject, _, key = got["set"].rpartition(".")
        group, name, names = "workload", subject, list(workloads)
        if subject == "ddio":
            group, names = "ddio", ["ddio"]
        elif subject.startswith("traffic."):
            group, name, names = "traffic", subject.removeprefix("traffic."), list(traffic)
        if name not in names or key not in _EVENT_KEYS[group]:
            f.complain(
                (*path, "set"),
                "allowed: WORKLOAD.working_set, WORKLOAD.duty, traffic.NAME.rate, .packet, "
                ".flows, .burst, ddio.ways",
            )
            continue
        if group == "workload" and key not in _keys(workloads[name].profile):
            f.complain((*path, "set"), f"{workloads[name].profile.name} does not use {key}")
        if group == "traffic" and key in ("rate", "burst") and traffic[name].clients:
            f.complain((*path, "set"), "clients send when they are answered: they have no rate")
        try:
            number_value = float(values.BY_KEY[key](got["to"]))
        except values.NotAllowed as error:
            f.complain((*path, "to"), str(error))
            continue
        if group == "ddio" and number_value > machine.llc_ways:
            f.complain((*path, "to"), f"the machine has {machine.llc_ways} ways")
        found.append((path, Event(got["at"], subject, key, number_value)))
    found.sort(key=lambda one: one[1].at_s)
    _check_rates(f, found, traffic, nics)
    return tuple(event for _, event in found)


def _check_rates(
    f: Fields,
    found: Sequence[tuple[Path, Event]],
    traffic: Mapping[str, Traffic],
    nics: Mapping[str, NicSpec],
) -> None:
    """Note events, in their order, after which a card is sent more than it can carry."""
    rates = {f"traffic.{name}": one.rate_bits_per_s for name, one in traffic.items()}
    cards = {f"traffic.{name}": one.nic for name, one in traffic.items()}
    changes = [one for one in found if one[1].key == "rate"]
    for _, moment in itertools.groupby(changes, key=lambda one: one[1].at_s):
        last: dict[str, Path] = {}  # of each card whose traffic changes
        for path, event in moment:
            rates[event.subject] = event.value
            last[cards[event.subject]] = path
        for name, path in last.items():
            offered = sum(rates[one] for one, card in cards.items() if card == name)
            if offered > nics[name].speed_bits_per_s and not nics[name].overload:
                f.complain((*path, "to"), f"more than {name} can carry")


def masks(
    f: Fields, value: object, workloads: Mapping[str, Workload], machine: Machine
) -> dict[str, WayMask]:
    """Read the section ``masks``; nothing for the word random."""
    if value == "random":
        return {}
    most = (1 << machine.llc_ways) - 1
    known = {name: values.whole(1, most) for name in workloads}
    got = f.fields(value, ("masks",), known)
    for name, mask in got.items():
        if not WayMask(mask).is_contiguous:
            f.complain(("masks", name), "allowed: a contiguous mask")
    return {name: WayMask(mask) for name, mask in got.items()}
