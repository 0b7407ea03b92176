# SPDX-License-Identifier: Apache-2.0
"""The load in a scenario file: workloads, traffic, events and initial masks."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import cattrs

from iat_nova.experiments.machines.machine import Machine
from iat_nova.experiments.scenarios.checked import Checked
from iat_nova.experiments.scenarios.profiles import NETWORKED, PROFILES, Form, Profile
from iat_nova.experiments.scenarios.scenario import NicSpec, ScenarioEvent, WireTraffic, Workload
from iat_nova.model import WayMask
from iat_nova.policy.problems import Path, nearest
from iat_nova.policy.validate import unknown_key

# The properties that an event may set, by kind of subject.
_EVENT_KEYS = {
    "workload": ("working_set", "duty"),
    "traffic": ("rate", "packet", "flows", "burst"),
    "ddio": ("ways",),
}
_PLACES = ("nic", "switch", "disk")
_RINGS = ("ring", "send_ring", "backlog", "buffers", "pool", "jitter")
# Keys that only some profiles use.
_OF_SOME = frozenset({*_RINGS, "working_set", "writes", "duty", "block", "depth"})


def choices(section: Mapping[str, object]) -> dict[str, list[str]]:
    """Return the names of the workloads that may be a ``switch``, or a ``target`` of traffic.

    A workload with an unknown profile is allowed everywhere, to avoid a second message for one
    mistake.
    """
    profiles = {
        name: PROFILES.get(str(item.get("profile")))
        for name, item in section.items()
        if isinstance(item, dict)
    }
    forms = {"switch": (Form.SWITCH,), "target": NETWORKED}
    return {
        word: [name for name, one in profiles.items() if one is None or one.form in allowed]
        for word, allowed in forms.items()
    }


def workloads(checked: Checked) -> dict[str, Workload]:
    """Read the section ``workloads``."""
    found: dict[str, Workload] = {}
    taken: dict[int, str] = {}
    for name, given in checked.value.get("workloads", {}).items():
        path = ("workloads", name)
        for cpu in given["cpus"]:
            if cpu in taken:
                checked.complain((*path, "cpus"), f"CPU {cpu} runs {taken[cpu]} already")
            taken[cpu] = name
        profile = PROFILES[given["profile"]]
        written = _written(checked, path)
        if not _attached(checked, path, profile, [key for key in _PLACES if key in written]):
            continue
        used = keys(profile)
        for key in written:
            if key in _OF_SOME and key not in used:
                checked.complain(
                    (*path, key), f"{profile.name} does not use it, only {', '.join(used)}"
                )
        if all(key in given for key in _PLACES if key in written):
            found[name] = _workload(checked, path, profile, {"name": name, **given})
    return found


def _written(checked: Checked, path: Path) -> list[str]:
    """Return the keys that the file has at a path."""
    return [str(at[-1]) for at in checked.document.marks if at[:-1] == path and at != path]


def keys(profile: Profile) -> tuple[str, ...]:
    """Return the keys of a workload that affect this profile, without CPUs and attachments."""
    match profile.form:
        case Form.MEMORY:
            return ("writes", "duty") if profile.locality else ("working_set", "writes", "duty")
        case Form.STORAGE:
            return ("block", "depth", "writes")
    return (*_RINGS, "writes") if profile.locality or profile.table_touches else _RINGS


def places(profile: Profile) -> tuple[str, ...]:
    """Return the keys that name a workload's device. A workload needs exactly one of the keys."""
    match profile.form:
        case Form.MEMORY:
            return ()
        case Form.STORAGE:
            return ("disk",)
        case Form.NETWORK:
            return ("nic", "switch")
    return ("nic",)


def _attached(checked: Checked, path: Path, profile: Profile, given: Sequence[str]) -> bool:
    """Check the attachment of a workload."""
    possible = places(profile)
    wrong = [one for one in given if ("disk" if one == "disk" else "nic") not in possible]
    if wrong:
        what = "disk" if wrong[0] == "disk" else "network"
        checked.complain((*path, wrong[0]), f"{profile.name} has no {what}")
    elif possible and not (len(given) == 1 and given[0] in possible):
        text = f"{profile.name} needs {' or '.join(possible)}"
        checked.complain(path, text + (", one of them" if len(possible) > 1 else ""))
    else:
        return True
    return False


def _workload(checked: Checked, path: Path, profile: Profile, given: Mapping[str, Any]) -> Workload:
    """Make a workload; missing values follow from the profile and the rings."""
    ring = given.get("ring", 1024 if "nic" in given else 256)
    cpus = len(given["cpus"])
    usual = {
        "ring": ring,
        "send_ring": ring,
        "backlog": 0,
        "buffers": max(8192, 4 * ring * cpus),
        "working_set_bytes": profile.working_set_bytes,
        "duty": profile.duty,
    }
    whole: dict[str, Any] = {**usual, **given}
    # The buffers must fill both rings of each queue, with one burst in the thread's hands.
    waiting = ring + whole["backlog"]
    if waiting & (waiting - 1):
        checked.complain((*path, "backlog"), "must be a power of two together with the ring")
    least = (waiting + whole["send_ring"] + 32) * cpus
    if profile.form in NETWORKED and whole["buffers"] < least:
        checked.complain((*path, "buffers"), f"too few for its rings: at least {least}")
    writes = round(100 * whole["writes"]) if "writes" in whole else profile.writes_percent
    return _CONVERTER.structure({**whole, "profile": profile, "writes_percent": writes}, Workload)


_CONVERTER = cattrs.Converter()
_CONVERTER.register_structure_hook(Profile, lambda profile, _: profile)


def traffic(
    checked: Checked, nics: Mapping[str, NicSpec], workloads: Mapping[str, Workload]
) -> dict[str, WireTraffic]:
    """Read the section ``traffic``."""
    found = {}
    offered: dict[str, float] = {}
    for name, given in checked.value.get("traffic", {}).items():
        path = ("traffic", name)
        target = workloads.get(given["to"])
        entry = target if target is None or target.nic else workloads.get(target.switch or "")
        card = nics.get(entry.nic or "") if entry else None
        if card is None or target is None:
            continue
        if "clients" in given:
            _closed_loop(checked, path, given, target)
        if not {"rate_bits_per_s", "packet_bytes"} <= given.keys():
            continue
        offered[card.name] = offered.get(card.name, 0.0) + given["rate_bits_per_s"]
        if offered[card.name] > card.speed_bits_per_s and not card.overload:
            checked.complain((*path, "rate"), _too_much(card))
        whole = {"round_trip_s": 50e-6, **given, "name": name, "nic": card.name}
        found[name] = cattrs.structure(whole, WireTraffic)
    return found


def _closed_loop(checked: Checked, path: Path, given: dict[str, Any], target: Workload) -> None:
    """Check the keys of closed-loop clients and add the missing values."""
    for key in ("rate", "burst"):
        if key in _written(checked, path):
            checked.complain((*path, key), "clients send when they are answered: leave it out")
    if given["clients"] > target.ring:
        checked.complain(
            (*path, "clients"),
            f"more requests than the ring of {target.name} ({target.ring}) holds: they get lost",
        )
    if target.profile.request_bytes:
        given.setdefault("packet_bytes", target.profile.request_bytes)
    elif "packet" not in _written(checked, path):
        checked.complain(
            path, f"the key packet is missing: {target.profile.name} has no size of its own"
        )
    given["rate_bits_per_s"] = 0.0


def events(
    checked: Checked,
    workloads: Mapping[str, Workload],
    traffic: Mapping[str, WireTraffic],
    nics: Mapping[str, NicSpec],
    machine: Machine,
) -> tuple[ScenarioEvent, ...]:
    """Read the section ``events``; the result is sorted by time."""
    found: list[tuple[Path, ScenarioEvent]] = []
    length_s = checked.value.get("length_s")
    for number, given in enumerate(checked.value.get("events", [])):
        if given is None or not {"at_s", "set", "to"} <= given.keys():
            continue
        path: Path = ("events", number)
        if length_s is not None and given["at_s"] >= length_s:
            checked.complain((*path, "at"), over(length_s))
        subject, _, key = given["set"].rpartition(".")
        group, name, names = "workload", subject, list(workloads)
        if subject == "ddio":
            group, names = "ddio", ["ddio"]
        elif subject.startswith("traffic."):
            group, name, names = "traffic", subject.removeprefix("traffic."), list(traffic)
        known = group == "ddio" or name in _given(checked, group)
        if key not in _EVENT_KEYS[group] or not known:
            near = nearest(given["set"], _settable(checked))
            checked.complain(
                (*path, "set"),
                f'invalid value "{given["set"]}": expected WORKLOAD.working_set, WORKLOAD.duty, '
                "traffic.NAME.rate, .packet, .flows, .burst or ddio.ways"
                + (f"; did you mean {near}?" if near else ""),
            )
            continue
        if name not in names:
            continue  # the section has a problem of its own
        if group == "workload" and key not in keys(workloads[name].profile):
            checked.complain((*path, "set"), f"{workloads[name].profile.name} does not use {key}")
        if group == "traffic" and key in ("rate", "burst") and traffic[name].clients:
            checked.complain(
                (*path, "set"), "clients send when they are answered: they have no rate"
            )
        value = checked.value_of(key, (*path, "to"), given["to"])
        if value is None:
            continue
        if group == "ddio" and value > machine.llc_ways:
            checked.complain((*path, "to"), f"the machine has {machine.llc_ways} ways")
        found.append((path, ScenarioEvent(given["at_s"], subject, key, float(value))))
    found.sort(key=lambda one: one[1].at_s)
    _check_rates(checked, found, traffic, nics)
    return tuple(event for _, event in found)


def over(length_s: float) -> str:
    """Return the problem of a moment at which the scenario is over."""
    return f"the scenario is over then: its length is {length_s:g} s"


def _given(checked: Checked, group: str) -> Sequence[str]:
    """Return the names of workloads or of traffic in the file, valid or not."""
    top: Any = checked.document.value
    given = top.get("traffic" if group == "traffic" else "workloads")
    return [str(name) for name in given] if isinstance(given, dict) else []


def _settable(checked: Checked) -> Iterator[str]:
    """Yield what an event may set in this scenario."""
    for group, prefix in (("workload", ""), ("traffic", "traffic.")):
        for name in _given(checked, group):
            yield from (f"{prefix}{name}.{key}" for key in _EVENT_KEYS[group])
    yield "ddio.ways"


def _too_much(card: NicSpec) -> str:
    speed = f"{card.speed_bits_per_s / 1e9:g}Gb/s"
    return f"more than {card.name} can carry: its traffic together exceeds {speed}"


def _check_rates(
    checked: Checked,
    found: Sequence[tuple[Path, ScenarioEvent]],
    traffic: Mapping[str, WireTraffic],
    nics: Mapping[str, NicSpec],
) -> None:
    """Report events, in order of time, after which the traffic exceeds a card's speed."""
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
                checked.complain((*path, "to"), _too_much(nics[name]))


def masks(
    checked: Checked, workloads: Mapping[str, Workload], machine: Machine
) -> dict[str, WayMask]:
    """Read the section ``masks``; the result is empty for the word random."""
    given = checked.value.get("masks", {})
    if given == "random":
        return {}
    if not isinstance(given, dict):
        checked.complain(("masks",), "invalid value: expected a mask for each workload, or random")
        return {}
    most = (1 << machine.llc_ways) - 1
    for name, mask in given.items():
        path = ("masks", name)
        if name not in workloads:
            checked.complain(path, unknown_key(name, workloads))
        elif type(mask) is not int or not 1 <= mask <= most:
            checked.complain(path, f"invalid mask: expected a whole number from 1 to {most}")
        elif not WayMask(mask).is_contiguous:
            checked.complain(path, "invalid mask: expected a contiguous mask")
    return {name: WayMask(mask) for name, mask in given.items() if type(mask) is int}
