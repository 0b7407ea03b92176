# SPDX-License-Identifier: Apache-2.0
"""One scenario under one strategy: the real loop, policy and controller on the emulated server."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
import pathlib
import tempfile
import threading
from collections.abc import Callable, Mapping
from typing import Any

from iat_nova import policy, strategies
from iat_nova.agent import Agent
from iat_nova.clock import Clock
from iat_nova.enforce import Enforcer
from iat_nova.history import History
from iat_nova.history_reader import HistoryReader
from iat_nova.journal import Journal
from iat_nova.model import (
    PRESETS,
    Decision,
    DomainInventory,
    Facts,
    Switches,
)
from iat_nova.records import Iteration, Status
from iat_nova.sim.scenario import Scenario
from iat_nova.sim.server import EmulatedServer, WorkloadMetrics

Progress = Callable[[float, float], None]
"""Called with the emulated seconds done and their total."""


@dataclasses.dataclass(frozen=True, slots=True)
class WorkloadResult:
    """What a workload achieved, in rates over the whole run.

    `work_per_s` counts packets for network workloads, accesses for the others. `latency_us` is
    the mean time of a packet in the host, or None; `access_cycles` the mean latency of an access
    to the workload's own memory, or None. `loss`: packets refused of those offered, 0..1.
    """

    name: str
    work_per_s: float
    gbps: float
    loss: float
    latency_us: float | None
    access_cycles: float | None
    ipc: float
    references_per_s: float
    misses_per_s: float


@dataclasses.dataclass(frozen=True, slots=True)
class Result:
    """A run: where it came from, what the workloads achieved, what the strategy did.

    `step_us`: time passes in steps of this length, so a shorter latency is not resolved.
    """

    scenario: str
    strategy: str
    seed: int
    seconds: float
    step_us: float
    metadata: Mapping[str, object]
    workloads: tuple[WorkloadResult, ...]
    way_changes: int  # iterations in which a mask moved, the first layout not counted
    transitions: tuple[tuple[float, int], ...]  # (emulated second, the paper's number)
    last: Decision | None
    inventory: DomainInventory | None


class _Tenants:
    """A host whose tenants are the scenario's."""

    def __init__(self, facts: Facts) -> None:
        self.changed = threading.Event()
        self._facts = facts

    def facts(self) -> Facts:
        return self._facts


class _TellingClock:
    """The server's clock, which tells how far it is."""

    def __init__(self, server: EmulatedServer, total_s: float, progress: Progress) -> None:
        self._server = server
        self._total_s = total_s
        self._progress = progress

    def now(self) -> float:
        return self._server.now()

    def wall(self) -> float:
        return self._server.wall()

    def wait(self, wake: threading.Event, seconds: float) -> bool:
        woken = self._server.wait(wake, min(seconds, self._total_s - self._server.now()))
        self._progress(self._server.now(), self._total_s)
        return woken


def run(
    scenario: Scenario | str,
    strategy: str | None = None,
    seed: int | None = None,
    *,
    seconds: float | None = None,
    history_path: str | os.PathLike[str] | None = None,
    progress: Progress = lambda done_s, total_s: None,
) -> Result:
    """Run a scenario (a file, or the name of one that ships) to its end and measure it.

    `strategy`, `seed` and `seconds` default to the scenario's. The history stays when a path is
    given. Raises `ScenarioError`, `StrategyError`, `PolicyError`.
    """
    if not isinstance(scenario, Scenario):
        scenario = Scenario.load(scenario)
    name = strategy or scenario.strategy
    total_s = seconds or scenario.length_s
    server = EmulatedServer(scenario, seed)
    with contextlib.ExitStack() as stack:
        if history_path is None:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="iat-nova-"))
            history_path = pathlib.Path(folder) / "history.sqlite"
        clock = _TellingClock(server, total_s, progress)
        _agent(scenario, name, server, clock, history_path).run(total_s)
        iterations, inventory = _iterations(history_path)
    return Result(
        scenario=scenario.name,
        strategy=name,
        seed=server.seed,
        seconds=total_s,
        step_us=scenario.step_s * 1e6,
        metadata=scenario.metadata,
        workloads=tuple(
            _workload(workload, metrics, total_s) for workload, metrics in server.metrics().items()
        ),
        way_changes=sum(1 for one in iterations if one.decision.moved) - 1,
        transitions=tuple(
            (round(one.at_s, 3), one.decision.transition)
            for one in iterations
            if one.decision.transition is not None
        ),
        last=iterations[-1].decision if iterations else None,
        inventory=inventory,
    )


def _agent(
    scenario: Scenario,
    name: str,
    server: EmulatedServer,
    clock: Clock,
    history_path: str | os.PathLike[str],
) -> Agent:
    """Join the real loop with the emulated hands and the scenario's tenants."""
    facts = scenario.facts()
    standard = policy.load(None, facts.host)
    changes: dict[str, Any] = dict(scenario.policy)
    parameters = dataclasses.replace(standard.parameters, **changes)
    chosen = dataclasses.replace(standard, parameters=parameters)
    status = Status(
        mode="enforce",
        pid=os.getpid(),
        version="simulate",
        strategy=name,
        interval_s=parameters.interval_s,
        started_s=server.wall(),
        parameters=parameters,
        switches=PRESETS.get(name, Switches()),
    )
    history = History(history_path, max_age_s=1e12, max_bytes=1 << 40, clock=server)
    return Agent(
        inventory=_Tenants(facts),
        read_policy=lambda: chosen,
        make_strategy=lambda numbers: strategies.make(name, numbers),
        counters=server,
        enforcer=Enforcer(server, server),
        journal=Journal(history, status),
        clock=clock,
        paused=lambda: None,
    )


def _iterations(path: str | os.PathLike[str]) -> tuple[list[Iteration], DomainInventory | None]:
    """Read back what was decided, and for whom."""
    with HistoryReader(path) as reader:
        domain = next(iter(reader.domains()), None)
        if domain is None:
            return [], None
        found = [one.iteration for one in reader.between(0.0, math.inf, domain)]
        known = reader.inventory(found[-1].inventory_id)
        return found, None if known is None else known.domains[domain]


def _workload(name: str, done: WorkloadMetrics, seconds: float) -> WorkloadResult:
    """Turn totals into rates."""
    return WorkloadResult(
        name=name,
        work_per_s=done.work / seconds,
        gbps=done.bytes * 8 / seconds / 1e9,
        loss=done.dropped / done.offered if done.offered else 0.0,
        latency_us=done.latency_ns / done.packets / 1e3 if done.packets else None,
        access_cycles=done.access_cycles / done.accesses if done.accesses else None,
        ipc=done.instructions / done.cycles if done.cycles else 0.0,
        references_per_s=done.references / seconds,
        misses_per_s=done.misses / seconds,
    )
