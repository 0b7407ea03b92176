# SPDX-License-Identifier: Apache-2.0
"""What a workload has done, as reports and figures see it."""

from __future__ import annotations

import dataclasses
from typing import Any


@dataclasses.dataclass(frozen=True, slots=True)
class WorkloadMetrics:
    """What one workload has done so far; never shown to a strategy.

    `busy_cycles` are those it did not poll in vain; `work` counts accesses, packets or blocks;
    `packets`, `bytes` and the latency (sum and histogram, see `nic.BINS`) what reached the wire
    again, `dropped` what its rings refused; `access_cycles` / `accesses` is the mean latency of
    accesses to its own memory. All but the
    histogram and `access_*` are scaled up for what is not simulated.
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
        """Return what was done since an earlier moment, None being the start."""
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
