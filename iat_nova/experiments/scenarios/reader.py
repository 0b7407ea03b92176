# SPDX-License-Identifier: Apache-2.0
"""From a scenario's YAML to a `Scenario`; every problem is reported with line and path."""

from __future__ import annotations

import dataclasses
import itertools
import math
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import cattrs

from iat_nova.common.plugins import found
from iat_nova.common.readers import SCENARIO
from iat_nova.experiments.machines.machine import (
    CPUS_MAX,
    MACHINES,
    AdcaChoice,
    Machine,
    WriteTarget,
)
from iat_nova.experiments.scenarios import load_reader
from iat_nova.experiments.scenarios.checked import Checked
from iat_nova.experiments.scenarios.profiles import PROFILES
from iat_nova.experiments.scenarios.scenario import (
    DiskSpec,
    NicSpec,
    Scenario,
    ScenarioError,
    Stay,
    Workload,
)
from iat_nova.experiments.scenarios.shipped import SHIPPED, shipped
from iat_nova.model import (
    Attachment,
    AttachmentKind,
    Guest,
    HostFacts,
    Message,
    SwitchPort,
    VirtualSwitch,
    WayMask,
    message,
)
from iat_nova.policy import document, schema
from iat_nova.policy.compile import compile_policy
from iat_nova.policy.problems import Path, PolicyError, Problem, located, of_specs
from iat_nova.policy.rendered import Rendered
from iat_nova.policy.validate import unknown_key, validate
from iat_nova.strategies import registry as strategies


def load_scenario(path: str | pathlib.Path) -> Scenario:
    """Read a scenario file, or a shipped scenario by its bare name (without folder and suffix).

    Raises `ScenarioError`.
    """
    source = pathlib.Path(path)
    if not source.suffix and source.name == str(path):
        source = SHIPPED / f"{path}.yaml"
        if not source.exists():
            raise ScenarioError(
                f"no scenario {str(path)!r} ships; there are: {', '.join(shipped())}"
            )
    try:
        text = SCENARIO.read(source).decode()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text in UTF-8"
        raise ScenarioError(f"{source}: cannot be read: {why}") from error
    return read_scenario(text, name=source.stem, source=str(source))


def read_scenario(text: str, name: str, source: str) -> Scenario:
    """Build a scenario from its text. Raises `ScenarioError` with all problems."""
    lines = tuple(range(1, text.count("\n") + 2))
    try:
        parsed = document.read(Rendered(text, lines))
    except PolicyError as error:
        raise ScenarioError(_all(source, error.problems)) from None
    given = parsed.value if isinstance(parsed.value, dict) else {}
    machine = MACHINES.get(str(given.get("machine")), MACHINES["gold-6140"])
    sockets = 2 if given.get("sockets") == 2 else 1
    choices: dict[str, Sequence[object]] = {
        "machine": list(MACHINES),
        "io": list(WriteTarget),
        "adca": list(AdcaChoice),
        "strategy": [*strategies.BUILT_IN, *(one.name for one in found(strategies.NAMESPACE))],
        "attachment": list(AttachmentKind),
        "profile": list(PROFILES),
        "socket": range(sockets),
        "nic": list(_section(given, "nics")),
        "disk": list(_section(given, "disks")),
        **load_reader.choices(_section(given, "workloads")),
    }
    checked = Checked(parsed, choices, min(machine.cores * sockets, CPUS_MAX))
    parts = _parts(checked)
    if checked.problems:
        problems = sorted(checked.problems, key=lambda problem: problem.line or 0)
        raise ScenarioError(_all(source, problems))
    return Scenario(name=name, **{"title": name, **parts})


def _section(value: object, name: str) -> dict[str, Any]:
    """Return a section of an unchecked document; empty unless the section is a mapping."""
    found = value.get(name) if isinstance(value, dict) else None
    return found if isinstance(found, dict) else {}


def _all(source: str, problems: Iterable[Problem]) -> Message:
    return message("problems", problems=located(source, problems))


# Keys of the file that become attributes of the scenario unchanged.
_PLAIN = (
    "title",
    "length_s",
    "sampling",
    "compression",
    "step_s",
    "counter_noise",
    "one_slice",
    "bandwidth_min",
)


def _parts(checked: Checked) -> dict[str, Any]:
    """Return the arguments of `Scenario`; incomplete after a problem."""
    top = checked.value
    machine = _machine(checked)
    nics = {
        name: cattrs.structure({"name": name, "device": None, **one}, NicSpec)
        for name, one in top.get("nics", {}).items()
    }
    disks = tuple(
        cattrs.structure({"name": name, **one}, DiskSpec)
        for name, one in top.get("disks", {}).items()
    )
    workloads = load_reader.workloads(checked)
    traffic = load_reader.traffic(checked, nics, workloads)
    guests = tuple(_guests(checked, machine, nics))
    _check_places(checked, guests, workloads)
    return {
        "sampling": 32,
        "compression": 1.0,
        "step_s": 5e-6,
        **{key: top[key] for key in _PLAIN if key in top},
        "machine": machine,
        "seed": top.get("seed", 1),
        "strategy": top.get("strategy", strategies.DEFAULT),
        "policy": _policy(checked, machine),
        "nics": tuple(nics.values()),
        "disks": disks,
        "guests": guests,
        "stays": _stays(checked),
        "switch": _switch(top["switch"]) if "switch" in top else None,
        "workloads": tuple(workloads.values()),
        "traffic": tuple(traffic.values()),
        "events": load_reader.events(checked, workloads, traffic, nics, machine),
        "masks": load_reader.masks(checked, workloads, machine),
        "random_masks": top.get("masks") == "random",
        "restarts_s": _restarts(checked),
    }


def _restarts(checked: Checked) -> tuple[float, ...]:
    """Return the moments at which the agent is restarted, in seconds."""
    found = checked.value.get("restarts", ())
    length_s = checked.value.get("length_s", math.inf)
    for number, (before_s, at_s) in enumerate(itertools.pairwise((0.0, *found))):
        if at_s <= before_s or at_s >= length_s:
            checked.complain(
                ("restarts", number),
                "invalid time: expected a time after the restart before, and before the end",
            )
    return tuple(found)


def _machine(checked: Checked) -> Machine:
    """Return the machine with the scenario's sockets, kind of inbound I/O and MBA."""
    top = checked.value
    machine = MACHINES[top.get("machine", "gold-6140")]
    sockets = top.get("sockets", 1)
    if machine.cores * sockets > CPUS_MAX:
        checked.complain(
            ("sockets",),
            f"invalid number: expected 1 for {machine.name}, which has {machine.cores} cores",
        )
        sockets = 1
    io, adca = WriteTarget(top.get("io", machine.io)), AdcaChoice(top.get("adca", machine.adca))
    mba = top.get("mba", machine.mba)
    machine = dataclasses.replace(machine, sockets=sockets, io=io, adca=adca, mba=mba)
    if io is WriteTarget.ADCA:  # ADCA limits device lines in each set, not by a mask
        return dataclasses.replace(machine, ddio_ways=WayMask.span(0, machine.llc_ways))
    return machine


def _policy(checked: Checked, machine: Machine) -> dict[str, object]:
    """Read the parameters that differ from the default policy, by the policy's keys and checks."""
    fields = schema.FIELDS
    given = dict(checked.value.get("policy", {}))
    for key in given.keys() - fields.keys():
        checked.complain(("policy", key), unknown_key(key, fields))
        del given[key]
    marks = {
        ("parameters", *path[1:]): line
        for path, line in checked.document.marks.items()
        if path[:1] == ("policy",)
    }
    part = dataclasses.replace(checked.document, value={"parameters": given}, marks=marks)
    valid, problems = validate(part)
    host = HostFacts("", machine.domains, tuple(range(machine.cpu_count)))
    compiled = compile_policy(part, valid, host)
    checked.problems += [
        dataclasses.replace(problem, path=problem.path.replace("parameters", "policy", 1))
        for problem in (*problems, *compiled.problems)
    ]
    return {fields[key]: getattr(compiled.parameters, fields[key]) for key in given}


def _guests(checked: Checked, machine: Machine, nics: Mapping[str, NicSpec]) -> Iterable[Guest]:
    """Read the section ``guests``."""
    seen: dict[tuple[str, str], int] = {}
    for number, item in enumerate(checked.value.get("guests", [])):
        if item is None:
            continue
        path: Path = ("guests", number)
        for key in ("name", "uuid"):
            before = seen.setdefault((key, item[key]), number)
            if before != number:
                checked.complain((*path, key), f"guests[{before}] has it already")
        cpus = (*item.get("dedicated_cpus", ()), *item.get("floating_cpus", ()))
        nodes = sorted({machine.socket_of(cpu) for cpu in cpus}) or [0]
        specs = _specs(checked, item.get("extra_specs", {}), (*path, "extra_specs"))
        attachments = [_attachment(one, nics) for one in item.get("attachments", ()) if one]
        usual = {"display_name": item["name"], **_GUEST}
        own = {"run": number + 1, "numa_nodes": nodes, "extra_specs": specs, "attachments": ()}
        guest = cattrs.structure({**usual, **item, **own}, Guest)
        yield dataclasses.replace(guest, attachments=tuple(attachments))


def _check_places(
    checked: Checked, guests: Iterable[Guest], workloads: Mapping[str, Workload]
) -> None:
    """Report workloads that run on CPUs of a guest and on other CPUs."""
    for guest in guests:
        for name, workload in workloads.items():
            other = set(workload.cpus) - {*guest.dedicated_cpus, *guest.floating_cpus}
            if other and not set(guest.dedicated_cpus).isdisjoint(workload.cpus):
                text = f"CPU {min(other)} is not a CPU of guest {guest.display_name}, the rest are"
                checked.complain(("workloads", name, "cpus"), text)


_GUEST: Mapping[str, Any] = {
    "flavor": None,
    "project": None,
    "dedicated_cpus": (),
    "floating_cpus": (),
}
"""Default values of a guest."""


def _attachment(given: Mapping[str, Any], nics: Mapping[str, NicSpec]) -> Attachment:
    nic = nics.get(given.get("nic", ""))
    place = {"pf": nic.address, "numa_node": nic.socket} if nic else {"numa_node": 0}
    return cattrs.structure({**given, **place}, Attachment)


def _stays(checked: Checked) -> dict[str, Stay]:
    """Read the arrivals and departures of guests from the section ``guests``, by UUID."""
    length_s = checked.value.get("length_s", math.inf)
    found = {}
    for number, item in enumerate(checked.value.get("guests", [])):
        if item is None or not {"arrives_s", "leaves_s"} & item.keys():
            continue
        stay = cattrs.structure(item, Stay)
        if stay.leaves_s <= stay.arrives_s:
            checked.complain(("guests", number, "leaves"), "the guest must arrive before it leaves")
        for key in ("arrives", "leaves"):
            if item.get(f"{key}_s", 0.0) >= length_s:
                checked.complain(("guests", number, key), load_reader.over(length_s))
        found[item["uuid"]] = stay
    return found


def _specs(checked: Checked, given: Mapping[str, object], path: Path) -> dict[str, str]:
    """Read a flavor's extra specs; values that the agent would ignore are errors here."""
    texts = checked.document.texts
    specs = {key: texts.get((*path, key), str(item)) for key, item in given.items()}
    for key, problem in of_specs(specs):
        checked.complain(path if key is None else (*path, key), problem)
    return specs


def _switch(given: Mapping[str, Any]) -> VirtualSwitch:
    """Read the section ``switch``."""
    bridge = given.get("bridge", "br-int")
    ports = tuple(
        cattrs.structure({"bridge": bridge, **port}, SwitchPort)
        for port in given.get("ports", ())
        if port
    )
    return VirtualSwitch({bridge: "netdev"}, ports, tuple(given["cpus"]), "pmd-cpu-mask")
