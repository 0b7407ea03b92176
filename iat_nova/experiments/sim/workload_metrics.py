# SPDX-License-Identifier: Apache-2.0
"""The totals of a workload, for reports and figures."""

from __future__ import annotations

import dataclasses
from typing import Any


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
