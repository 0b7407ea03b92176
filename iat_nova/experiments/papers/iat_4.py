# SPDX-License-Identifier: Apache-2.0
"""IAT, figure 4: the judgement of X-Mem's losses on DDIO's ways."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from iat_nova.experiments.papers import summary
from iat_nova.experiments.papers.api import ClaimFinding, Row


def _changes(rows: Sequence[Row], column: str) -> Mapping[int, float]:
    """Return the change of a column by overlap with DDIO, in percent, by working set."""
    return summary.changes(rows, "working_set_mb", "ways", column, "ddio", "dedicated")


def _listing(changes: Mapping[int, float]) -> str:
    return "; ".join(f"{size} MB: {percent:+.1f} %" for size, percent in changes.items())


def judge(rows: Sequence[Row]) -> Iterator[ClaimFinding]:
    """Judge the largest changes."""
    rate = _changes(rows, "xmem_accesses_per_s")
    latency = _changes(rows, "xmem_latency_cycles")
    yield ClaimFinding("iat-4-thru", min(rate.values()), _listing(rate))
    yield ClaimFinding("iat-4-lat", max(latency.values()), _listing(latency))
