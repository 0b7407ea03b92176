# SPDX-License-Identifier: Apache-2.0
"""The results of each workload in each run of a comparison, as raw data for own evaluations."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping

from iat_nova.experiments.runs.performance import WorkloadResult
from iat_nova.experiments.runs.run import Result
from iat_nova.experiments.scenarios.profile import NETWORKED, Form
from iat_nova.experiments.scenarios.scenario import Scenario, Workload
from iat_nova.model import Priority


@dataclasses.dataclass(frozen=True, slots=True)
class WorkloadRow:
    """One workload in one run; unknown or inapplicable values are None, never 0.

    `priority`: PC or BE for a guest's workload, None for other workloads such as a virtual switch.
    `unit`: packets, blocks or accesses, counted by `throughput_per_s` and `cycles_per_unit`.
    `latency_mean_us`, `latency_p99_us`: of a packet in the host, or of a block from the command to
    the thread. `loss`: share of the offered packets that the workload's rings refused, 0..1; None
    without offered packets. `cycles_per_unit`: cycles of the threads, without empty polling.
    """

    scenario: str
    strategy: str
    seed: int
    workload: str
    priority: str | None
    unit: str
    throughput_per_s: float
    gbps: float | None
    latency_mean_us: float | None
    latency_p99_us: float | None
    loss: float | None
    cycles_per_unit: float | None


def rows(
    scenario: Scenario, result: Result, guests: Mapping[str, Priority]
) -> Iterator[WorkloadRow]:
    """Yield a row per workload of a run; `guests`: priorities of guests' workloads by name."""
    specs = {workload.name: workload for workload in scenario.workloads}
    for one in result.workloads:
        priority = guests.get(one.name)
        yield WorkloadRow(
            scenario=result.scenario,
            strategy=result.strategy,
            seed=result.seed,
            workload=one.name,
            priority=None if priority is None else priority.value,
            unit=_unit(specs[one.name]),
            throughput_per_s=one.work_per_s,
            gbps=one.gbps if one.latency_us is not None else None,
            latency_mean_us=one.latency_us,
            latency_p99_us=one.latency_p99_us,
            loss=_loss(one),
            cycles_per_unit=one.busy_cycles_per_work,
        )


def _loss(one: WorkloadResult) -> float | None:
    return one.loss if one.offered_per_s else None


def _unit(workload: Workload) -> str:
    if workload.profile.form in NETWORKED:
        return "packets"
    return "blocks" if workload.profile.form is Form.STORAGE else "accesses"
