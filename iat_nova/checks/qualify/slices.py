# SPDX-License-Identifier: Apache-2.0
"""Do the slices of the LLC agree? If so, one slice represents all, as in the paper."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import statistics
from collections.abc import Callable, Sequence

from iat_nova.checks.qualify.api import Bench, Chart, Judgement, Test, Unavailable, Verdict
from iat_nova.checks.qualify.ddio import COUNT_S, FITS
from iat_nova.model import message

AGREE = 0.10  # largest relative deviation of a slice from the mean
LEAST = 10_000  # lines per slice: smaller counts vary by more than 1 % at random


@dataclasses.dataclass(frozen=True, slots=True)
class SliceRow:
    """Count of a slice of a cache domain.

    `clusters`: number of NUMA nodes in the domain, each with a run of slices.
    """

    domain: int
    slice: int
    lines: int
    clusters: int


def measure(bench: Bench, tell: Callable[[str], None]) -> Sequence[SliceRow]:
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
        raise Unavailable(message("slices-not-read"))
    totals = {
        domain: [now - then for now, then in zip(found, before[domain], strict=True)]
        for domain, found in after.items()
        if domain in before
    }
    busiest = max(totals, key=lambda domain: sum(totals[domain]))
    return [
        SliceRow(busiest, number, lines, bench.clusters)
        for number, lines in enumerate(totals[busiest])
    ]


def judge(rows: Sequence[SliceRow]) -> Judgement:
    """Compare each slice with the mean of its cluster."""
    clusters, count = rows[0].clusters, len(rows)
    ends = [part * count // clusters for part in range(clusters + 1)]
    runs = [rows[begin:end] for begin, end in itertools.pairwise(ends)]
    means = [statistics.fmean(row.lines for row in run) for run in runs]
    busy = [(run, mean) for run, mean in zip(runs, means, strict=True) if mean >= LEAST]
    if not busy:
        return Judgement(
            Verdict.INCONCLUSIVE,
            message("slices-little-written", lines=max(means)),
            message("slices-undecided"),
            message("name-disk-or-send-traffic"),
        )
    off = {row.slice: row.lines / mean - 1 for run, mean in busy for row in run}
    worst = max(off, key=lambda number: abs(off[number]))
    says = message("slice-farthest", slices=count, slice=worst, change_share=off[worst])
    if abs(off[worst]) <= AGREE:
        return Judgement(Verdict.PASS, says, message("one-slice-stands"))
    return Judgement(Verdict.FAIL, says, message("one-slice-misleads"), message("count-all-slices"))


def chart(rows: Sequence[SliceRow]) -> Chart:
    """Chart the lines counted by each slice."""
    return Chart(
        "Lines that devices wrote",
        "slice of the LLC",
        "count",
        [("lines", [(float(row.slice), float(row.lines)) for row in rows])],
        [(float(row.slice), str(row.slice)) for row in rows[:: 1 + len(rows) // 24]],
    )


TEST = Test("slices", "Do the slices of the LLC agree?", 8, measure, judge, chart)
