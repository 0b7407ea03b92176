# SPDX-License-Identifier: Apache-2.0
"""Do the slices of the LLC agree? If so, one slice represents all, as in the paper."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import statistics
from collections.abc import Callable, Sequence

from iat_nova.qualify.api import Bench, Chart, Judgement, Test, Unavailable, Verdict
from iat_nova.qualify.ddio import COUNT_S, FITS

AGREE = 0.10  # largest relative deviation of a slice from the mean
LEAST = 10_000  # lines per slice: smaller counts vary by more than 1 % at random


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """Count of a slice of a cache domain.

    `clusters`: number of NUMA nodes in the domain, each with a run of slices.
    """

    domain: int
    slice: int
    lines: int
    clusters: int


def measure(bench: Bench, tell: Callable[[str], None]) -> Sequence[Row]:
    """Count writes of devices in each slice for `COUNT_S` seconds."""
    footprint = FITS * (bench.domain.way_bytes or 0) // bench.clusters
    with (
        contextlib.closing(bench.slices()) as slices,
        bench.inbound.flowing(bench.cpus[-1], footprint),
    ):
        tell("counting in every slice")
        before = slices.read()
        bench.pause(COUNT_S)
        after = slices.read()
    if not after:
        raise Unavailable("no slice could be read; another program may use their counters")
    totals = {
        domain: [now - then for now, then in zip(found, before[domain], strict=True)]
        for domain, found in after.items()
        if domain in before
    }
    busiest = max(totals, key=lambda domain: sum(totals[domain]))
    return [
        Row(busiest, number, lines, bench.clusters) for number, lines in enumerate(totals[busiest])
    ]


def judge(rows: Sequence[Row]) -> Judgement:
    """Compare each slice with the mean of its cluster."""
    clusters, count = rows[0].clusters, len(rows)
    ends = [part * count // clusters for part in range(clusters + 1)]
    runs = [rows[begin:end] for begin, end in itertools.pairwise(ends)]
    means = [statistics.fmean(row.lines for row in run) for run in runs]
    busy = [(run, mean) for run, mean in zip(runs, means, strict=True) if mean >= LEAST]
    if not busy:
        return Judgement(
            Verdict.INCONCLUSIVE,
            f"devices wrote {max(means):.0f} lines to a slice while it was watched: too few",
            "Whether one slice stands for all is not known yet.",
            "name a disk to read from (--disk), or send traffic to this host",
        )
    off = {row.slice: row.lines / mean - 1 for run, mean in busy for row in run}
    worst = max(off, key=lambda number: abs(off[number]))
    says = f"of {count} slices number {worst} is farthest from the mean: {off[worst]:+.1%}"
    if abs(off[worst]) <= AGREE:
        return Judgement(
            Verdict.PASS, says, "One slice stands for all: [iat] cha_slices = 1 will do."
        )
    return Judgement(
        Verdict.FAIL,
        says,
        "Hits and misses counted on one slice would be off by that much.",
        "[iat] cha_slices = 0, which counts all of them",
    )


def chart(rows: Sequence[Row]) -> Chart:
    """Return the lines counted by each slice."""
    return Chart(
        "Lines that devices wrote",
        "slice of the LLC",
        "count",
        [("lines", [(float(row.slice), float(row.lines)) for row in rows])],
        [(float(row.slice), str(row.slice)) for row in rows[:: 1 + len(rows) // 24]],
    )


TEST = Test("slices", "Do the slices of the LLC agree?", 8, measure, judge, chart)
