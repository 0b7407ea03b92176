# SPDX-License-Identifier: Apache-2.0
"""Does a mask limit misses? A walk over growing arrays, in classes of few and of many ways.

An array larger than its class's ways keeps missing. A smaller array does not. Random order and a
single access at a time defeat the prefetchers.
"""

from __future__ import annotations

import dataclasses
import itertools
import statistics
from collections.abc import Callable, Sequence

from iat_nova.checks.qualify.api import Bench, Chart, Judgement, Test, Unavailable, Verdict
from iat_nova.common import amounts
from iat_nova.hardware.api import CoreCounts
from iat_nova.model import Message, message

ACCESSES = 4_000_000  # of a row: 0.1 s out of the cache, 0.5 s out of memory
SIZES = (0.5, 1, 2, 3, 4, 6, 8, 12, 16)  # of arrays, in ways
_SETTLED = 2  # counted walks; the row has their median

CLEAR = 0.30  # additional share of misses with few ways, if many suffice
SAME = 0.05  # a smaller change is no difference
QUIET = 0.25  # most misses in a half-empty class, unless other programs evict lines


@dataclasses.dataclass(frozen=True, slots=True)
class WalkRow:
    """A walk: an array of `bytes` bytes, equal to `in_ways` ways, in a class of `ways` ways."""

    ways: int
    in_ways: float
    bytes: int
    misses: float  # per access
    ns: float  # per access


def measure(bench: Bench, tell: Callable[[str], None]) -> Sequence[WalkRow]:
    """Count misses of walks in each class, over arrays up to one and a half times the largest."""
    if not bench.domain.way_bytes:
        raise Unavailable(message("llc-size-unknown"))
    way_bytes = bench.domain.way_bytes // bench.clusters
    cpu, ways = bench.cpus[0], bench.ways
    if len(ways) < 2:
        raise Unavailable(message("too-few-ways-free"))
    sizes = [size for size in SIZES if size <= 1.5 * ways[-1]]
    bench.counters.watch(bench.cpus)
    rows = []
    with bench.in_class() as have:
        for size in sizes:
            count = int(size * way_bytes) // 64 * 64
            tell(f"an array of {amounts.size(count)}")
            walk = bench.walker(cpu, count, ACCESSES)
            for number in ways:
                have(number)
                walk()  # moves the lines into the ways of the class
                walks = [_counted(bench, cpu, walk) for _ in range(_SETTLED)]
                misses, seconds = (statistics.median(part) for part in zip(*walks, strict=True))
                rows.append(
                    WalkRow(number, size, count, misses / ACCESSES, seconds / ACCESSES * 1e9)
                )
    return rows


def _counted(bench: Bench, cpu: int, walk: Callable[[], float]) -> tuple[float, float]:
    before = _core(bench, cpu)
    seconds = walk()
    return _core(bench, cpu).misses - before.misses, seconds


def _core(bench: Bench, cpu: int) -> CoreCounts:
    counts = bench.counters.read().cores.get(cpu)
    if counts is None:
        raise Unavailable(message("core-not-counted", cpu=cpu))
    return counts


def judge(rows: Sequence[WalkRow]) -> Judgement:
    """Compare the smallest class with the largest, over arrays that fit in the largest alone."""
    few, many = min(row.ways for row in rows), max(row.ways for row in rows)
    at = {(row.ways, row.in_ways): row for row in rows}
    noise = max(row.misses for row in rows if row.in_ways <= row.ways / 2)
    # Well above the small class and well below the large class: lines of neighbours need room, too.
    apart = [row for row in rows if row.ways == many and 1.5 * few <= row.in_ways <= 0.75 * many]
    gains = [at[few, row.in_ways].misses - row.misses for row in apart]
    if not gains:
        return Judgement(
            Verdict.INCONCLUSIVE,
            message("mask-no-array-between", few=few, many=many),
            message("masks-untestable"),
        )
    gain = statistics.median(gains)
    says = message(
        "mask-misses",
        few=few,
        many=many,
        few_missed_share=statistics.median(at[few, row.in_ways].misses for row in apart),
        many_missed_share=statistics.median(row.misses for row in apart),
    )
    if abs(gain) < SAME:
        if min(row.misses for row in apart) > QUIET:
            return _disturbed(says)
        return Judgement(
            Verdict.FAIL,
            message("mask-changes-nothing", measured=says),
            message("masks-without-effect"),
            message("see-bios-and-report"),
        )
    if noise > QUIET:
        return _disturbed(message("mask-noise", measured=says, missed_share=noise))
    if gain < CLEAR or not _ordered(rows):
        return _disturbed(says)
    return Judgement(Verdict.PASS, says, message("masks-isolate"))


def _ordered(rows: Sequence[WalkRow]) -> bool:
    """Return whether more ways never miss clearly more."""
    by_size: dict[float, list[WalkRow]] = {}
    for row in sorted(rows, key=lambda row: row.ways):
        by_size.setdefault(row.in_ways, []).append(row)
    return all(
        more.misses <= less.misses + QUIET
        for same in by_size.values()
        for less, more in itertools.pairwise(same)
    )


def _disturbed(says: Message) -> Judgement:
    return Judgement(
        Verdict.INCONCLUSIVE, says, message("masks-disturbed"), message("repeat-on-idle-cpus")
    )


def chart(rows: Sequence[WalkRow]) -> Chart:
    """Chart misses per access by array size, a curve per class."""
    return Chart(
        "LLC misses an access",
        "size of the array in ways of the LLC",
        "share",
        [
            (f"{ways} ways", [(row.in_ways, row.misses) for row in rows if row.ways == ways])
            for ways in sorted({row.ways for row in rows})
        ],
        [(size, f"{size:g}") for size in sorted({row.in_ways for row in rows})],
    )


TEST = Test("mask", "Does a mask limit misses?", 60, measure, judge, chart)
