# SPDX-License-Identifier: Apache-2.0
"""What a workload achieves in a run: rates, performance, and the same workload alone."""

from __future__ import annotations

import dataclasses
import statistics
import threading
from collections.abc import Iterable, Mapping, Sequence

from iat_nova import policy
from iat_nova.experiments.engine import nic
from iat_nova.experiments.scenarios.profile import NETWORKED
from iat_nova.experiments.scenarios.scenario import Scenario, Workload
from iat_nova.experiments.server.server import EmulatedServer
from iat_nova.experiments.server.workload_metrics import WorkloadMetrics
from iat_nova.model import Priority, TenantKind


@dataclasses.dataclass(frozen=True, slots=True)
class WorkloadResult:
    """The results of a workload, in rates over the whole run.

    `work_per_s` counts packets of network workloads, blocks of storage workloads, and accesses of
    memory workloads. `latency_us`: mean time of a packet in the host, or of a block from command to
    thread, or None; `latency_p95_us`, `latency_p99_us`: percentiles (to 3 %). `access_cycles`: mean
    latency of an access to the workload's own memory, or None. `loss`: share of the offered packets
    that was dropped, 0..1. `busy_cycles_per_work`: cycles of the threads per packet, block or
    access, without empty polling; None without work.
    """

    name: str
    work_per_s: float
    busy_cycles_per_work: float | None
    offered_per_s: float
    gbps: float
    loss: float
    latency_us: float | None
    latency_p95_us: float | None
    latency_p99_us: float | None
    access_cycles: float | None
    ipc: float
    references_per_s: float
    misses_per_s: float


def workloads_of(scenario: Scenario, priority: Priority) -> list[str]:
    """Return the names of the workloads of guests with a priority, also of absent guests."""
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


def performance(scenario: Scenario, results: Mapping[str, WorkloadResult], name: str) -> float:
    """Return a workload's work per busy cycle, or 0 if the workload does no work.

    The work is packets, blocks or accesses, so only results of the same workload are comparable.
    Cycles of the virtual switch for the same packet are included, and packets lost in the switch
    reduce the performance in proportion. Load from outside is given, so work per second shows no
    difference until a thread saturates. The cost of a packet shows the effect of the cache at every
    load. The inverse cost is proportional to the possible throughput, which a saturated thread
    reaches.

    For packets the result is multiplied by `headroom`, the mean free share of the receive rings.
    The share stands for latency. Latency itself, mean or 99th percentile, consists mostly of
    queueing: where queues begin, latency is a hundred times the latency just below this load.
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
    # Packets refused by the workload's own rings are already a cost of its threads.
    reached = one.work_per_s / one.offered_per_s + one.loss if one.offered_per_s else 1.0
    return min(1.0, reached) / (cost + before)


def headroom(scenario: Scenario, workload: Workload, done: WorkloadResult) -> float:
    """Return the mean free share, 0..1, of a workload's receive rings over a run.

    By Little's law the rings hold packets per second times latency. Behind a virtual switch, the
    rings of the switch also count. The result is 1 without a ring. The minimum is the share of one
    packet, because the workload still serves packets.
    """
    if workload.profile.form not in NETWORKED or done.latency_us is None:
        return 1.0
    owners = [workload, *([scenario.workload(workload.switch)] if workload.switch else [])]
    places = sum((one.ring + one.backlog) * len(one.cpus) for one in owners)
    waiting = done.work_per_s * done.latency_us * 1e-6
    return max(1.0 - waiting / places, 1.0 / places)


def run_alone(scenario: Scenario, name: str, seed: int) -> dict[str, WorkloadResult]:
    """Run one workload, and the virtual switch of this workload, with the whole cache.

    The other workloads exist with their memory and rings but are silent, so that random numbers
    are the same as in a run with all workloads.
    """
    workload = next(one for one in scenario.workloads if one.name == name)
    kept = (name, workload.switch)
    server = EmulatedServer(dataclasses.replace(scenario, masks={}, random_masks=False), seed)
    server.silence(one.name for one in scenario.workloads if one.name not in kept)
    server.wait(threading.Event(), scenario.length_s)
    done = server.metrics()
    return {one: workload_result(one, done[one], scenario.length_s) for one in kept if one}


def mean(ratios: Iterable[float]) -> float | None:
    """Return the geometric mean of ratios: 0 if a ratio is 0, None without ratios."""
    found = list(ratios)
    if not found:
        return None
    return statistics.geometric_mean(found) if all(found) else 0.0


def workload_result(name: str, done: WorkloadMetrics, seconds: float) -> WorkloadResult:
    """Turn a workload's totals over `seconds` into rates."""
    return WorkloadResult(
        name=name,
        work_per_s=done.work / seconds,
        busy_cycles_per_work=done.busy_cycles / done.work if done.work else None,
        offered_per_s=done.offered / seconds,
        gbps=done.bytes * 8 / seconds / 1e9,
        loss=done.dropped / done.offered if done.offered else 0.0,
        latency_us=done.latency_ns / done.packets / 1e3 if done.packets else None,
        latency_p95_us=_percentile_us(done.latency_histogram, 0.95),
        latency_p99_us=_percentile_us(done.latency_histogram, 0.99),
        access_cycles=done.access_cycles / done.accesses if done.accesses else None,
        ipc=done.instructions / done.cycles if done.cycles else 0.0,
        references_per_s=done.references / seconds,
        misses_per_s=done.misses / seconds,
    )


def _percentile_us(histogram: Sequence[int], share: float) -> float | None:
    """Return the percentile of latency for `share` of the packets, as the middle of a bin."""
    below = 0
    for bin_number, count in enumerate(histogram):
        below += count
        if count and below >= share * sum(histogram):
            return nic.middle_ns(bin_number) / 1e3
    return None
