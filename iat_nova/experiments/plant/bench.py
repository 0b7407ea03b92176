# SPDX-License-Identifier: Apache-2.0
"""Strategies on many hosts: regret, starved tenants, and mask changes at rest."""

from __future__ import annotations

import dataclasses
import functools
import multiprocessing
import os
import statistics
from collections.abc import Callable, Sequence
from typing import Any

from iat_nova.experiments import workers
from iat_nova.experiments.failure import failed
from iat_nova.experiments.plant.loop import REST_S, SEED, Course, Lost, losses, quantile
from iat_nova.experiments.strategies import ablation
from iat_nova.model import Decision, DomainInventory, Layout, Parameters, Sample
from iat_nova.strategies import registry as strategies
from iat_nova.strategies.api import Strategy, decide

HOSTS = 200
NOISE = 0.01

Progress = Callable[[int, int], None]
"""Called with how many hosts are done of how many."""


@dataclasses.dataclass(frozen=True, slots=True)
class RegretRow:
    """Result of a strategy over all hosts and phases.

    `regret_mean`, `regret_p90`: lost share of the best static partition's utility, 0..1. Negative
    values mean that overlapping masks do better than any partition. `starved`: share of phases at
    whose end a performance-critical tenant, or the stack, is slow for lack of ways while idle ways
    or ways of best-effort tenants could help (`loop.starved`). `changes_per_minute`: decisions that
    moved masks, long after the last change of load.
    """

    strategy: str
    noise: float
    regret_mean: float
    regret_p90: float
    starved: float
    changes_per_minute: float


@dataclasses.dataclass(frozen=True, slots=True)
class _HostJob:
    number: int
    seed: int
    strategies: tuple[str, ...]
    noise: float


def rows(
    names: Sequence[str],
    hosts: int = HOSTS,
    noise: float = NOISE,
    *,
    seed: int = SEED,
    jobs: int | None = None,
    progress: Progress = lambda done, total: None,
) -> list[RegretRow]:
    """Run strategies, or ablations of the default strategy, on hosts drawn with `seed`.

    `noise`: relative standard deviation of the counters. `jobs`: number of processes. Raises
    `StrategyError` for an unknown strategy, and `StrategyFailed`.
    """
    for name in names:
        _make(name)
    asked = [_HostJob(number, seed, tuple(names), noise) for number in range(hosts)]
    found: dict[str, list[Lost]] = {name: [] for name in names}
    processes = min(jobs or os.cpu_count() or 1, hosts)
    with multiprocessing.get_context("spawn").Pool(processes, workers.begin) as pool:
        for done, lost in enumerate(pool.imap_unordered(_run, asked), 1):
            for name, mine in lost.items():
                found[name] += mine
            progress(done, hosts)
    return [_row(name, noise, found[name]) for name in names]


def _run(job: _HostJob) -> dict[str, list[Lost]]:
    course = Course.of(job.number, job.seed)
    return {
        name: losses(course, functools.partial(Guarded, name), job.noise) for name in job.strategies
    }


def _make(label: str) -> Strategy:
    name, options = ablation.resolve(label)
    return strategies.make(name, Parameters(), options)


class Guarded:
    """A strategy whose failures name it."""

    def __init__(self, label: str) -> None:
        self._label = label
        self._strategy = _make(label)

    def initial(self, inventory: DomainInventory, at_s: float, layout: Layout | None = None) -> Any:
        """Return the first state. Raises `StrategyFailed`."""
        try:
            return self._strategy.initial(inventory, at_s, layout)
        except (Exception, SystemExit) as error:
            raise failed(self._label, at_s, error, self._strategy) from error

    def step(self, state: Any, inventory: DomainInventory, sample: Sample) -> tuple[Any, Decision]:
        """Decide one iteration, and check the decision. Raises `StrategyFailed`."""
        at_s = sample.taken_at_s
        try:
            _, after, decision = decide(self._strategy, state, inventory, sample, at_s)
        except (Exception, SystemExit) as error:
            raise failed(self._label, at_s, error, self._strategy) from error
        return after, decision


def _row(name: str, noise: float, found: Sequence[Lost]) -> RegretRow:
    regrets = [lost.regret for lost in found]
    return RegretRow(
        strategy=name,
        noise=noise,
        regret_mean=statistics.fmean(regrets),
        regret_p90=quantile(regrets, 0.9),
        starved=statistics.fmean(lost.starved for lost in found),
        changes_per_minute=statistics.fmean(lost.changes for lost in found) * 60 / REST_S,
    )
