# SPDX-License-Identifier: Apache-2.0
"""Strategies side by side on one scenario, over several seeds."""

from __future__ import annotations

import dataclasses
import itertools
import math
import statistics
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence

from iat_nova import policy
from iat_nova.model import DomainInventory, Priority, TenantKind
from iat_nova.sim import pool
from iat_nova.sim.run import Result, WorkloadResult, run, workload_result
from iat_nova.sim.scenario import Scenario
from iat_nova.sim.server import EmulatedServer

BASELINE = "baseline"

Progress = Callable[[int, int], None]
"""Called with how many runs are done of how many."""


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """One run of one strategy.

    `pc_performance`: of the performance-critical workloads, each alone on the machine with the
    whole cache being 1 (geometric mean); None without any. `be_throughput`: of the best-effort
    ones, under the baseline with the same seed being 1; None without any. `memory_bandwidth`:
    GB/s, the mean of the run. `settle_s`: the longest time from the start or an event to the last
    move of a mask before the next event.
    """

    scenario: str
    strategy: str
    seed: int
    pc_performance: float | None
    be_throughput: float | None
    memory_bandwidth: float
    way_changes_per_minute: float
    settle_s: float


@dataclasses.dataclass(frozen=True, slots=True)
class _Job:
    """A run: of all workloads under a strategy, or of one alone."""

    scenario: Scenario
    seed: int
    strategy: str | None
    alone: str | None = None


def compare(
    scenario: Scenario,
    strategies: Sequence[str],
    seeds: Sequence[int],
    *,
    seconds: float | None = None,
    jobs: int | None = None,
    progress: Progress = lambda done, total: None,
) -> list[Row]:
    """Run every strategy with every seed; return a row each, by strategy and then by seed.

    The baseline is run in any case. Raises what `run` raises.
    """
    if seconds is not None:
        scenario = dataclasses.replace(scenario, length_s=seconds)
    names = list(dict.fromkeys([*strategies, BASELINE]))
    asked = [_Job(scenario, seed, name) for seed in seeds for name in names]
    # Alone nothing depends on a strategy and, within the noise of the layout of memory, on a seed.
    asked += [_Job(scenario, seeds[0], None, name) for name in critical(scenario)]
    results: dict[tuple[str, int], Result] = {}
    alone: dict[str, WorkloadResult] = {}
    for done, (job, future) in enumerate(pool.completed(_run, asked, jobs), 1):
        result = future.result()
        if isinstance(result, Result):
            results[result.strategy, job.seed] = result
        else:
            alone[result.name] = result
        progress(done, len(asked))
    return [
        _row(scenario, results[name, seed], results[BASELINE, seed], alone)
        for name in strategies
        for seed in seeds
    ]


def critical(scenario: Scenario) -> list[str]:
    """Return the names of the workloads of performance-critical guests."""
    facts = scenario.facts()
    found = policy.load(None, facts.host).classify(facts, {})
    names = [_workloads(scenario, known, Priority.PC) for known in found.domains.values()]
    return list(dict.fromkeys(itertools.chain.from_iterable(names)))


def _workloads(scenario: Scenario, inventory: DomainInventory, priority: Priority) -> list[str]:
    """Return the workloads that run on the processors of guests of a priority."""
    cpus = {
        cpu
        for tenant in inventory.tenants
        if tenant.priority is priority and tenant.kind in (TenantKind.GUEST, TenantKind.POOL)
        for cpu in tenant.cpus
    }
    return [workload.name for workload in scenario.workloads if cpus & set(workload.cpus)]


def _run(job: _Job) -> Result | WorkloadResult:
    if job.alone is not None:
        return _run_alone(job.scenario, job.alone, job.seed)
    return run(job.scenario, job.strategy, job.seed)


def _run_alone(scenario: Scenario, name: str, seed: int) -> WorkloadResult:
    """Run one workload, and the switch it is attached to, with the whole cache to itself."""
    workload = next(one for one in scenario.workloads if one.name == name)
    kept = tuple(one for one in scenario.workloads if one.name in (name, workload.switch))
    traffic = tuple(one for one in scenario.traffic if one.to == name)
    subjects = {name, *(f"traffic.{one.name}" for one in traffic)}
    reduced = dataclasses.replace(
        scenario,
        workloads=kept,
        traffic=traffic,
        events=tuple(event for event in scenario.events if event.subject in subjects),
        masks={},
        random_masks=False,
    )
    server = EmulatedServer(reduced, seed)
    server.wait(threading.Event(), scenario.length_s)
    return workload_result(name, server.metrics()[name], scenario.length_s)


def _row(
    scenario: Scenario,
    result: Result,
    baseline: Result,
    alone: Mapping[str, WorkloadResult],
) -> Row:
    mine = {workload.name: workload for workload in result.workloads}
    others = {workload.name: workload for workload in baseline.workloads}
    best_effort = (
        _workloads(scenario, result.inventory, Priority.BE) if result.inventory is not None else []
    )
    (window,) = result.windows
    return Row(
        scenario=result.scenario,
        strategy=result.strategy,
        seed=result.seed,
        pc_performance=_mean(performance(mine[name]) / performance(alone[name]) for name in alone),
        be_throughput=_mean(
            mine[name].work_per_s / others[name].work_per_s
            for name in best_effort
            if others[name].work_per_s
        ),
        memory_bandwidth=window.memory_bytes_per_s / 1e9,
        way_changes_per_minute=len(result.moves) / result.seconds * 60,
        settle_s=settle_s(result.moves, [event.at_s for event in scenario.events], result.seconds),
    )


def performance(workload: WorkloadResult) -> float:
    """Return how well a workload did, in a unit of its own.

    For one that is asked over the network, what arrived divided by its mean latency, as its load
    is given from outside; for all others their work a second.
    """
    if not workload.latency_us:
        return workload.work_per_s
    return (1 - workload.loss) / workload.latency_us


def settle_s(moves: Sequence[float], events: Iterable[float], length_s: float) -> float:
    """Return the longest time from the start or an event to the last move before the next one."""
    stretches = itertools.pairwise(sorted({0.0, length_s, *events}))
    return max(
        (
            move - start_s
            for start_s, end_s in stretches
            for move in moves
            if start_s <= move < end_s
        ),
        default=0.0,
    )


def _mean(values: Iterable[float]) -> float | None:
    """Return the geometric mean of ratios, None of nothing."""
    logarithms = [math.log(value) for value in values if value > 0]
    return math.exp(statistics.fmean(logarithms)) if logarithms else None
