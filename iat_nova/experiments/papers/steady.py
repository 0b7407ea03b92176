# SPDX-License-Identifier: Apache-2.0
"""Experiments without a strategy: fixed masks, a time to settle, then a time to measure."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Mapping

from iat_nova.experiments.engine import cache
from iat_nova.experiments.engine.memory import memory_lines, memory_writes
from iat_nova.experiments.machines.machine import LINE_BYTES
from iat_nova.experiments.runs.performance import WorkloadResult, workload_result
from iat_nova.experiments.scenarios.scenario import Scenario
from iat_nova.experiments.server.server import EmulatedServer


@dataclasses.dataclass(frozen=True, slots=True)
class Steady:
    """The results of the measured time, in rates of the first socket and all workloads.

    `lines_per_s` has a rate for each name of `cache.TOTAL_NAMES`.
    """

    workloads: Mapping[str, WorkloadResult]
    lines_per_s: Mapping[str, float]
    memory_read_bytes_per_s: float
    memory_write_bytes_per_s: float

    @property
    def ddio_miss_ratio(self) -> float:
        """Share of the lines written by devices that missed in the LLC, 0..1."""
        hits, misses = self.lines_per_s["ddio_hits"], self.lines_per_s["ddio_misses"]
        return misses / (hits + misses) if hits + misses else 0.0


def llc_miss_ratio(workload: WorkloadResult) -> float:
    """Return the share of a workload's LLC references that memory served, 0..1."""
    return workload.misses_per_s / workload.references_per_s if workload.references_per_s else 0.0


def steady(scenario: Scenario, seed: int, warm_s: float, run_s: float) -> Steady:
    """Run a scenario without an agent for `warm_s`, then measure for `run_s`."""
    server, wake = EmulatedServer(scenario, seed), threading.Event()
    caches = server.plant.state.caches
    server.wait(wake, warm_s)
    metrics, totals = server.metrics(), caches.totals.copy()
    reads, writes = _memory_lines(caches)
    server.wait(wake, run_s)
    scale = scenario.sampling / scenario.compression / run_s
    reads_after, writes_after = _memory_lines(caches)
    return Steady(
        {
            name: workload_result(name, done.since(metrics[name]), run_s)
            for name, done in server.metrics().items()
        },
        {
            name: float(lines) * scale
            for name, lines in zip(cache.TOTAL_NAMES, caches.totals - totals, strict=True)
        },
        (reads_after - reads) * scale * LINE_BYTES,
        (writes_after - writes) * scale * LINE_BYTES,
    )


def _memory_lines(caches: cache.Caches) -> tuple[int, int]:
    """Return the numbers of sampled lines read from and written to memory so far."""
    writes = memory_writes(caches)
    return memory_lines(caches) - writes, writes
