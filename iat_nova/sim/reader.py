# SPDX-License-Identifier: Apache-2.0
"""From a scenario's YAML to a `Scenario`: every problem with its line and path."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from iat_nova.model import HostFacts, WayMask
from iat_nova.policy import document, schema, units
from iat_nova.policy.compile import compile_policy
from iat_nova.policy.problems import PolicyError, Problem
from iat_nova.policy.render import Rendered
from iat_nova.policy.validate import validate
from iat_nova.sim import host_reader, load_reader, values
from iat_nova.sim.fields import Fields
from iat_nova.sim.machine import MACHINES, PROCESSORS_MAX, Choice, Io, Machine
from iat_nova.sim.scenario import Scenario, ScenarioError
from iat_nova.sim.values import Check
from iat_nova.strategies import registry as strategies

_KEYS: Mapping[str, Check] = {
    "title": values.text,
    "machine": values.one_of(*MACHINES),
    "sockets": values.whole(1, 2),
    "io": values.one_of(*Io),
    "adca": values.one_of(*Choice),
    "length": values.DURATION,
    "seed": values.whole(0, 2**31 - 1),
    "strategy": values.one_of(*strategies.BUILT_IN),
    "sampling": values.power(1, 64),
    "compression": values.SHARE,
    "counter_noise": values.NOISE,
    "one_slice": values.flag,
    "step": values.quantity(units.Kind.DURATION, 1e-7, 1e-3),
    "policy": values.anything,
    "nics": values.anything,
    "disks": values.anything,
    "guests": values.anything,
    "switch": values.anything,
    "workloads": values.anything,
    "traffic": values.anything,
    "events": values.anything,
    "masks": values.anything,
}


def read_scenario(text: str, name: str, source: str) -> Scenario:
    """Build a scenario from its text. Raises `ScenarioError` with all problems."""
    lines = tuple(range(1, text.count("\n") + 2))
    try:
        parsed = document.read(Rendered(text, lines))
    except PolicyError as error:
        raise ScenarioError(_listing(source, error.problems)) from None
    fields = Fields(parsed)
    parts = _parts(fields, parsed.value)
    if fields.problems:
        problems = sorted(fields.problems, key=lambda problem: problem.line or 0)
        raise ScenarioError(_listing(source, problems))
    return Scenario(name=name, **{"title": name, **parts})


def _listing(source: str, problems: Iterable[Problem]) -> str:
    return "\n".join(f"{source}: {problem}" for problem in problems)


def _parts(f: Fields, value: object) -> dict[str, Any]:
    """Return the arguments of `Scenario`; not complete where a problem was noted."""
    top = f.fields(value, (), _KEYS, required=("length", "workloads"))
    machine = _machine(f, top)
    cards = top.get("nics", {})
    nics = host_reader.nics(f, cards, machine)
    drives = top.get("disks", {})
    disks = host_reader.disks(f, drives)
    section = top.get("workloads", {})
    devices = {
        "nic": tuple(cards) if isinstance(cards, dict) else (),
        "disk": tuple(drives) if isinstance(drives, dict) else (),
    }
    workloads = load_reader.workloads(f, section, machine, devices)
    traffic = load_reader.traffic(f, top.get("traffic", {}), section, nics, workloads)
    parts = {
        "machine": machine,
        "length_s": top.get("length"),
        "seed": top.get("seed", 1),
        "strategy": top.get("strategy", "iat"),
        "policy": _policy(f, top.get("policy", {}), machine),
        "nics": tuple(nics.values()),
        "disks": tuple(disks.values()),
        "guests": host_reader.guests(f, top.get("guests", []), machine, nics),
        "stays": host_reader.stays(f, top.get("guests", [])),
        "switch": host_reader.switch(f, top["switch"], machine) if "switch" in top else None,
        "workloads": tuple(workloads.values()),
        "traffic": tuple(traffic.values()),
        "events": load_reader.events(
            f, top.get("events", []), top.get("length"), workloads, traffic, nics, machine
        ),
        "masks": load_reader.masks(f, top.get("masks", {}), workloads, machine),
        "random_masks": top.get("masks") == "random",
        "sampling": top.get("sampling", 32),
        "compression": top.get("compression", 1.0),
        "step_s": top.get("step", 5e-6),
        "counter_noise": top.get("counter_noise"),
        "one_slice": top.get("one_slice"),
    }
    if "title" in top:
        parts["title"] = top["title"]
    return parts


def _machine(f: Fields, top: Mapping[str, Any]) -> Machine:
    """Return the machine, with another socket or another way of doing inbound I/O where given."""
    machine = MACHINES[top.get("machine", "gold-6140")]
    changes: dict[str, Any] = {"io": Io(top.get("io", machine.io))}
    if "adca" in top:
        changes["adca"] = Choice(top["adca"])
    changes["sockets"] = top.get("sockets", 1)
    if machine.cores * changes["sockets"] > PROCESSORS_MAX:
        f.complain(("sockets",), f"allowed: 1 for {machine.name}, it has {machine.cores} cores")
        changes["sockets"] = 1
    if changes["io"] is Io.ADCA:  # it limits devices in each set, not by a mask
        changes["ddio_ways"] = WayMask.span(0, machine.llc_ways)
    return dataclasses.replace(machine, **changes)


def _policy(f: Fields, value: object, machine: Machine) -> dict[str, object]:
    """Read the parameters that differ from the policy's: the keys and checks are the policy's."""
    fields = {key: number.field for key, number in schema.NUMBERS.items()}
    fields |= {key: key for key in schema.PLAIN_PARAMETERS}
    given = f.fields(value, ("policy",), dict.fromkeys(fields, values.anything))
    marks = {
        ("parameters", *path[1:]): line
        for path, line in f.document.marks.items()
        if path[:1] == ("policy",)
    }
    part = dataclasses.replace(f.document, value={"parameters": given}, marks=marks)
    valid, problems = validate(part)
    host = HostFacts("", machine.domains, tuple(range(machine.processors)))
    compiled = compile_policy(part, valid, host)
    f.problems += [
        dataclasses.replace(problem, path=problem.path.replace("parameters", "policy", 1))
        for problem in (*problems, *compiled.problems)
    ]
    return {fields[key]: getattr(compiled.parameters, fields[key]) for key in given}
