# SPDX-License-Identifier: Apache-2.0
"""Do DDIO's ways change hits and misses? Devices write while DDIO has few and many ways in turn."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Callable, Mapping, Sequence

from iat_nova.checks.qualify.api import Bench, Chart, Judgement, Test, Unavailable, Verdict
from iat_nova.common import amounts
from iat_nova.hardware.api import DomainCounts
from iat_nova.hardware.ddio.effect import MOVED, STEADY, STILL
from iat_nova.model import CacheDomain, Message, WayMask, message

FEW, MANY = 2, 6  # the fewest that other publications call safe; the shipped policy's maximum
FITS = 4  # size of the test's buffers, in ways
ROUNDS = 3  # each with few and many ways, to tell an effect from drift
WARM_S, COUNT_S = 1.0, 3.0
LEAST_PER_S = 500_000.0  # lines; fewer prove nothing in a cache of 400,000 lines
HITTING = 0.10  # least share of misses with few ways, and of hits with many, for a judgement


@dataclasses.dataclass(frozen=True, slots=True)
class StretchRow:
    """A stretch: writes of devices to a cache domain with a given number of DDIO ways.

    `ways`: number read back from the register. `asked`: number written.
    """

    ways: int
    asked: int
    hits_per_s: float
    misses_per_s: float
    ours: bool  # buffers of known size; otherwise traffic of other programs

    @property
    def lines_per_s(self) -> float:
        """Lines per second that devices wrote."""
        return self.hits_per_s + self.misses_per_s

    @property
    def missed(self) -> float:
        """The share of lines that missed the cache, 0..1."""
        return self.misses_per_s / self.lines_per_s if self.lines_per_s else 0.0


def measure(bench: Bench, tell: Callable[[str], None]) -> Sequence[StretchRow]:
    """Count while DDIO's ways alternate, in the cache domain with most writes of devices."""
    if bench.ddio_refused is not None:
        raise Unavailable(message("ddio-not-movable", cause=bench.ddio_refused))
    if not any(domain.ddio_counters for domain in bench.domains):
        raise Unavailable(message("ddio-not-counted", cause=bench.ddio_counted))
    way_bytes = (bench.domain.way_bytes or 0) // bench.clusters
    bench.counters.watch(bench.cpus)
    with bench.inbound.flowing(bench.cpus[-1], FITS * way_bytes):
        tell("looking where devices write to")
        domain = busiest(bench)
        found = bench.ddio.read(domain.id)
        if not found:
            raise Unavailable(message("ddio-has-no-ways"))
        try:
            return [
                _row(bench, domain, ways, tell)
                for _ in range(ROUNDS)
                for ways in (FEW, min(MANY, domain.ways - 1))
            ]
        finally:
            bench.ddio.write(domain.id, found)


def busiest(bench: Bench) -> CacheDomain:
    """Return the cache domain with most writes of devices.

    Raises `Unavailable` if devices write fewer than `LEAST_PER_S` lines per second.
    """
    rates = counted(bench, COUNT_S)
    most = max(rates, key=lambda one: sum(rates[one]), default=None)
    if most is None or sum(rates[most]) < LEAST_PER_S:
        seen = sum(rates[most]) if most is not None else 0.0
        raise Unavailable(
            message("ddio-little-written", lines_per_s=seen, least_per_s=LEAST_PER_S),
            message("name-faster-disk" if bench.inbound.ours else "name-nvme-or-send-traffic"),
        )
    return next(domain for domain in bench.domains if domain.id == most)


def counted(bench: Bench, seconds: float) -> Mapping[int, tuple[float, float]]:
    """Return hits and misses per second by cache domain, counted over `seconds`."""
    before = bench.counters.read()
    bench.pause(seconds)
    after = bench.counters.read()
    span_s = after.taken_at_s - before.taken_at_s
    return {
        number: rates
        for number, now in after.domains.items()
        if number in before.domains
        and (rates := _rates(before.domains[number], now, span_s)) is not None
    }


def _rates(before: DomainCounts, now: DomainCounts, span_s: float) -> tuple[float, float] | None:
    if None in (before.ddio_hits, before.ddio_misses, now.ddio_hits, now.ddio_misses):
        return None
    assert before.ddio_hits is not None and now.ddio_hits is not None
    assert before.ddio_misses is not None and now.ddio_misses is not None
    return (
        (now.ddio_hits - before.ddio_hits) / span_s,
        (now.ddio_misses - before.ddio_misses) / span_s,
    )


def _row(bench: Bench, domain: CacheDomain, ways: int, tell: Callable[[str], None]) -> StretchRow:
    tell(f"DDIO has {amounts.ways(ways)}")
    now = bench.ddio.write(domain.id, WayMask.span(domain.ways - ways, ways))
    return stretch(bench, domain, now, ways)


def stretch(bench: Bench, domain: CacheDomain, now: WayMask, asked: int) -> StretchRow:
    """Count for a while, with the ways read back as `now`, of `asked` ones."""
    bench.pause(WARM_S)
    rates = counted(bench, COUNT_S).get(domain.id)
    if rates is None:
        raise Unavailable(message("ddio-counters-stopped"))
    return StretchRow(now.count, asked, *rates, ours=bench.inbound.ours)


def judge(rows: Sequence[StretchRow]) -> Judgement:
    """Compare stretches of few DDIO ways with stretches of many."""
    if any(row.ways != row.asked for row in rows):
        kept = next(row for row in rows if row.ways != row.asked)
        return Judgement(
            Verdict.FAIL,
            message("ddio-register-keeps", asked=kept.asked, ways=kept.ways),
            message("ddio-not-resizable"),
            message("leave-ddio-alone"),
        )
    return _by_effect(rows)


def _by_effect(rows: Sequence[StretchRow]) -> Judgement:
    few, many = min(row.ways for row in rows), max(row.ways for row in rows)
    at_few = [row.missed for row in rows if row.ways == few]
    at_many = [row.missed for row in rows if row.ways == many]
    gain = statistics.fmean(at_few) - statistics.fmean(at_many)
    says = message(
        "ddio-misses-by-ways",
        few=few,
        many=many,
        few_missed_share=statistics.fmean(at_few),
        many_missed_share=statistics.fmean(at_many),
    )
    lines = [row.lines_per_s for row in rows]
    if max(lines) > (1 + STEADY) * min(lines):
        return _undecided(
            message(
                "ddio-traffic-changed",
                measured=says,
                least_per_s=min(lines),
                most_per_s=max(lines),
            ),
            message("repeat-under-steady-traffic"),
        )
    if min(at_few) > max(at_many) and gain >= MOVED:
        return Judgement(Verdict.PASS, says, message("ddio-follows"))
    if statistics.fmean(at_few) < HITTING:
        return _undecided(
            message("ddio-buffers-fit", measured=says, few=few),
            message("use-faster-disk-or-traffic"),
        )
    if statistics.fmean(at_many) > 1 - HITTING:
        return _undecided(
            message("ddio-always-misses", measured=says),
            message("see-ddio-in-bios"),
        )
    if abs(gain) >= STILL:
        return _undecided(
            message("ddio-noise", measured=says), message("repeat-under-steadier-traffic")
        )
    return _without_effect(says, many, ours=all(row.ours for row in rows))


def _without_effect(says: Message, many: int, *, ours: bool) -> Judgement:
    """Judge misses that stay: buffers of unknown size may exceed what any ways hold."""
    if ours:
        return Judgement(
            Verdict.FAIL,
            message("ddio-changes-nothing", measured=says),
            message("ddio-without-effect"),
            message("leave-ddio-alone"),
        )
    return _undecided(
        message("ddio-buffers-unknown", measured=says, many=many), message("name-nvme-disk")
    )


def _undecided(says: Message, remedy: Message) -> Judgement:
    return Judgement(Verdict.INCONCLUSIVE, says, message("ddio-undecided"), remedy)


def chart(rows: Sequence[StretchRow]) -> Chart:
    """Chart the share of misses by stretch."""
    return Chart(
        "Share of devices' writes that miss",
        "ways of DDIO, one stretch after the other",
        "share",
        [("missed", [(float(number), row.missed) for number, row in enumerate(rows)])],
        [(float(number), f"{row.ways}") for number, row in enumerate(rows)],
    )


TEST = Test("ddio", "Do DDIO's ways change hits and misses?", 30, measure, judge, chart)
