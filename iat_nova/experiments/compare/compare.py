# SPDX-License-Identifier: Apache-2.0
"""Strategies side by side on one scenario, over several seeds."""

from __future__ import annotations

import dataclasses
import pathlib
import statistics
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future

from iat_nova.experiments.compare import workload_rows
from iat_nova.experiments.compare.workload_rows import WorkloadRow
from iat_nova.experiments.rivals import ablation, unmanaged
from iat_nova.experiments.runs import kept_runs, parallel
from iat_nova.experiments.runs.performance import mean, performance, run_alone, workloads_of
from iat_nova.experiments.runs.run import Result, run
from iat_nova.experiments.scenarios import phases
from iat_nova.experiments.scenarios.scenario import Scenario
from iat_nova.model import Priority

REFERENCE = unmanaged.NAME
"""The default reference of all relative figures: the same host without an agent."""
COUNTER_NOISE = 0.01
ONE_SLICE = True

Progress = Callable[[int, int], None]
"""Called with the number of finished runs and the number of all runs."""


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """One run of one strategy.

    `pc_performance`: performance of the performance-critical workloads; 1 for each alone on the
    machine with the whole cache (geometric mean, 0 if a workload achieves nothing); None without
    such workloads. `be_throughput`: performance of the best-effort workloads; 1 under the reference
    with the same seed; None without such workloads. Both are geometric means of `performance`. A
    guest that arrives or leaves counts for the time of its stay. `memory_bandwidth`: GB/s, the mean
    of the run. `settle_s`: the longest time from a moment to the last move before the next
    moment. Moments: start, events, guests' arrivals and departures, restarts of the agent.
    `pc_of_bound`: PC performance relative to the best layouts found (`sim.bound`); None without a
    search.
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
    """The performance of one guest's workload in one run of one strategy.

    `alone`: 1 for the workload alone on the machine with the whole cache; None for best-effort
    workloads. `related`: 1 under the reference with the same seed. None if the other run achieves
    nothing.
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

    `left_out`: the guests' workloads that the means leave out for want of a reference. These are
    performance-critical workloads that achieve nothing alone, and best-effort workloads that do no
    work under the reference. `workloads`: absolute results of every workload.
    """

    rows: tuple[Row, ...]
    tenants: tuple[TenantRow, ...]
    left_out: tuple[str, ...]
    workloads: tuple[WorkloadRow, ...]

    def worst(self, strategy: str) -> tuple[str, float] | None:
        """Return the tenant with the worst median over the seeds relative to the reference.

        The result has the tenant and the median; None if no tenant can be compared.
        """
        found: dict[str, list[float]] = {}
        for row in self.tenants:
            if row.strategy == strategy and row.related is not None:
                found.setdefault(row.tenant, []).append(row.related)
        medians = {tenant: statistics.median(values) for tenant, values in found.items()}
        return min(medians.items(), key=lambda item: item[1], default=None)


@dataclasses.dataclass(frozen=True, slots=True)
class _Job:
    """A run of all workloads under a strategy (or an ablation's label), or of one alone."""

    scenario: Scenario
    seed: int
    strategy: str | None
    alone: str | None = None

    @property
    def key(self) -> _Key:
        """The key of the run among all runs of the scenario."""
        return self.strategy, self.seed, self.alone


_Key = tuple[str | None, int, str | None]


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
    """Run every strategy with every seed, and compare the runs with `against`, the reference.

    The reference is run in any case. `strategies`: names, or labels of ablations. `bound`:
    performance of PC workloads in the best layouts found. `kept_in`: a folder in which each
    finished run is kept; kept runs of the same scenario and version are not repeated. `executor`
    (`parallel.executor`) runs all jobs, by default in processes of this machine. Counters resemble
    hardware (`COUNTER_NOISE`, DDIO counted at one CHA) unless the scenario has other settings.
    Raises the errors of `run`.
    """
    with parallel.using(executor) as runs:
        begun = begin(
            scenario,
            strategies,
            seeds,
            against=against,
            seconds=seconds,
            kept_in=kept_in,
            executor=runs,
        )
        return begun.finish(bound, progress)


def begin(
    scenario: Scenario,
    strategies: Sequence[str],
    seeds: Sequence[int],
    *,
    against: str = REFERENCE,
    seconds: float | None = None,
    kept_in: pathlib.Path | None = None,
    executor: Executor,
) -> Begun:
    """Submit those runs of `compare` that have no kept result; do not wait for the results."""
    scenario = as_hardware_counts(scenario)
    if seconds is not None:
        scenario = dataclasses.replace(scenario, length_s=seconds)
    names = list(dict.fromkeys([*strategies, against]))
    asked = [_Job(scenario, seed, name) for seed in seeds for name in names]
    # A run alone does not depend on the strategy and hardly on the seed (memory's layout).
    critical = workloads_of(scenario, Priority.PC)
    asked += [_Job(scenario, seeds[0], None, name) for name in critical]
    kept = None if kept_in is None else kept_runs.KeptRuns(kept_in, scenario)
    found: dict[_Key, Result | kept_runs.Alone] = {}
    if kept is not None:
        for job in asked:
            before = _before(kept, job)
            if before is not None:
                found[job.key] = before
    due = [job for job in asked if job.key not in found]
    waiting = parallel.submitted(executor, _run, due)
    return Begun(scenario, strategies, seeds, against, kept, found, waiting)


@dataclasses.dataclass(frozen=True, slots=True)
class Begun:
    """A comparison whose runs are submitted; `found`: the finished runs."""

    scenario: Scenario
    strategies: Sequence[str]
    seeds: Sequence[int]
    against: str
    kept: kept_runs.KeptRuns | None
    found: dict[_Key, Result | kept_runs.Alone]
    waiting: Mapping[Future[Result | kept_runs.Alone], _Job]

    def finish(
        self, bound: float | None = None, progress: Progress = lambda done, total: None
    ) -> Comparison:
        """Wait for the runs and compare them, see `compare`."""
        total = len(self.found) + len(self.waiting)
        for job, future in parallel.in_order(self.waiting):
            result = self.found[job.key] = future.result()
            if self.kept is not None:
                _keep(self.kept, job, result)
            progress(len(self.found), total)
        return _compared(self, bound)

    def keep(self) -> None:
        """Store the results of all finished runs, also if `finish` has not read them yet."""
        for future, job in self.waiting.items():
            if self.kept is None or job.key in self.found or not future.done():
                continue
            if not future.cancelled() and future.exception() is None:
                _keep(self.kept, job, future.result())


def _compared(begun: Begun, bound: float | None) -> Comparison:
    """Compare finished runs."""
    scenario, strategies, seeds = begun.scenario, begun.strategies, begun.seeds
    against, found = begun.against, begun.found
    critical = workloads_of(scenario, Priority.PC)
    best_effort = workloads_of(scenario, Priority.BE)
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
    """Return the scenario with counters that resemble hardware, except for its own settings."""
    noise, one_slice = scenario.counter_noise, scenario.one_slice
    return dataclasses.replace(
        scenario,
        counter_noise=COUNTER_NOISE if noise is None else noise,
        one_slice=ONE_SLICE if one_slice is None else one_slice,
    )


def _run(job: _Job) -> Result | kept_runs.Alone:
    if job.alone is not None:
        return run_alone(job.scenario, job.alone, job.seed)
    name, options = ablation.resolve(job.strategy or job.scenario.strategy)
    done = run(job.scenario, name, job.seed, options=options)
    return dataclasses.replace(kept_runs.measures(done), strategy=job.strategy or name)


def _row(
    scenario: Scenario,
    result: Result,
    reference: Result,
    alone: Mapping[str, float],
    best_effort: Sequence[str],
    bound: float | None,
) -> Row:
    """Measure a run against the critical workloads' runs alone, and against the reference."""
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
        settle_s=settle_s(result.moves, phases.moments_of(scenario)),
        pc_of_bound=None if pc_performance is None else _ratio(pc_performance, bound),
    )


def _tenant_rows(
    scenario: Scenario,
    result: Result,
    reference: Result,
    alone: Mapping[str, float],
    guests: Mapping[str, Priority],
) -> Iterator[TenantRow]:
    """Yield the performance of each guest's workload in a run."""
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
    """Return the performance of each workload."""
    results = {one.name: one for one in result.workloads}
    return {name: performance(scenario, results, name) for name in results}


def settle_s(moves: Iterable[float], moments: Collection[float]) -> float:
    """Return the longest time from a moment to the last move before the next moment.

    One of the moments must be 0.
    """
    times = (move - max(at_s for at_s in moments if at_s <= move) for move in moves)
    return max(times, default=0.0)
