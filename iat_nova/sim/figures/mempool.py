# SPDX-License-Identifier: Apache-2.0
"""The mempools' figure: by how much a stack reduces memory's bandwidth, and how it is judged."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

from iat_nova.sim.figures import summary
from iat_nova.sim.figures.api import Finding, Row


def reductions(rows: Sequence[Row]) -> Mapping[str, Mapping[int, float]]:
    """Return by how many percent the stack reduces the bandwidth, by run and instances."""
    runs = dict.fromkeys(str(row["run"]) for row in rows)
    found = {}
    for run in runs:
        mine = [row for row in rows if row["run"] == run]
        changes = summary.changes(mine, "instances", "pool", "memory_bytes_per_s", "stack", "ring")
        found[run] = {count: -percent for count, percent in changes.items()}
    return found


def reduction(rows: Sequence[Row], run: str) -> Mapping[str, Mapping[int, Sequence[float]]]:
    """Return one run's reductions to be drawn."""
    return {"measured": {count: [value] for count, value in reductions(rows)[run].items()}}


def judge(rows: Sequence[Row]) -> Iterator[Finding]:
    """Judge each reduction, and that it falls with every step."""
    found = reductions(rows)
    for run, values in found.items():
        for count, value in values.items():
            yield Finding(run, value, f"{value:.1f} %", f"{count} instances")
    falls = all(
        before > after
        for values in found.values()
        for before, after in itertools.pairwise(values.values())
    )
    listing = "; ".join(
        f"{run}: {', '.join(f'{value:.2f} %' for value in values.values())}"
        for run, values in found.items()
    )
    yield Finding("pool-order", falls, listing)
