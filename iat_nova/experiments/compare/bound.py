# SPDX-License-Identifier: Apache-2.0
"""The best layouts that a search finds for a scenario, as a measure for strategies.

A strategy could have chosen any of these layouts. So the performance of the best layout found is a
lower bound of the possible performance: a strategy may do better.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import pathlib
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from typing import Any

from iat_nova.common.plugins import SHIPPED_STRATEGIES
from iat_nova.experiments.runs import bound_run, parallel, sources
from iat_nova.experiments.runs.bound_run import (
    BoundError,
    Job,
    ddio_mask,
    measure,
    performances,
    space_of,
)
from iat_nova.experiments.runs.bound_search import Plan, Search, Totals, Worth, add, unmanaged
from iat_nova.experiments.runs.performance import mean, performance, workloads_of
from iat_nova.experiments.runs.run import run
from iat_nova.experiments.runs.store import Store, key
from iat_nova.experiments.scenarios import phases
from iat_nova.experiments.scenarios.scenario import Scenario
from iat_nova.model import Priority

SHORT_S, LONG_S = 0.2, 0.6
"""Length of a phase in the search, and in the choice among the best, in simulated seconds: only
simulated time changes the caches. Emulated seconds are more by the factor of the compression."""
BATCH = 16
"""Runs proposed at a time; the result does not depend on the number of parallel processes."""
LONG, FULL = 8, 3
"""How many of the best plans, fixed and phased each, get a longer run, and how many a full run."""
PHASES_MAX = 12
STATIC = "baseline"
_STATIC = ("iat_nova.experiments.runs.run", SHIPPED_STRATEGIES[STATIC].partition(":")[0])

Progress = Callable[[int, int], None]


@dataclasses.dataclass(frozen=True, slots=True)
class BestPlan:
    """A plan with its performance in full runs, one value per seed.

    `layouts`: one record per phase, with start and end (one record for a fixed plan). `lack`: the
    sum of the shortfalls of best-effort throughput and of single workloads below their limits, as
    shares; 0 or negative, the median over the seeds.
    """

    pc_performance: tuple[float, ...]
    be_throughput: tuple[float, ...] | None
    layouts: tuple[Mapping[str, Any], ...]
    lack: float = 0.0

    @property
    def pc(self) -> float:
        """PC performance, the median over the seeds."""
        return statistics.median(self.pc_performance)

    @property
    def be(self) -> float | None:
        """BE throughput, the median over the seeds; None without best-effort guests."""
        return None if self.be_throughput is None else statistics.median(self.be_throughput)


@dataclasses.dataclass(frozen=True, slots=True)
class Bound:
    """The results for a scenario: without an agent, with a fixed layout, with a layout per phase.

    `be_loss` and `tenant_least` are the arguments of `search`.
    """

    scenario: str
    sources: str
    seeds: int
    be_loss: float
    unmanaged: BestPlan
    fixed: BestPlan
    phased: BestPlan
    tenant_least: float = 0.0

    @property
    def best(self) -> BestPlan:
        """The result with the smallest shortfall; among equals, with the best PC performance."""
        return max((self.unmanaged, self.fixed, self.phased), key=lambda one: (one.lack, one.pc))

    @property
    def pc(self) -> float:
        """The PC performance of `best`."""
        return self.best.pc


def search(
    scenario: Scenario,
    folder: pathlib.Path,
    *,
    seeds: int,
    runs: int,
    be_loss: float,
    tenant_least: float = 0.0,
    executor: Executor | None = None,
    progress: Progress = lambda done, total: None,
) -> Bound:
    """Search for a scenario's best layouts, and write the results to `folder`.

    Each run is kept there and not repeated. The search uses seed 1; the best plans are run in full
    with seeds 1 to `seeds`. `runs`: number of short runs for the search. `be_loss`: share of their
    performance without an agent that best-effort workloads may lose in the mean. `tenant_least`:
    share of the performance under the static baseline that every workload must reach. If no tried
    layout keeps both limits, the result is the layout with the smallest shortfall. Raises
    `BoundError`, `ScenarioError`, `ParallelError`.
    """
    with parallel.using(executor) as runner:
        searching = _Searching(scenario, folder, runs, be_loss, tenant_least, runner, progress)
        found = searching.search(seeds)
    path = folder / f"{scenario.name}.json"
    path.write_text(json.dumps(dataclasses.asdict(found), indent=1) + "\n", encoding="utf-8")
    return found


def read(folder: pathlib.Path, scenario: Scenario) -> Bound | None:
    """Return the results that this version has written for a scenario, or None."""
    path = folder / f"{scenario.name}.json"
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, json.JSONDecodeError):
        return None
    if not isinstance(kept, dict) or kept.get("sources") != _made_with(scenario, kept):
        return None
    for name in ("unmanaged", "fixed", "phased"):
        kept[name] = BestPlan(**kept[name])
    return Bound(**kept)


def _made_with(scenario: Scenario, kept: Mapping[str, Any]) -> str:
    """Return the sources that a written result must have: with a baseline also its own."""
    return identity(scenario) + (_static_sources() if kept.get("tenant_least") else "")


def _static_sources() -> str:
    return sources.digest(sources.closure(*_STATIC))


def identity(scenario: Scenario) -> str:
    """Return an identity of a scenario together with this version of the emulated server.

    Raises `BoundError`.
    """
    layouts = dataclasses.replace(
        scenario, title="", seed=0, strategy="", policy={}, counter_noise=None, one_slice=None
    )
    judged = [workloads_of(scenario, priority) for priority in (Priority.PC, Priority.BE)]
    text = repr((layouts, space_of(scenario), judged))
    made_with = sources.digest(sources.closure(bound_run.__name__))
    return f"{made_with}-{sources.digest_text(text)}"


def _run_static(scenario: Scenario) -> dict[str, float]:
    """Return each workload's performance under the static baseline, by name."""
    results = {result.name: result for result in run(scenario, STATIC, 1).workloads}
    return {name: performance(scenario, results, name) for name in results}


class _Searching:
    """A search: runs and judges each proposed layout, and reuses the kept runs."""

    def __init__(
        self,
        scenario: Scenario,
        folder: pathlib.Path,
        runs: int,
        be_loss: float,
        tenant_least: float,
        executor: Executor,
        progress: Progress,
    ) -> None:
        self._scenario = scenario
        self._sources = identity(scenario)
        self._store = Store(folder / f"{scenario.name}.jsonl", self._sources)
        self._runs, self._be_loss, self._tenant_least = runs, be_loss, tenant_least
        self._executor, self._progress = executor, progress
        self._space = space_of(scenario)
        self._ends = phases.of(scenario, PHASES_MAX)
        lengths = (end - start for start, end in itertools.pairwise((0.0, *self._ends)))
        self._longest_s = max(lengths)
        self._critical = workloads_of(scenario, Priority.PC)
        self._best_effort = workloads_of(scenario, Priority.BE)
        self._seen: set[str] = set()
        self._total = 0
        self._alone: dict[str, float] = {}
        self._least: dict[str, float] = {}  # shares of the performance without an agent

    def search(self, seeds: int) -> Bound:
        """Search, and return what was found."""
        if not self._critical:
            raise BoundError(f"{self._scenario.name}: no performance-critical guest to serve")
        several = 2 if len(self._ends) > 1 else 1
        most = len(self._critical) + 1 + self._runs + several * (LONG + FULL * seeds) + seeds
        most += bool(self._tenant_least)
        self._total = most
        alone = [self._job((), alone=name) for name in self._critical]
        for job, row in zip(alone, self._measured(alone), strict=True):
            assert job.alone is not None
            self._alone[job.alone] = row["performance"]
        if not any(self._alone.values()):
            raise BoundError(
                f"{self._scenario.name}: no performance-critical guest has anything to do"
            )
        free: Plan = (unmanaged(self._space),) * len(self._ends)
        self._least = self._leasts(free)
        finder = Search(self._space, len(self._ends), self._worth_beside(free, SHORT_S), seed=1)
        self._tell(finder, [free])
        starts = finder.starts()[: self._runs]
        self._tell(finder, starts)
        spent = len(starts)
        spent += self._explore(finder, finder.next_fixed, self._runs // several - spent)
        if several > 1:
            self._explore(finder, finder.next_phased, self._runs - spent)
        kinds = [finder.fixed(LONG)]
        if several > 1:
            kinds.append(finder.phased(LONG))
        worth = self._worth_beside(free, LONG_S)
        chosen = [self._chosen(plans, worth) for plans in kinds]
        found = [self._best([free], free, seeds)]
        found += [self._best([free, *plans], free, seeds) for plans in chosen]
        return Bound(
            scenario=self._scenario.name,
            sources=self._sources + (_static_sources() if self._tenant_least else ""),
            seeds=seeds,
            be_loss=self._be_loss,
            unmanaged=found[0],
            fixed=found[1],
            # A fixed layout is also a layout per phase.
            phased=max(found[1:], key=lambda one: (one.lack, one.pc)),
            tenant_least=self._tenant_least,
        )

    def _leasts(self, free: Plan) -> dict[str, float]:
        """Return the share of the performance without an agent that each workload must reach."""
        if not self._tenant_least:
            return {}
        (row,) = self._measured([self._job(free)])
        without = performances(self._scenario, _totals(row))
        static = self._static()
        return {
            name: self._tenant_least * static[name] / without[name]
            for name in (*self._critical, *self._best_effort)
            if without[name]
        }

    def _static(self) -> Mapping[str, float]:
        """Return each workload's performance under the static baseline.

        The agent and the strategy take part in this run, so the run is valid for their sources.
        """
        point = {"strategy": STATIC, "seed": 1, "sources": _static_sources()}
        if (row := self._store.get(point)) is None:
            row = self._executor.submit(_run_static, self._scenario).result()
            self._store.put(point, row)
        self._seen.add(key(point))
        return row

    def _explore(self, finder: Search, propose: Callable[[int], list[Plan]], budget: int) -> int:
        """Run the proposed plans in batches; return the number of runs."""
        used = 0
        while used < budget and (plans := propose(min(BATCH, budget - used))):
            self._tell(finder, plans)
            used += len(plans)
        return used

    def _tell(self, finder: Search, plans: Sequence[Plan]) -> None:
        jobs = [self._job(plan, SHORT_S) for plan in plans]
        for job, row in zip(jobs, self._measured(jobs), strict=True):
            finder.tell(job.plan, [tuple(totals) for totals in row["phases"]])

    def _chosen(self, plans: Sequence[Plan], worth: Callable[[Totals], Worth]) -> list[Plan]:
        """Return the best plans after longer runs."""
        jobs = [self._job(plan, LONG_S) for plan in plans]
        rows = self._measured(jobs)
        found = {job.plan: worth(_totals(row)) for job, row in zip(jobs, rows, strict=True)}
        return sorted(found, key=lambda plan: found[plan], reverse=True)[:FULL]

    def _best(self, plans: Sequence[Plan], free: Plan, seeds: int) -> BestPlan:
        """Return the plan that is best in full runs with every seed."""
        every = range(1, seeds + 1)
        jobs = [self._job(plan, math.inf, seed) for plan in dict.fromkeys(plans) for seed in every]
        found: dict[Plan, list[_Measures]] = {}
        self._measured([self._job(free, math.inf, seed) for seed in every])
        for job, row in zip(jobs, self._measured(jobs), strict=True):
            reference = self._measured([self._job(free, math.inf, job.seed)])[0]
            measures = self._measures(_totals(row), _totals(reference))
            found.setdefault(job.plan, []).append(measures)

        def rank(plan: Plan) -> Worth:
            lacks = statistics.median(one.lack for one in found[plan])
            return lacks, statistics.median(one.pc for one in found[plan])

        plan = max(found, key=rank)
        be = tuple(one.be for one in found[plan] if one.be is not None)
        return BestPlan(
            pc_performance=tuple(one.pc for one in found[plan]),
            be_throughput=be or None,
            layouts=tuple(self._layouts(plan)),
            lack=rank(plan)[0],
        )

    def _layouts(self, plan: Plan) -> Iterator[dict[str, Any]]:
        """Yield one record per phase, or a single record for a fixed plan."""
        starts = (0.0, *self._ends[:-1])
        fixed = len(set(plan)) == 1
        for placement, start, end in zip(plan, starts, self._ends, strict=True):
            yield {
                "from_s": start,
                "to_s": self._ends[-1] if fixed else end,
                "masks": {
                    unit.name: str(mask)
                    for unit, mask in zip(self._space.units, placement.masks, strict=True)
                },
                "ddio": [str(ddio_mask(self._scenario, count)) for count in placement.ddio],
                "dca_off": list(placement.dca_off),
            }
            if fixed:
                return

    # ----------------------------------------------------------------- judging

    def _worth_beside(self, free: Plan, simulated_s: float) -> Callable[[Totals], Worth]:
        """Return a function that judges totals against an equally long run without an agent."""
        reference = _totals(self._measured([self._job(free, simulated_s)])[0])

        def worth(totals: Totals) -> Worth:
            found = self._measures(totals, reference)
            return found.lack, found.pc

        return worth

    def _measures(self, totals: Totals, reference: Totals) -> _Measures:
        """Return PC performance and BE throughput as `compare` defines these, and the shortfall."""
        mine, others = (performances(self._scenario, one) for one in (totals, reference))
        pc = mean(mine[name] / alone for name, alone in self._alone.items() if alone)
        be = mean(mine[name] / others[name] for name in self._best_effort if others[name])
        assert pc is not None
        lack = 0.0 if be is None else min(0.0, be - (1 - self._be_loss))
        leasts = ((name, least) for name, least in self._least.items() if least and others[name])
        short = (mine[name] / others[name] / least - 1.0 for name, least in leasts)
        return _Measures(pc, be, lack + math.fsum(min(0.0, one) for one in short))

    # ----------------------------------------------------------------- running

    def _job(
        self, plan: Plan, simulated_s: float = math.inf, seed: int = 1, alone: str | None = None
    ) -> Job:
        most_s = simulated_s / self._scenario.compression
        if most_s >= self._longest_s:
            most_s = math.inf  # the run in full, kept under this name
        return Job(self._scenario, self._space, self._ends, plan, seed, most_s, alone)

    def _measured(self, jobs: Sequence[Job]) -> list[Mapping[str, Any]]:
        """Return each run's row; make the missing runs and report progress."""
        due = [job for job in jobs if self._store.get(job.point) is None]
        self._seen.update(key(job.point) for job in jobs if job not in due)
        for job, future in parallel.completed(self._executor, measure, due):
            self._store.put(job.point, future.result())
            self._seen.add(key(job.point))
            self._progress(min(len(self._seen), self._total), self._total)
        return [self._store.get(job.point) or {} for job in jobs]


@dataclasses.dataclass(frozen=True, slots=True)
class _Measures:
    """The performance of a plan; `lack`: shortfall of best-effort workloads or of a workload."""

    pc: float
    be: float | None
    lack: float  # 0 or less


def _totals(row: Mapping[str, Any]) -> Totals:
    return add([tuple(totals) for totals in row["phases"]])
