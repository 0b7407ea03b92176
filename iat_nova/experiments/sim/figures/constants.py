# SPDX-License-Identifier: Apache-2.0
"""The emulated server's constants, and scenarios in which one constant is moved.

Compiled choices without a quantity are left out. These are the ages of lines that enter the LLC,
the way replaced among equals, and the count of a device's write to a line in L2. Memory's queue is
fitted to separate measurements (``memory.py``). No figure has two sockets, so the link between
sockets is left out.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import statistics
from collections.abc import Callable, Mapping
from typing import Any

from iat_nova.experiments.sim.scenario import Scenario
from iat_nova.experiments.sim.workloads.profiles import Form, Profile

FACTORS = (0.75, 1.25)
"""Factors for a constant: a quarter less, a quarter more."""


@dataclasses.dataclass(frozen=True, slots=True)
class Constant:
    """A constant of the emulated server: name, meaning, and a function to move the constant.

    `move(scenario, factor)` returns the scenario with the constant multiplied by `factor`.
    """

    name: str
    meaning: str
    move: Callable[[Scenario, float], Scenario]


def moved(scenario: Scenario, name: str, factor: float) -> Scenario:
    """Return the scenario with the constant `name` times `factor`. Raises `KeyError` if unknown."""
    return CONSTANTS[name].move(scenario, factor)


def _scaled(value: Any, factor: float) -> Any:
    """Return a number times a factor; a whole number stays whole and moves by at least 1."""
    if not isinstance(value, int):
        return value * factor
    return math.floor(value * factor) if factor < 1 else math.ceil(value * factor)


def _machine(scenario: Scenario, factor: float, *, field: str) -> Scenario:
    value = _scaled(getattr(scenario.machine, field), factor)
    machine = dataclasses.replace(scenario.machine, **{field: value})
    return dataclasses.replace(scenario, machine=machine)


def _profiles(scenario: Scenario, change: Callable[[Profile], Profile]) -> Scenario:
    def both(profile: Profile) -> Profile:
        stage = change(profile)
        return dataclasses.replace(stage, then=both(stage.then)) if stage.then else stage

    workloads = tuple(
        dataclasses.replace(one, profile=both(one.profile)) for one in scenario.workloads
    )
    return dataclasses.replace(scenario, workloads=workloads)


def _profile(scenario: Scenario, factor: float, *, field: str) -> Scenario:
    return _profiles(
        scenario, lambda one: dataclasses.replace(one, **{field: getattr(one, field) * factor})
    )


def _copies(scenario: Scenario, factor: float) -> Scenario:
    return _profiles(
        scenario,
        lambda one: (
            one
            if one.form is Form.MEMORY
            else dataclasses.replace(one, copy_cycles=one.copy_cycles * factor)
        ),
    )


def _overlap(scenario: Scenario, factor: float, *, at: int) -> Scenario:
    def change(profile: Profile) -> Profile:
        if at and profile.form is Form.MEMORY:
            return profile
        values = list(profile.overlap)
        values[at] = max(1.0, values[at] * factor)  # no fewer than one access at a time
        own, packets, reads, writes = values
        return dataclasses.replace(profile, overlap=(own, packets, reads, writes))

    return _profiles(scenario, change)


def _jitter(scenario: Scenario, factor: float) -> Scenario:
    workloads = tuple(
        dataclasses.replace(one, jitter_s=one.jitter_s * factor) for one in scenario.workloads
    )
    return dataclasses.replace(scenario, workloads=workloads)


def _shares(scenario: Scenario, factor: float) -> Scenario:
    """Scale the differences between the rates of open streams; the mean rate stays."""
    rates = {one.name: one.rate_bits_per_s for one in scenario.traffic if not one.clients}
    if len(set(rates.values())) < 2:
        return scenario
    mean = statistics.fmean(rates.values())
    new = {name: mean + factor * (rate - mean) for name, rate in rates.items()}
    traffic = tuple(
        dataclasses.replace(one, rate_bits_per_s=new.get(one.name, one.rate_bits_per_s))
        for one in scenario.traffic
    )
    events = tuple(
        dataclasses.replace(one, value=new[stream])
        if one.key == "rate" and one.value == rates.get(stream := one.subject.partition(".")[2])
        else one
        for one in scenario.events
    )
    return dataclasses.replace(scenario, traffic=traffic, events=events)


def _listed() -> list[Constant]:
    machine = {
        "l2_cycles": "load-to-use time of a hit in L2",
        "llc_cycles": "load-to-use time of a hit in the LLC",
        "peer_cycles": "load-to-use time of a line in another core's L2",
        "memory_ns": "latency of the idle memory",
        "memory_bytes_per_s": "peak bandwidth of the memory",
        "streamer_lines": "lines that L2's streamer runs ahead",
    }
    overlap = ("its own memory", "packets", "reads of a copy", "writes of a copy")
    profile = {
        "own_cycles": "cycles of a unit of work with L1 serving everything",
        "accesses": "accesses beyond L1 to its own memory of a unit of work",
    }
    fields = [(_machine, machine), (_profile, profile)]
    return [
        *(
            Constant(key, text, functools.partial(move, field=key))
            for move, named in fields
            for key, text in named.items()
        ),
        *(
            Constant(
                f"overlap_{at}",
                f"accesses that a workload has under way at a time to {text}",
                functools.partial(_overlap, at=at),
            )
            for at, text in enumerate(overlap)
        ),
        Constant("copy_cycles", "cycles of a copied line", _copies),
        Constant("jitter", "longest time for which a thread loses its core", _jitter),
        Constant("shares", "distance of a queue's share of the traffic from the mean", _shares),
    ]


CONSTANTS: Mapping[str, Constant] = {one.name: one for one in _listed()}
"""All constants by name."""
