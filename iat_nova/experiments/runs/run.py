# SPDX-License-Identifier: Apache-2.0
"""One scenario under one strategy: the real loop, policy and controller on the emulated server."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import math
import os
import pathlib
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from iat_nova import policy
from iat_nova.agent.journal import Journal
from iat_nova.agent.loop import Agent
from iat_nova.agent.parts import Parts
from iat_nova.agent.policy_keeper import PolicyKeeper
from iat_nova.common.clock import Clock
from iat_nova.experiments.runs.failure import failed, refused
from iat_nova.experiments.runs.performance import WorkloadResult, workload_result
from iat_nova.experiments.scenarios.reader import load_scenario
from iat_nova.experiments.scenarios.scenario import Scenario
from iat_nova.experiments.server.server import EmulatedServer
from iat_nova.experiments.server.workload_metrics import WorkloadMetrics
from iat_nova.hardware.api import DomainCounts
from iat_nova.hardware.enforcement.enforcer import Enforcer
from iat_nova.model import DDIO, Decision, DomainInventory, Facts, Group, Layout, Message
from iat_nova.model.reasons import Code
from iat_nova.report.log import LogLanguage
from iat_nova.store.observed import Observer
from iat_nova.store.records import Iteration, Status
from iat_nova.store.writer import History
from iat_nova.strategies import registry as strategies
from iat_nova.strategies.api import Strategy

RESTART_S = 4.0  # from an agent's end to the first sample of the next, as measured in the lab

Progress = Callable[[float, float], None]
"""Called with the emulated seconds done and their total."""


@dataclasses.dataclass(frozen=True, slots=True)
class Window:
    """The results between two moments of a run, in rates; times in emulated seconds."""

    from_s: float
    to_s: float
    workloads: Mapping[str, WorkloadResult]
    ddio_hits_per_s: float
    ddio_misses_per_s: float
    memory_bytes_per_s: float


@dataclasses.dataclass(frozen=True, slots=True)
class Result:
    """A run: its origin, the results of the workloads, the decisions of the strategy.

    `windows`: the stretches between the requested marks; without marks a single window, the whole
    run. `step_us`: length of the simulation's time steps; shorter latencies are not resolved.
    """

    scenario: str
    strategy: str
    seed: int
    seconds: float
    step_us: float
    metadata: Mapping[str, object]
    workloads: tuple[WorkloadResult, ...]
    windows: tuple[Window, ...]
    # Of all sockets: emulated seconds at which the strategy moved a mask. The first layout does not
    # count, nor do changes of DDIO's ways by the scenario's events.
    moves: tuple[float, ...]
    transitions: tuple[tuple[float, int], ...]  # (emulated second, the paper's number)
    # Of the first socket.
    decisions: tuple[Decision, ...]  # one per iteration
    last: Decision | None
    inventory: DomainInventory | None
    restarts: tuple[float, ...] = ()  # emulated seconds at which the agent was restarted


class IterationObserver(Observer):
    """Keeps the iterations of a run by cache domain, each with its inventory."""

    def __init__(self) -> None:
        super().__init__()
        self.iterations: dict[int, list[tuple[Iteration, DomainInventory]]] = {}

    def iteration(self, iteration: Iteration) -> None:
        """Store one domain's iteration."""
        super().iteration(iteration)
        inventory = self.now.inventories[iteration.domain]
        self.iterations.setdefault(iteration.domain, []).append((iteration, inventory))


class _Tenants:
    """A host with the scenario's tenants, as guests arrive and leave."""

    def __init__(self, server: EmulatedServer) -> None:
        self.changed = server.guests_changed
        self._server = server

    def facts(self) -> Facts:
        facts = self._server.scenario.facts(self._server.now())
        found = self._server.ddio_found
        domains = tuple(dataclasses.replace(one, ddio_found=found) for one in facts.host.domains)
        return dataclasses.replace(facts, host=dataclasses.replace(facts.host, domains=domains))


class _Enforcer(Enforcer):
    """The agent's enforcer, without the check for foreign changes of DDIO's ways.

    A scenario may change DDIO's ways by hand, and the agent has to go on.
    """

    def foreign_ddio(self) -> tuple[Message, ...]:
        return ()


class _Journal(Journal):
    """The agent's journal, but a failure of the strategy ends the run.

    Guarantees that do not fit are no failure: the agent then keeps the masks.
    """

    def __init__(
        self, history: History, status: Status, server: EmulatedServer, observer: Observer
    ) -> None:
        super().__init__(history, status, server, LogLanguage(), observer)
        self._name = status.strategy
        self._server = server

    def failed(self, code: Code, said: Message, subject: object = "") -> None:
        error = sys.exc_info()[1]
        if code is Code.STRATEGY_FAILED and error is not None:
            strategy = strategies.find(self._name)
            raise failed(self._name, self._server.now(), error, strategy) from error
        super().failed(code, said, subject)

    def problem(self, code: Code, said: Message, subject: object = "") -> None:
        if code is Code.LAYOUT_IMPOSSIBLE and self._name not in strategies.BUILT_IN:
            raise refused(self._name, self._server.now(), said.values["error"])
        super().problem(code, said, subject)


@dataclasses.dataclass(frozen=True, slots=True)
class _Snapshot:
    """All totals at one moment."""

    at_s: float
    workloads: Mapping[str, WorkloadMetrics]
    domain: DomainCounts


class _TellingClock:
    """The server's clock, which also reports progress and takes the totals at each mark."""

    def __init__(
        self, server: EmulatedServer, total_s: float, marks: Sequence[float], progress: Progress
    ) -> None:
        self._server = server
        self._total_s = total_s
        self._due = [mark for mark in sorted(marks) if 0 < mark < total_s] + [total_s]
        self._progress = progress
        self.snapshots = [_snapshot(server)]

    def now(self) -> float:
        return self._server.now()

    def wall(self) -> float:
        return self._server.wall()

    def wait(self, wake: threading.Event, seconds: float) -> bool:
        end_s = min(self._server.now() + seconds, self._total_s)
        while self._due and self._due[0] <= end_s and not wake.is_set():
            woken = self._server.wait(wake, self._due[0] - self._server.now())
            # A guest may arrive exactly at a mark: the mark is reached all the same.
            if not woken or self._server.now() >= self._due[0]:
                self._due.pop(0)
                self.snapshots.append(_snapshot(self._server))
        woken = self._server.wait(wake, end_s - self._server.now())
        self._progress(self._server.now(), self._total_s)
        return woken


def _snapshot(server: EmulatedServer) -> _Snapshot:
    counts = server.read_counts()
    # All sockets together; every counter of an emulated server is available.
    totals = (sum(n or 0 for n in column) for column in zip(*counts.domains.values(), strict=True))
    return _Snapshot(server.now(), server.metrics(), DomainCounts(*totals))


def _window(before: _Snapshot, after: _Snapshot) -> Window:
    """Turn the difference between two moments into rates."""
    seconds = after.at_s - before.at_s
    rates = [
        ((getattr(after.domain, name) or 0) - (getattr(before.domain, name) or 0)) / seconds
        for name in ("ddio_hits", "ddio_misses", "memory_bytes")
    ]
    return Window(
        before.at_s,
        after.at_s,
        {
            name: workload_result(name, metrics.since(before.workloads.get(name)), seconds)
            for name, metrics in after.workloads.items()
        },
        *rates,
    )


def run(
    scenario: Scenario | str,
    strategy: str | None = None,
    seed: int | None = None,
    *,
    seconds: float | None = None,
    marks: Sequence[float] = (),
    options: Mapping[str, Any] | None = None,
    history_path: str | os.PathLike[str] | None = None,
    observer: IterationObserver | None = None,
    progress: Progress = lambda done_s, total_s: None,
) -> Result:
    """Run a scenario (a file, or the name of a shipped scenario) to the end and measure the run.

    `strategy`, `seed` and `seconds` default to the scenario's values. `marks` (emulated seconds)
    divide the run into separately measured windows. `options`: options of the strategy, such as the
    moves that the controller may make. The history remains if a path is given. `observer` receives
    the agent's iterations. Raises `ScenarioError`, `StrategyError`, `StrategyFailed`,
    `PolicyError`.
    """
    if not isinstance(scenario, Scenario):
        scenario = load_scenario(scenario)
    name = strategy or scenario.strategy
    total_s = seconds or scenario.length_s
    server, observer = EmulatedServer(scenario, seed), observer or IterationObserver()
    with contextlib.ExitStack() as stack:
        if history_path is None:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="iat-nova-"))
            history_path = pathlib.Path(folder) / "history.sqlite"
        clock = _TellingClock(server, total_s, marks, progress)
        ends_s = [at_s for at_s in scenario.restarts_s if at_s < total_s] + [total_s]
        for number, end_s in enumerate(ends_s):
            if number:
                clock.wait(threading.Event(), RESTART_S)
            agent = _agent(
                scenario, name, server, clock, history_path, options or {}, not number, observer
            )
            agent.run(end_s)
    decided = [
        [iteration for iteration, _ in observer.iterations[domain]]
        for domain in sorted(observer.iterations)
    ]
    iterations = decided[0] if decided else []
    inventories = [inventory for _, inventory in observer.iterations.get(0, ())]
    by_hand = [event.at_s for event in scenario.events if event.subject == DDIO]
    return Result(
        scenario=scenario.name,
        strategy=name,
        seed=server.seed,
        seconds=total_s,
        step_us=scenario.step_s * 1e6,
        metadata=scenario.metadata,
        workloads=tuple(
            workload_result(workload, metrics, total_s)
            for workload, metrics in server.metrics().items()
        ),
        windows=tuple(_window(*pair) for pair in itertools.pairwise(clock.snapshots)),
        moves=tuple(sorted(at_s for socket in decided for at_s in _moves(socket, by_hand))),
        transitions=tuple(
            sorted(
                (round(one.at_s, 3), one.decision.rule)
                for socket in decided
                for one in socket
                if one.decision.rule is not None
            )
        ),
        decisions=tuple(one.decision for one in iterations),
        last=iterations[-1].decision if iterations else None,
        inventory=inventories[-1] if inventories else None,
        restarts=tuple(ends_s[:-1]),
    )


def _agent(
    scenario: Scenario,
    name: str,
    server: EmulatedServer,
    clock: Clock,
    history_path: str | os.PathLike[str],
    options: Mapping[str, Any],
    first: bool,
    observer: Observer,
) -> Agent:
    """Join the real loop with the emulated machine and the scenario's tenants.

    The `first` agent finds the scenario's masks; later agents find the restored settings.
    """
    facts = scenario.facts()
    standard = policy.default(facts.host)
    changes: dict[str, Any] = dict(scenario.policy)
    parameters = dataclasses.replace(standard.parameters, **changes)
    least = math.ceil(round(100 * scenario.bandwidth_min, 6))
    default = dataclasses.replace(standard.rules.default, bandwidth_min=least)
    rules = dataclasses.replace(standard.rules, default=default)
    chosen = dataclasses.replace(standard, parameters=parameters, rules=rules)
    status = Status(
        mode="enforce",
        pid=os.getpid(),
        version="simulate",
        strategy=name,
        interval_s=parameters.interval_s,
        started_s=server.wall(),
        parameters=parameters,
        options=options,
        phases=strategies.phases(name),
        rules=strategies.rules(name),
    )

    unmasked = dataclasses.replace(scenario, masks={})
    history = History(history_path, max_age_s=1e12, max_bytes=1 << 40, clock=server)
    tenants, journal = _Tenants(server), _Journal(history, status, server, observer)
    parts = Parts(
        inventory=tenants,
        policies=PolicyKeeper(chosen, lambda: chosen, None, journal, tenants.changed),
        make_strategy=lambda numbers: _AsFound(
            strategies.make(name, numbers, options), scenario if first else unmasked
        ),
        counters=server,
        enforcer=_Enforcer(server, server, ports=server, port_ways=server.port_ways),
        journal=journal,
        clock=clock,
    )
    return Agent(parts)


class _AsFound:
    """A strategy that begins with the scenario's masks as the layout on the hardware."""

    def __init__(self, strategy: Strategy, scenario: Scenario) -> None:
        self.step = strategy.step
        if (ask := getattr(strategy, "outlook", None)) is not None:
            self.outlook = ask
        self._strategy = strategy
        self._masks = {
            cpu: scenario.masks[workload.name]
            for workload in scenario.workloads
            if workload.name in scenario.masks
            for cpu in workload.cpus
        }
        self._ddio = scenario.machine.ddio_ways

    def initial(self, inventory: DomainInventory, at_s: float, layout: Layout | None = None) -> Any:
        """Return the strategy's first state; tenants without a mask are not in the layout."""
        found = {
            tenant.id: mask
            for tenant in inventory.tenants
            if (mask := next((self._masks[c] for c in tenant.cpus if c in self._masks), None))
        }
        if layout is None and found:
            groups = tuple(Group((tenant,), mask) for tenant, mask in found.items())
            layout = Layout(self._ddio, groups)
        return self._strategy.initial(inventory, at_s, layout)


def _moves(iterations: Sequence[Iteration], by_hand: Sequence[float]) -> Iterator[float]:
    """Yield the moments at which the strategy moved a mask of one domain after the first layout.

    `by_hand`: the moments at which an event set DDIO's ways. The first iteration after an event
    adopts DDIO's ways. In this iteration a change of DDIO's ways does not count as a move, nor does
    a mask that grows or shrinks only by lent ways.
    """
    hands = [round(at_s, 9) for at_s in by_hand]  # the clock counts nanoseconds
    for before, one in itertools.pairwise(iterations):
        moved = set(one.decision.moved)
        if any(before.at_s < at_s <= one.at_s for at_s in hands):
            counted = one.decision.layout.counted
            moved = set(counted.moved_since(before.decision.layout.counted)) - {DDIO}
        if moved:
            yield round(one.at_s, 3)
