# SPDX-License-Identifier: Apache-2.0
"""The mempools' figure: the memory bandwidth saved by a stack mempool, and the judgement."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterator, Mapping, Sequence

from iat_nova.experiments.papers import summary
from iat_nova.experiments.papers.api import NOT_MEASURED, ClaimFinding, Row


def reductions(
    rows: Sequence[Row], column: str = "memory_bytes_per_s"
) -> Mapping[str, Mapping[int, float]]:
    """Return the memory bandwidth that a stack saves against a ring, in percent.

    Both are kinds of mempools. The result is by run and number of instances.
    """
    runs = dict.fromkeys(str(row["run"]) for row in rows)
    found = {}
    for run in runs:
        mine = [row for row in rows if row["run"] == run]
        changes = summary.changes(mine, "instances", "pool", column, "stack", "ring")
        found[run] = {count: -percent for count, percent in changes.items()}
    return found


def reduction(rows: Sequence[Row], run: str) -> Mapping[str, Mapping[int, Sequence[float]]]:
    """Return one run's reductions for the chart."""
    return {"measured": {count: [value] for count, value in reductions(rows)[run].items()}}


def judge(rows: Sequence[Row]) -> Iterator[ClaimFinding]:
    """Judge each reduction, the means, the reductions of reads and writes, and the order."""
    found = reductions(rows)
    for run, values in found.items():
        for count, value in values.items():
            yield ClaimFinding(run, value, f"{value:.1f} %", f"{count} instances")
    means = {run: statistics.fmean(values.values()) for run, values in found.items()}
    for run, mean in means.items():
        yield ClaimFinding("pool-means", mean, f"{mean:.1f} %", run)
    yield ClaimFinding("pool-mean", statistics.fmean(means.values()), "the mean of the four means")
    writes, reads = (
        {run: by_count[count] for run, by_count in reductions(rows, column).items()}
        for column, count in (("memory_write_bytes_per_s", 1), ("memory_read_bytes_per_s", 12))
    )
    yield ClaimFinding("pool-writes", max(writes.values()), _percents(writes))
    yield ClaimFinding("pool-reads", min(reads.values()), _percents(reads))
    falls = all(
        before > after
        for values in found.values()
        for before, after in itertools.pairwise(values.values())
    )
    listing = "; ".join(
        f"{run}: {', '.join(f'{value:.2f} %' for value in values.values())}"
        for run, values in found.items()
    )
    yield ClaimFinding("pool-order", falls, listing)
    yield ClaimFinding("pool-lossless", None, NOT_MEASURED)


def _percents(by_run: Mapping[str, float]) -> str:
    return ", ".join(f"{run} {percent:.1f} %" for run, percent in by_run.items())
