# SPDX-License-Identifier: Apache-2.0
"""The totals of a workload, for reports and figures."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from iat_nova.experiments.engine import cache, nic, rings
from iat_nova.experiments.engine import threads as th
from iat_nova.experiments.server.plant import Plant


@dataclasses.dataclass(frozen=True, slots=True)
class WorkloadMetrics:
    """The totals of one workload so far; never shown to a strategy.

    `busy_cycles`: cycles without empty polling and lost cores. `work` counts accesses, packets or
    blocks. `packets`, `bytes` and the latency (sum and histogram, see `nic.BINS`) count served
    packets (sent to the wire, or consumed) or completed blocks. `dropped`: packets that the
    workload's rings refused. `access_cycles` / `accesses` is the mean latency of accesses to the
    workload's own memory. All values except the histogram, `access_cycles` and `accesses` are
    scaled up to full time and all lines.
    """

    instructions: float
    cycles: float
    busy_cycles: float
    references: float
    misses: float
    work: float
    packets: float
    bytes: float
    dropped: float
    offered: float
    latency_ns: float
    latency_histogram: tuple[int, ...]
    access_cycles: float
    accesses: float

    def since(self, before: WorkloadMetrics | None) -> WorkloadMetrics:
        """Return the difference to the totals at an earlier moment; None: the start."""
        if before is None:
            return self
        differences: dict[str, Any] = {
            field.name: getattr(self, field.name) - getattr(before, field.name)
            for field in dataclasses.fields(self)
            if field.name != "latency_histogram"
        }
        pairs = zip(self.latency_histogram, before.latency_histogram, strict=True)
        return WorkloadMetrics(
            **differences, latency_histogram=tuple(now - then for now, then in pairs)
        )


def measured(plant: Plant, name: str, scale: float) -> WorkloadMetrics:
    """Return the totals of a workload since the start; `scale`: all lines per sampled line."""
    state = plant.state
    owner = plant.owners.index(name)
    rows = plant.threads[name]
    cpus = np.unique(state.threads.ints[rows, th.INTS.core])
    served = state.caches.served[cpus].sum(axis=0)
    f = state.threads.floats[rows].sum(axis=0)
    queues = plant.queues.get(name, [])
    numbers = [n for q in queues for n in (q.receive, q.send, q.handoff) if n >= 0]
    dropped = int(state.rings.state[numbers, rings.RING.dropped].sum())
    offered = int(
        state.nics.streams[
            state.nics.streams[:, nic.STREAM.target] == owner, nic.STREAM.offered
        ].sum()
    )
    up = 1.0 / plant.scenario.compression
    packets, size, latency = (float(n) * up for n in state.nics.served[owner])
    return WorkloadMetrics(
        instructions=float(f[th.FLOATS.instructions]) * up,
        cycles=float(f[th.FLOATS.cycles]) * up,
        busy_cycles=float(f[th.FLOATS.cycles] - f[th.FLOATS.idle_cycles]) * up,
        references=float(served[cache.LLC :].sum()) * scale,
        misses=float(served[cache.MEMORY :].sum()) * scale,
        work=float(f[th.FLOATS.work]) * up,
        packets=packets,
        bytes=size,
        dropped=dropped * up,
        offered=offered * up,
        latency_ns=latency,
        latency_histogram=tuple(int(n) for n in state.nics.latency[owner]),
        access_cycles=float(f[th.FLOATS.latency_cycles]),
        accesses=float(f[th.FLOATS.latency_samples]),
    )
