# SPDX-License-Identifier: Apache-2.0
"""How long does a write take? Masks and DDIO's ways, written repeatedly."""

from __future__ import annotations

import dataclasses
import functools
import statistics
from collections.abc import Callable, Sequence

from iat_nova.checks.qualify.api import Bench, Chart, Judgement, Test, Verdict
from iat_nova.model import message

WRITES = 20
QUICK_S = 0.010  # a hundredth of the loop's interval
SLOW_S = 0.100  # a tenth of the interval: ten classes then take all of the interval


@dataclasses.dataclass(frozen=True, slots=True)
class WriteRow:
    """The duration of one write with its read-back.

    `what`: ``mask`` for the mask of a class of service, ``DDIO`` for DDIO's ways.
    """

    what: str
    seconds: float


def measure(bench: Bench, tell: Callable[[str], None]) -> Sequence[WriteRow]:
    """Time the writes. DDIO's present ways are written again, if writable."""
    rows = []
    tell("masks")
    with bench.in_class() as have:
        have(bench.ways[0])  # creates the class
        for number in range(1, WRITES + 1):
            write = functools.partial(have, bench.ways[-(number % 2)])
            rows.append(WriteRow("mask", _timed(bench, write)))
    found = bench.ddio.read(bench.domain.id) if bench.ddio_refused is None else None
    if found:
        tell("DDIO's ways")
        for _ in range(WRITES):
            write_ddio = functools.partial(bench.ddio.write, bench.domain.id, found)
            rows.append(WriteRow("DDIO", _timed(bench, write_ddio)))
    return rows


def _timed(bench: Bench, action: Callable[[], object]) -> float:
    begin_s = bench.clock.now()
    action()
    return bench.clock.now() - begin_s


def judge(rows: Sequence[WriteRow]) -> Judgement:
    """Compare the median times with the second available to an iteration.

    The slowest write is reported, but not judged.
    """
    medians = {
        what: statistics.median(row.seconds for row in rows if row.what == what)
        for what in dict.fromkeys(row.what for row in rows)
    }
    slowest_s = max(row.seconds for row in rows)
    each = tuple(
        message("write-median", what=what, median_ms=median * 1e3)
        for what, median in medians.items()
    )
    says = message("write-times", medians=each, slowest_ms=slowest_s * 1e3)
    if max(medians.values()) > SLOW_S:
        return Judgement(
            Verdict.FAIL,
            says,
            message("writes-too-slow"),
            message("see-what-holds-cpus"),
        )
    if max(medians.values()) > QUICK_S:
        return Judgement(
            Verdict.INCONCLUSIVE,
            says,
            message("writes-slow"),
            message("repeat-while-idle"),
        )
    return Judgement(Verdict.PASS, says, message("writes-quick"))


def chart(rows: Sequence[WriteRow]) -> Chart:
    """Chart the seconds of each write."""
    kinds = dict.fromkeys(row.what for row in rows)
    series = {what: [row.seconds for row in rows if row.what == what] for what in kinds}
    return Chart(
        "Time of a write",
        "number of the write",
        "seconds",
        [(what, list(enumerate(times, start=1))) for what, times in series.items()],
        [(float(number), str(number)) for number in (1, 5, 10, 15, 20)],
    )


TEST = Test("write-time", "How long does a write take?", 2, measure, judge, chart)
