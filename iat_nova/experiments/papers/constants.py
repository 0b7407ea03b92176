# SPDX-License-Identifier: Apache-2.0
"""The emulated server's constants, and scenarios in which one constant is varied.

`LEFT_OUT` has the numbers that are not varied, with the reasons. Two choices in the engine are not
numbers, so they are not varied either: which of equally old lines is replaced, and
whether a device's write to a line in L2 counts as a hit.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import statistics
from collections.abc import Callable, Mapping
from typing import Any

from iat_nova.experiments.scenarios.profiles import NETWORKED, Form, Profile
from iat_nova.experiments.scenarios.scenario import Scenario

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


def _packets(scenario: Scenario, factor: float, *, field: str) -> Scenario:
    """Move a field of the machine that matters to workloads with packets only."""
    networked = any(one.profile.form in NETWORKED for one in scenario.workloads)
    return _machine(scenario, factor, field=field) if networked else scenario


def _streams(scenario: Scenario, factor: float) -> Scenario:
    """Move the lines after which L2's streamer begins, where a machine has a streamer."""
    if not scenario.machine.streamer_lines:
        return scenario
    return _packets(scenario, factor, field="stream_lines")


def _interruptions(scenario: Scenario, factor: float) -> Scenario:
    if not any(one.jitter_s for one in scenario.workloads):
        return scenario
    return _machine(scenario, factor, field="off_every_cycles")


def _medium(scenario: Scenario, factor: float) -> Scenario:
    disks = tuple(
        dataclasses.replace(one, medium_s=one.medium_s * factor) for one in scenario.disks
    )
    return dataclasses.replace(scenario, disks=disks)


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
        "memory_smoothing": "weight of a measurement in the memory's running utilisation",
        "running_weight": "weight of an access in the running means of stall cycles",
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
                f"a workload's accesses in flight at a time to {text}",
                functools.partial(_overlap, at=at),
            )
            for at, text in enumerate(overlap)
        ),
        Constant("copy_cycles", "cycles of a copied line", _copies),
        Constant(
            "credible_lines",
            "sampled lines for which a burst's own mean counts as much as the running mean",
            functools.partial(_packets, field="credible_lines"),
        ),
        Constant("stream_lines", "lines after which L2's streamer begins", _streams),
        Constant("medium_s", "time of a disk's medium to find a block", _medium),
        Constant("off_every_cycles", "time between two losses of the core", _interruptions),
        Constant("jitter", "longest time for which a thread loses its core", _jitter),
        Constant("shares", "distance of a queue's share of the traffic from the mean", _shares),
    ]


CONSTANTS: Mapping[str, Constant] = {one.name: one for one in _listed()}
"""All constants by name."""

LEFT_OUT: Mapping[str, tuple[str, ...]] = {
    "data sheet of the machine, or of the drive": (
        "Machine.cores", "Machine.frequency_hz", "Machine.l2_bytes", "Machine.l2_ways",
        "Machine.slices", "Machine.llc_ways", "Machine.llc_sets_per_slice", "Machine.classes",
        "Machine.sockets", "Machine.l1_bytes", "Machine.page_bytes", "DiskSpec.bytes_per_s",
        "DiskSpec.commands_per_s", "DiskSpec.drives", "machine.LINE_BYTES", "machine.GIB",
    ),
    "no figure has two sockets": ("Machine.link_ns",),
    "layout and numbers of DPDK's sources": (
        "state.BUFFER_LINES", "state.PAGE_LINES", "state.MBUF_LINE", "state.DATA_LINE",
        "state.RECLAIM", "state.REARM", "poller.BURST_MAX", "poller.HEADER_TOUCHES",
        "network.HANDOFF_RING",
    ),
    "fitted to Intel's Memory Latency Checker": (
        "memory.QUEUEING", "memory.UTILISATION_MAX", "state.WRITE_COST",
    ),
    "bits of ADCA's counter; published distance of its monitors": (
        "state.COUNTER_MAX", "state.SPACING_BITS",
    ),
    "specified by the interface (NVMe, Ethernet)": (
        "state.DISK_PAGE_BYTES", "state.DISK_PAGE_LINES", "state.OVERHEAD_BYTES",
    ),
    "ages of lines, which have two bits": (
        "qlru.REUSED_AGE", "qlru.FILL_AGE", "qlru.OLDEST",
    ),
    "settings of a workload, or what it counts": (
        "Profile.own_instructions", "Profile.spin_ipc", "Profile.working_set_bytes",
        "Profile.writes_percent", "Profile.duty", "Profile.payload_share", "Profile.table_lines",
        "Profile.table_touches", "Profile.flows_held", "Profile.request_bytes",
        "Profile.reply_bytes",
    ),
    "form of the data or of the computation": (
        "build.STRETCH_BYTES", "cache.COMMON_SETS", "card.EXPONENT_BIAS", "card.FRACTION_BITS",
        "engine.MEMORY_INTERVAL_NS", "library._KEPT_S", "locality._ZIPF_PIECES", "machine.CPUS_MAX",
        "random.RANDOM_BITS", "random.RANDOM_RANGE", "space.LINES_MAX", "space.PAGE_LINES",
        "state.AHEAD", "state.BINS", "state.BIN_BITS", "state.BY_TARGET", "state.CLOCK_LIMIT",
        "state.CONSUME", "state.COPY", "state.DIRTY", "state.DRAWN_LINES", "state.DUE_SLOTS",
        "state.LANES", "state.LAST_WAY", "state.LINE_SHIFT", "state.NEVER", "state.OF_CORES",
        "state.RECIPROCAL_BITS", "state.SERVED", "state.SHARED", "state.SLOTS", "state.SLOT_BITS",
        "state.SLOT_NS", "state.UNREAD", "state.WAY_BITS", "ways.WIDTH",
    ),
}  # fmt: skip
"""Numbers of the emulated server that no constant moves, as ``module.NAME`` or ``Type.field``, by
the reason."""
