# SPDX-License-Identifier: Apache-2.0
"""Does a limit of memory bandwidth (MBA) slow a class down? A stream under falling limits.

If limits are in GB/s (AMD), the test also measures the rate of all given CPUs together. The rate of
a whole cache domain is the 100 % that the agent cannot know by itself.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from iat_nova.checks.qualify.api import (
    CLASS,
    Bench,
    Chart,
    Judgement,
    Test,
    Unavailable,
    Verdict,
)
from iat_nova.model import EIGHTHS, BandwidthControl, Message, message
from iat_nova.report import sentences

FELL = 0.20  # the lowest limit must cost at least this share of the unlimited stream
SAME = 0.05  # a smaller change is no difference


@dataclasses.dataclass(frozen=True, slots=True)
class TrafficRow:
    """Memory traffic of a CPU under a limit, or of several CPUs together without a limit.

    `limit`: in units of `CacheDomain.bandwidth`, percent or eighths of a GB/s. `every`: `cpus` is
    the number of CPUs in the cache domain.
    """

    limit: int
    percent: bool
    bytes_per_s: float
    cpus: int = 1
    every: bool = False

    def amount(self) -> Message:
        """Return the limit as a message, in percent or GB/s."""
        if self.percent:
            return message("limit-in-percent", limit_percent=self.limit)
        return message("limit-in-gbps", limit_gbps=self.limit / EIGHTHS)


def measure(bench: Bench, tell: Callable[[str], None]) -> Sequence[TrafficRow]:
    """Stream under falling limits. The first and last streams have no limit, to show drift."""
    control = bench.domain.bandwidth
    if control is None:
        raise Unavailable(message("no-limits-here"), message("use-cpu-with-mba"))
    rows = []
    with bench.in_class() as have:
        for limit in (control.most, *_falling(control), control.most):
            tell(f"limit {limit} of {control.most}")
            have(bench.ways[0], limit)
            kept = bench.allocator.bandwidth(bench.domain.id).get(CLASS)
            if kept != limit:
                raise Unavailable(
                    message("limit-not-kept", asked=limit, kept=kept),
                    message("remove-default-limit"),
                )
            rows.append(TrafficRow(limit, control.percent, bench.streams(bench.cpus[:1])))
        if not control.percent and len(bench.cpus) > 1:
            tell(f"all {len(bench.cpus)} CPUs at once, without a limit")
            moved = bench.streams(bench.cpus)
            every = set(bench.cpus) == set(bench.domain.cpus)
            rows.append(TrafficRow(control.most, False, moved, len(bench.cpus), every))
    return rows


def _falling(control: BandwidthControl) -> tuple[int, ...]:
    """Return two limits low enough for a single CPU; AMD's range is that of a whole socket."""
    if control.percent:
        half = control.most // 2 // control.step * control.step
        return tuple(sorted({max(half, control.least), control.least}, reverse=True))
    return tuple(max(eighths, control.least) for eighths in (EIGHTHS, EIGHTHS // 2))


def judge(rows: Sequence[TrafficRow]) -> Judgement:
    """Compare the lowest limit with no limit."""
    alone = _alone(rows)
    first, last = alone[0].bytes_per_s, alone[-1].bytes_per_s
    lowest = min(alone, key=lambda row: row.limit)
    free = min(first, last)
    fell = 1 - lowest.bytes_per_s / free if free else 0.0
    says = message(
        "stream-limited",
        free_bytes_per_s=free,
        limited_bytes_per_s=lowest.bytes_per_s,
        limit=lowest.amount(),
    )
    if not free or abs(first - last) > FELL * max(first, last):
        return _undecided(
            message("stream-drifts", measured=says, first_bytes_per_s=first, last_bytes_per_s=last)
        )
    if fell >= FELL:
        return Judgement(Verdict.PASS, says, _throttles(rows[len(alone) :]))
    if abs(fell) < SAME:
        return Judgement(
            Verdict.FAIL,
            message("stream-unchanged", measured=says),
            message("limits-without-effect"),
            message("send-report"),
        )
    return _undecided(message("stream-noise", measured=says))


def _undecided(says: Message) -> Judgement:
    return Judgement(
        Verdict.INCONCLUSIVE, says, message("limits-undecided"), message("repeat-while-idle")
    )


def _alone(rows: Sequence[TrafficRow]) -> Sequence[TrafficRow]:
    return [row for row in rows if row.cpus == 1]


def _throttles(together: Sequence[TrafficRow]) -> Message:
    """Return that limits work, and the joint traffic of several CPUs if measured."""
    if not together:
        return message("limits-throttle")
    row = together[-1]
    return message(
        "limits-throttle-whole" if row.every else "limits-throttle-part",
        cpus=row.cpus,
        gbps=row.bytes_per_s / 1e9,
    )


def chart(rows: Sequence[TrafficRow]) -> Chart:
    """Chart one CPU's stream, in bytes per second, by limit."""
    falling = sorted(_alone(rows)[:-1], key=lambda row: row.limit)
    return Chart(
        "Stream of one CPU",
        "limit",
        "bytes_per_s",
        [("stream", [(float(row.limit), row.bytes_per_s) for row in falling])],
        [(float(row.limit), sentences.text(row.amount())) for row in falling],
    )


TEST = Test("bandwidth", "Does a limit of memory bandwidth throttle?", 25, measure, judge, chart)
