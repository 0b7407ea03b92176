# SPDX-License-Identifier: Apache-2.0
"""Strategies side by side on one scenario, over several seeds."""

from __future__ import annotations

import dataclasses
import pathlib
import statistics
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor

from iat_nova import policy
from iat_nova.model import Priority, TenantKind
from iat_nova.sim import kept_runs, parallel, workload_rows
from iat_nova.sim.run import Result, WorkloadResult, run, workload_result
from iat_nova.sim.scenario import Scenario, Workload
from iat_nova.sim.server import EmulatedServer
from iat_nova.sim.workload_rows import WorkloadRow
from iat_nova.sim.workloads.profile import NETWORKED
from iat_nova.strategies import ablation, unmanaged

REFERENCE = unmanaged.NAME
"""What everything is related to by default: the same host without an agent."""
COUNTER_NOISE = 0.01
ONE_SLICE = True

Progress = Callable[[int, int], None]
"""Called with how many runs are done of how many."""


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """One run of one strategy.

    `pc_performance`: of the performance-critical workloads, each alone on the machine with the
    whole cache being 1 (geometric mean, 0 when one of them achieves nothing); None without any.
    `be_throughput`: of the best-effort ones, under the reference with the same seed being 1; None
    without any. Both are means of what `performance` measures. A guest that comes or goes counts
    for its stay. `memory_bandwidth`: GB/s, the mean of the run. `settle_s`: the longest time from
    the start, an event, or a guest's coming or going to the last move of a mask before the next of
    these. `pc_of_bound`: PC performance, that of the best layouts found (`sim.bound`) being 1; None
    where none were searched for.
    """

    scenario: str
    strategy: str
    seed: int
    pc_performance: float | None
    be_throughput: float | None
    memory_bandwidth: float
    way_changes_per_minute: float
    settle_s: float
    pc_of_bound: float | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class TenantRow:
    """What one guest's workload had in one run of one strategy.

    `alone`: its performance, alone on the machine with the whole cache being 1; of the
    performance-critical ones only. `related`: under the reference with the same seed being 1.
    None where there is nothing to compare with.
    """

    scenario: str
    strategy: str
    seed: int
    tenant: str
    priority: str
    alone: float | None
    related: float | None


@dataclasses.dataclass(frozen=True, slots=True)
class Comparison:
    """The rows, by strategy and then by seed; `tenants` divides each by workload.

    `left_out`: the guests' workloads that are in no row's means, as there is nothing to compare
    them with: performance-critical ones that achieve nothing alone, best-effort ones that do no
    work under the reference. `workloads`: what every workload achieved, related to nothing.
    """

    rows: tuple[Row, ...]
    tenants: tuple[TenantRow, ...]
    left_out: tuple[str, ...]
    workloads: tuple[WorkloadRow, ...]

    def worst(self, strategy: str) -> tuple[str, float] | None:
        """Return who fares worst under a strategy, and how, against the reference.

        By the median over the seeds; None when nobody can be related to it.
        """
        found: dict[str, list[float]] = {}
        for row in self.tenants:
            if row.strategy == strategy and row.related is not None:
                found.setdefault(row.tenant, []).append(row.related)
        medians = {tenant: statistics.median(values) for tenant, values in found.items()}
        return min(medians.items(), key=lambda item: item[1], default=None)


@dataclasses.dataclass(frozen=True, slots=True)
class _Job:
    """A run: of all workloads under a strategy (or an ablation's label), or of one alone."""

    scenario: Scenario
    seed: int
    strategy: str | None
    alone: str | None = None

    @property
    def key(self) -> _Key:
        """What distinguishes the run from others of its scenario."""
        return self.strategy, self.seed, self.alone


_Key = tuple[str | None, int, str | None]
_Made = Mapping[_Key, Result | kept_runs.Alone]


def compare(
    scenario: Scenario,
    strategies: Sequence[str],
    seeds: Sequence[int],
    *,
    against: str = REFERENCE,
    seconds: float | None = None,
    bound: float | None = None,
    kept_in: pathlib.Path | None = None,
    executor: Executor | None = None,
    progress: Progress = lambda done, total: None,
) -> Comparison:
    """Run every strategy with every seed, and relate them to `against`, the reference.

    The reference is run in any case. `strategies` may have labels of ablations. `bound`: the PC
    performance of the best layouts found. `kept_in`: a folder in which each finished run is kept,
    and from which runs of the same scenario and version are taken instead of being made again.
    `executor` (`parallel.executor`) is what runs it all, processes of
    this machine by default. Counters are as hardware has them, `COUNTER_NOISE` and one
    CHA's count of DDIO, unless the scenario says otherwise. Raises what `run` raises.
    """
    scenario = as_hardware_counts(scenario)
    if seconds is not None:
        scenario = dataclasses.replace(scenario, length_s=seconds)
    critical = workloads_of(scenario, Priority.PC)
    best_effort = workloads_of(scenario, Priority.BE)
    names = list(dict.fromkeys([*strategies, against]))
    asked = [_Job(scenario, seed, name) for seed in seeds for name in names]
    # Alone nothing depends on a strategy and, within the noise of the layout of memory, on a seed.
    asked += [_Job(scenario, seeds[0], None, name) for name in critical]
    found = _made(asked, kept_in, executor, progress)
    results = {(one.strategy, one.seed): one for one in found.values() if isinstance(one, Result)}
    alone = {
        name: performance(scenario, one, name)
        for (_, _, name), one in found.items()
        if name is not None and not isinstance(one, Result)
    }
    work = [_performances(scenario, results[against, seed]) for seed in seeds]
    left_out = [name for name in critical if not alone[name]]
    left_out += [name for name in best_effort if not all(each[name] for each in work)]
    counted = {name: alone[name] for name in critical if name not in left_out}
    best_effort = [name for name in best_effort if name not in left_out]
    rows = tuple(
        _row(scenario, results[name, seed], results[against, seed], counted, best_effort, bound)
        for name in strategies
        for seed in seeds
    )
    guests = dict.fromkeys(critical, Priority.PC) | dict.fromkeys(
        workloads_of(scenario, Priority.BE), Priority.BE
    )
    tenants = tuple(
        row
        for name in strategies
        for seed in seeds
        for row in _tenant_rows(
            scenario, results[name, seed], results[against, seed], alone, guests
        )
    )
    workloads = tuple(
        row
        for name in strategies
        for seed in seeds
        for row in workload_rows.rows(scenario, results[name, seed], guests)
    )
    return Comparison(rows, tenants, tuple(left_out), workloads)


def _made(
    asked: Sequence[_Job],
    folder: pathlib.Path | None,
    executor: Executor | None,
    progress: Progress,
) -> _Made:
    """Return each run's results: those that are kept, and those that had to be made."""
    found: dict[_Key, Result | kept_runs.Alone] = {}
    kept = None if folder is None else kept_runs.KeptRuns(folder, asked[0].scenario)
    if kept is not None:
        for job in asked:
            before = _before(kept, job)
            if before is not None:
                found[job.key] = before
    due = [job for job in asked if job.key not in found]
    if not due:
        return found
    with parallel.using(executor) as runs:
        for job, future in parallel.completed(runs, _run, due):
            result = found[job.key] = future.result()
            if kept is not None:
                _keep(kept, job, result)
            progress(len(found), len(asked))
    return found


def _before(kept: kept_runs.KeptRuns, job: _Job) -> Result | kept_runs.Alone | None:
    if job.alone is not None:
        return kept.alone(job.alone)
    return None if job.strategy is None else kept.result(job.strategy, job.seed)


def _keep(kept: kept_runs.KeptRuns, job: _Job, result: Result | kept_runs.Alone) -> None:
    if isinstance(result, Result):
        kept.keep(result)
    elif job.alone is not None:
        kept.keep_alone(job.alone, result)


def as_hardware_counts(scenario: Scenario) -> Scenario:
    """Return the scenario with counters as hardware has them, where it does not say itself."""
    noise, one_slice = scenario.counter_noise, scenario.one_slice
    return dataclasses.replace(
        scenario,
        counter_noise=COUNTER_NOISE if noise is None else noise,
        one_slice=ONE_SLICE if one_slice is None else one_slice,
    )


def workloads_of(scenario: Scenario, priority: Priority) -> list[str]:
    """Return the names of the workloads of guests of a priority, whenever these are there."""
    facts = dataclasses.replace(scenario.facts(), guests=scenario.guests)
    found = policy.default(facts.host).classify(facts, {})
    cpus = {
        cpu
        for inventory in found.domains.values()
        for tenant in inventory.tenants
        if tenant.priority is priority and tenant.kind in (TenantKind.GUEST, TenantKind.POOL)
        for cpu in tenant.cpus
    }
    return [workload.name for workload in scenario.workloads if cpus & set(workload.cpus)]


def _run(job: _Job) -> Result | kept_runs.Alone:
    if job.alone is not None:
        return run_alone(job.scenario, job.alone, job.seed)
    name, options = ablation.resolve(job.strategy or job.scenario.strategy)
    done = run(job.scenario, name, job.seed, options=options)
    return dataclasses.replace(kept_runs.measures(done), strategy=job.strategy or name)


def run_alone(scenario: Scenario, name: str, seed: int) -> dict[str, WorkloadResult]:
    """Run one workload, and the switch it is attached to, with the whole cache to itself.

    The others are there, with their memory and rings, and silent: dice fall as beside them.
    """
    workload = next(one for one in scenario.workloads if one.name == name)
    kept = (name, workload.switch)
    server = EmulatedServer(dataclasses.replace(scenario, masks={}, random_masks=False), seed)
    server.silence(one.name for one in scenario.workloads if one.name not in kept)
    server.wait(threading.Event(), scenario.length_s)
    done = server.metrics()
    return {one: workload_result(one, done[one], scenario.length_s) for one in kept if one}


def _row(
    scenario: Scenario,
    result: Result,
    reference: Result,
    alone: Mapping[str, float],
    best_effort: Sequence[str],
    bound: float | None,
) -> Row:
    """Measure a run by what the performance-critical workloads achieve alone, and the reference."""
    mine, others = _performances(scenario, result), _performances(scenario, reference)
    (window,) = result.windows
    pc_performance = mean(mine[name] / alone[name] for name in alone)
    return Row(
        scenario=result.scenario,
        strategy=result.strategy,
        seed=result.seed,
        pc_performance=pc_performance,
        be_throughput=mean(mine[name] / others[name] for name in best_effort),
        memory_bandwidth=window.memory_bytes_per_s / 1e9,
        way_changes_per_minute=len(result.moves) / result.seconds * 60,
        settle_s=settle_s(result.moves, moments_of(scenario)),
        pc_of_bound=None if pc_performance is None else _ratio(pc_performance, bound),
    )


def _tenant_rows(
    scenario: Scenario,
    result: Result,
    reference: Result,
    alone: Mapping[str, float],
    guests: Mapping[str, Priority],
) -> Iterator[TenantRow]:
    """Yield what each guest's workload had in a run."""
    others = _performances(scenario, reference)
    for name, mine in _performances(scenario, result).items():
        if name in guests:
            yield TenantRow(
                scenario=result.scenario,
                strategy=result.strategy,
                seed=result.seed,
                tenant=name,
                priority=guests[name].value,
                alone=_ratio(mine, alone.get(name)),
                related=_ratio(mine, others[name]),
            )


def _ratio(mine: float, other: float | None) -> float | None:
    return mine / other if other else None


def _performances(scenario: Scenario, result: Result) -> dict[str, float]:
    """Return how well each workload did."""
    results = {one.name: one for one in result.workloads}
    return {name: performance(scenario, results, name) for name in results}


def performance(scenario: Scenario, results: Mapping[str, WorkloadResult], name: str) -> float:
    """Return how well a workload did, in a unit of its own; 0: it achieved nothing.

    The work that a busy cycle does: packets, blocks or accesses, cycles of its switch for the same
    packet included; what the switch lost on the way counts in proportion. Load from outside is
    given, so work a second shows nothing until a thread saturates. What a packet costs shows what
    the cache does at every load, and is in proportion to what could be carried; where a thread
    saturates it is its throughput.

    Of packets it is that times `headroom`, which is latency in a unit of the guest's own: latency
    itself, mean or 99th percentile, is mostly queues, and at a load where they begin a hundred
    times what it is just below.
    """
    one = results[name]
    cost = one.busy_cycles_per_work
    if cost is None:
        return 0.0
    workload = scenario.workload(name)
    cost /= headroom(scenario, workload, one)
    switch = workload.switch
    if switch is None:
        return 1.0 / cost
    before = results[switch].busy_cycles_per_work or 0.0
    # What its own rings refused is its own threads' cost already.
    reached = one.work_per_s / one.offered_per_s + one.loss if one.offered_per_s else 1.0
    return min(1.0, reached) / (cost + before)


def headroom(scenario: Scenario, workload: Workload, done: WorkloadResult) -> float:
    """Return the share of its receive rings that a workload leaves free, the mean of a run, 0..1.

    By Little's law packets a second times latency are in them; behind a switch, in the switch's as
    well. 1 where there is no ring; at least one packet's place, as it can still serve.
    """
    if workload.profile.form not in NETWORKED or done.latency_us is None:
        return 1.0
    owners = [workload, *([scenario.workload(workload.switch)] if workload.switch else [])]
    places = sum((one.ring + one.backlog) * len(one.cpus) for one in owners)
    waiting = done.work_per_s * done.latency_us * 1e-6
    return max(1.0 - waiting / places, 1.0 / places)


def moments_of(scenario: Scenario) -> list[float]:
    """Return when something happens: the start, events, guests that come or go, restarts."""
    stays = scenario.stays.values()
    return [
        0.0,
        *(event.at_s for event in scenario.events),
        *scenario.restarts_s,
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
