# SPDX-License-Identifier: Apache-2.0
"""Strategies side by side on one scenario, over several seeds."""

from __future__ import annotations

import dataclasses
import statistics
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from iat_nova import policy
from iat_nova.model import Priority, TenantKind
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
    whole cache being 1 (geometric mean, 0 when one of them achieves nothing); None without any.
    `be_throughput`: of the best-effort ones, under the baseline with the same seed being 1; None
    without any. A guest that comes or goes counts for its stay. `memory_bandwidth`: GB/s, the mean
    of the run. `settle_s`: the longest time from the start, an event, or a guest's coming or going
    to the last move of a mask before the next of these.
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
class Comparison:
    """The rows, by strategy and then by seed.

    `left_out`: the guests' workloads that are in no row's means, as there is nothing to compare
    them with: performance-critical ones that achieve nothing alone, best-effort ones that do no
    work under the baseline.
    """

    rows: tuple[Row, ...]
    left_out: tuple[str, ...]


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
) -> Comparison:
    """Run every strategy with every seed.

    The baseline is run in any case. Raises what `run` raises.
    """
    if seconds is not None:
        scenario = dataclasses.replace(scenario, length_s=seconds)
    critical = workloads_of(scenario, Priority.PC)
    best_effort = workloads_of(scenario, Priority.BE)
    names = list(dict.fromkeys([*strategies, BASELINE]))
    asked = [_Job(scenario, seed, name) for seed in seeds for name in names]
    # Alone nothing depends on a strategy and, within the noise of the layout of memory, on a seed.
    asked += [_Job(scenario, seeds[0], None, name) for name in critical]
    results: dict[tuple[str, int], Result] = {}
    alone: dict[str, float] = {}
    for done, (job, future) in enumerate(pool.completed(_run, asked, jobs), 1):
        result = future.result()
        if isinstance(result, Result):
            results[result.strategy, job.seed] = result
        else:
            alone[result.name] = performance(scenario, result)
        progress(done, len(asked))
    work = [_work(results[BASELINE, seed]) for seed in seeds]
    left_out = [name for name in critical if not alone[name]]
    left_out += [name for name in best_effort if not all(each[name] for each in work)]
    counted = {name: alone[name] for name in critical if name not in left_out}
    best_effort = [name for name in best_effort if name not in left_out]
    rows = tuple(
        _row(scenario, results[name, seed], results[BASELINE, seed], counted, best_effort)
        for name in strategies
        for seed in seeds
    )
    return Comparison(rows, tuple(left_out))


def workloads_of(scenario: Scenario, priority: Priority) -> list[str]:
    """Return the names of the workloads of guests of a priority, whenever these are there."""
    facts = dataclasses.replace(scenario.facts(), guests=scenario.guests)
    found = policy.load(None, facts.host).classify(facts, {})
    cpus = {
        cpu
        for inventory in found.domains.values()
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
    alone: Mapping[str, float],
    best_effort: Sequence[str],
) -> Row:
    """Measure a run by what the performance-critical workloads achieve alone, and the baseline."""
    mine, others = _work(result), _work(baseline)
    (window,) = result.windows
    return Row(
        scenario=result.scenario,
        strategy=result.strategy,
        seed=result.seed,
        pc_performance=mean(
            performance(scenario, workload) / alone[workload.name]
            for workload in result.workloads
            if workload.name in alone
        ),
        be_throughput=mean(mine[name] / others[name] for name in best_effort),
        memory_bandwidth=window.memory_bytes_per_s / 1e9,
        way_changes_per_minute=len(result.moves) / result.seconds * 60,
        settle_s=settle_s(result.moves, moments_of(scenario)),
    )


def _work(result: Result) -> dict[str, float]:
    """Return the work a second of each workload."""
    return {workload.name: workload.work_per_s for workload in result.workloads}


def performance(scenario: Scenario, workload: WorkloadResult) -> float:
    """Return how well a workload did, in a unit of its own; 0: it achieved nothing.

    For one that is asked over the network, what arrived divided by its mean latency, as its load
    is given from outside; for all others their work a second.
    """
    if all(traffic.to != workload.name for traffic in scenario.traffic):
        return workload.work_per_s
    arrived = max(0.0, 1 - workload.loss)  # a switch loses packets of others, too
    return arrived / workload.latency_us if workload.latency_us else 0.0


def moments_of(scenario: Scenario) -> list[float]:
    """Return when something happens to the load: the start, events, guests that come or go."""
    stays = scenario.stays.values()
    return [
        0.0,
        *(event.at_s for event in scenario.events),
        *(at_s for stay in stays for at_s in (stay.arrives_s, stay.leaves_s)),
    ]


def settle_s(moves: Iterable[float], moments: Collection[float]) -> float:
    """Return the longest time from a moment to the last move before the next moment.

    One of the moments must be 0.
    """
    times = (move - max(at_s for at_s in moments if at_s <= move) for move in moves)
    return max(times, default=0.0)


def mean(ratios: Iterable[float]) -> float | None:
    """Return the geometric mean of ratios, which is 0 when one of them is; None of nothing."""
    found = list(ratios)
    if not found:
        return None
    return statistics.geometric_mean(found) if all(found) else 0.0
