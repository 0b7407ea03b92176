# SPDX-License-Identifier: Apache-2.0
"""Runs of a scenario under given layouts, the layouts that it allows, and the result of a plan."""

from __future__ import annotations

import dataclasses
import math
import threading
from collections.abc import Iterator, Mapping
from typing import Any

from iat_nova import policy
from iat_nova.experiments.runs.bound_search import AS_FOUND, Plan, Space, Totals, Unit, WayPlacement
from iat_nova.experiments.runs.performance import (
    WorkloadResult,
    performance,
    run_alone,
    workload_result,
)
from iat_nova.experiments.scenarios import phases
from iat_nova.experiments.scenarios.scenario import Scenario
from iat_nova.experiments.server.server import EmulatedServer
from iat_nova.experiments.server.workload_metrics import WorkloadMetrics
from iat_nova.hardware.api import ClassMask
from iat_nova.model import Priority, WayMask

WARM = 1 / 3
"""The share of a shortened phase that is not measured."""
_FIELDS = ("work", "busy_cycles", "offered", "dropped", "packets", "latency_ns")
"""The totals by which `compare` judges a workload."""
_NOTHING = WorkloadMetrics(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, (), 0.0, 0.0)


class BoundError(Exception):
    """The search is impossible; the text has the reason."""


@dataclasses.dataclass(frozen=True, slots=True)
class Job:
    """A run of a plan, or of one workload `alone`.

    `most_s`: maximum length of a phase, in emulated seconds.
    """

    scenario: Scenario
    space: Space
    ends: tuple[float, ...]
    plan: Plan
    seed: int
    most_s: float
    alone: str | None = None

    @property
    def point(self) -> dict[str, Any]:
        """The parameters of the run, as plain JSON values: the key of its stored result."""
        if self.alone is not None:
            return {"alone": self.alone, "seed": self.seed}
        plan = [[[*map(int, one.masks)], [*one.ddio], [*one.dca_off]] for one in self.plan]
        most_s = None if math.isinf(self.most_s) else self.most_s
        return {"plan": plan if len(set(self.plan)) > 1 else plan[:1], "most_s": most_s,
                "seed": self.seed}  # fmt: skip


def space_of(scenario: Scenario) -> Space:
    """Return the space of all layouts that a scenario's machine allows.

    Raises `BoundError` if the machine has a single class of service.
    """
    machine = scenario.machine
    if machine.classes < 2:
        raise BoundError(f"{scenario.name}: {machine.title} has no ways that could be laid out")
    facts = dataclasses.replace(scenario.facts(), guests=scenario.guests)
    classified = policy.default(facts.host).classify(facts, {})
    priorities = {
        cpu: tenant.priority
        for inventory in classified.domains.values()
        for tenant in inventory.tenants
        for cpu in tenant.cpus
    }
    return Space(
        units=tuple(_units(scenario, priorities)),
        ways=machine.llc_ways,
        ddio=machine.ddio_ways.count,
        sockets=machine.sockets,
        coerced=machine.coerced_ways,
        distinct=machine.classes - 1,
        ports=tuple(port.address for one in scenario.domains for port in one.dca_ports),
    )


def _units(scenario: Scenario, priorities: Mapping[int, Priority]) -> Iterator[Unit]:
    """Yield a unit per workload and socket; workloads with a CPU in common are one unit."""
    shared: list[tuple[set[int], list[str]]] = []
    for workload in scenario.workloads:
        cpus, names = set(workload.cpus), [workload.name]
        for other in [one for one in shared if one[0] & cpus]:
            shared.remove(other)
            cpus, names = other[0] | cpus, [*other[1], *names]
        shared.append((cpus, names))
    for cpus, names in shared:
        sockets = sorted({scenario.machine.socket_of(cpu) for cpu in cpus})
        for socket in sockets:
            mine = tuple(sorted(c for c in cpus if scenario.machine.socket_of(c) == socket))
            name = "+".join(names) + (f"@{socket}" if len(sockets) > 1 else "")
            yield Unit(name, socket, priorities.get(mine[0], Priority.BE), mine)


def performances(scenario: Scenario, totals: Totals) -> dict[str, float]:
    """Return each workload's performance by name."""
    results: dict[str, WorkloadResult] = {}
    for number, workload in enumerate(scenario.workloads):
        mine = totals[len(_FIELDS) * number : len(_FIELDS) * (number + 1)]
        named: dict[str, Any] = dict(zip(_FIELDS, mine, strict=True))
        metrics = dataclasses.replace(_NOTHING, **named)
        results[workload.name] = workload_result(workload.name, metrics, scenario.length_s)
    return {name: performance(scenario, results, name) for name in results}


def measure(job: Job) -> dict[str, Any]:
    """Run a job; return the totals of each phase at its true length, or the performance alone."""
    if job.alone is not None:
        results = run_alone(job.scenario, job.alone, job.seed)
        return {"performance": performance(job.scenario, results, job.alone)}
    cut = phases.cut(job.scenario, job.ends, job.most_s)
    server, wake = EmulatedServer(cut.scenario, job.seed), threading.Event()
    found = []
    for placement, phase in zip(job.plan, cut.phases, strict=True):
        lay(server, job.space, placement)
        if not phase.whole:
            server.wait(wake, WARM * (phase.end_s - phase.start_s))
        before = server.metrics()
        start_s = server.now()
        server.wait(wake, phase.end_s - start_s)
        stretch = phase.true_s / (phase.end_s - start_s)
        after = server.metrics()
        found.append(
            [
                getattr(after[workload.name].since(before[workload.name]), field) * stretch
                for workload in job.scenario.workloads
                for field in _FIELDS
            ]
        )
    return {"phases": found}


def lay(server: EmulatedServer, space: Space, placement: WayPlacement) -> None:
    """Apply a placement to a server: classes, DDIO's ways, the ports' DCA."""
    for number, domain in enumerate(server.scenario.machine.domains):
        cpus: dict[WayMask, list[int]] = {}
        for unit, mask in zip(space.units, placement.masks, strict=True):
            if unit.socket == number and mask != space.everything:
                cpus.setdefault(mask, []).extend(unit.cpus)
        classes = (ClassMask(str(mask), tuple(mine), mask) for mask, mine in cpus.items())
        server.apply(domain.id, tuple(classes))
        count = placement.ddio[number]
        found = server.ddio_found if count == AS_FOUND else ddio_mask(server.scenario, count)
        server.write(domain.id, found)
        server.switch(domain.id, placement.dca_off)


def ddio_mask(scenario: Scenario, count: int) -> WayMask:
    """Return `count` DDIO ways from the highest way downwards; `AS_FOUND`: the machine's own."""
    machine = scenario.machine
    if count == AS_FOUND:
        return machine.ddio_ways
    return WayMask.span(machine.llc_ways - count, count)
