# SPDX-License-Identifier: Apache-2.0
"""The prospect that observing shows, against what enforcing then brought, on the emulated server.

Two runs of a host with the same seed: without an agent, and under a strategy. The prospect
(`iat_nova.strategies.prospect`) comes from the counters of the first run. What came is the gain of
the critical guests' performance (`performance`) in the second run over the first. Several
seeds give means: one seed's gain has chance in it, and hosts that gain nothing have no other order.
"""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor

from iat_nova.experiments.compare import compare, ranks
from iat_nova.experiments.rivals import unmanaged
from iat_nova.experiments.runs import parallel
from iat_nova.experiments.runs.performance import performance, workloads_of
from iat_nova.experiments.runs.run import IterationObserver, Result, run
from iat_nova.experiments.scenarios.scenario import Scenario
from iat_nova.model import Priority
from iat_nova.strategies import prospect
from iat_nova.strategies.prospect import Prospect

Progress = Callable[[int, int], None]
"""Called with the number of finished hosts and the number of all hosts."""


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """The estimated gain of a host's critical guests, as the mean of a run, and the true gain.

    `likely`, `most` (estimates) and `came` (true) are relative speedups; None without critical
    guests, or if the counters allow no estimate. `known`: share of the critical guests, over the
    run, for which the cost of a miss is known.
    """

    host: str
    likely: float | None
    most: float | None
    known: float | None
    came: float | None


@dataclasses.dataclass(frozen=True, slots=True)
class _Job:
    scenario: Scenario
    strategy: str
    seeds: int


def rows(
    scenarios: Sequence[Scenario],
    strategy: str,
    seeds: int,
    *,
    executor: Executor | None = None,
    progress: Progress = lambda done, total: None,
) -> Iterator[Row]:
    """Yield a row for each host, in order of completion. Raises the errors of `run`.

    Seeds are 1 to `seeds`. Counters resemble hardware, as in `compare`.
    """
    jobs = [_Job(compare.as_hardware_counts(one), strategy, seeds) for one in scenarios]
    with parallel.using(executor) as runs:
        for number, (_, future) in enumerate(parallel.completed(runs, _row, jobs), 1):
            yield future.result()
            progress(number, len(jobs))


def rank_correlation(found: Sequence[Row]) -> tuple[float | None, int]:
    """Return the rank correlation of likely and actual gain, and the number of hosts with both."""
    pairs = [
        (one.likely, one.came) for one in found if one.likely is not None and one.came is not None
    ]
    return ranks.correlation(pairs), len(pairs)


def _row(job: _Job) -> Row:
    estimates: list[Prospect] = []
    came: list[float] = []
    for seed in range(1, job.seeds + 1):
        observer = IterationObserver()
        before = run(job.scenario, unmanaged.NAME, seed, observer=observer)
        estimates += _prospects(observer)
        came += _came(job.scenario, before, run(job.scenario, job.strategy, seed))
    guests = sum(one.guests for one in estimates)
    return Row(
        job.scenario.name,
        statistics.fmean(one.likely for one in estimates) if estimates else None,
        statistics.fmean(one.most for one in estimates) if estimates else None,
        sum(one.known for one in estimates) / guests if guests else None,
        statistics.geometric_mean(came) - 1.0 if came else None,
    )


def _prospects(observer: IterationObserver) -> Iterator[Prospect]:
    """Yield the prospect at each iteration of each cache domain."""
    for domain in sorted(observer.iterations):
        for iteration, inventory in observer.iterations[domain]:
            guests = prospect.prospects(inventory, iteration.sample)
            if (host := prospect.together(guests.values())) is not None:
                yield host


def _came(scenario: Scenario, before: Result, after: Result) -> Iterator[float]:
    """Yield each critical workload's performance `after`, divided by its performance `before`.

    Workloads without any work in one of the runs are left out.
    """
    for name in workloads_of(scenario, Priority.PC):
        old, new = (
            performance(scenario, {one.name: one for one in result.workloads}, name)
            for result in (before, after)
        )
        if old and new:
            yield new / old
