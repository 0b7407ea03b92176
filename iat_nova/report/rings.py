# SPDX-License-Identifier: Apache-2.0
"""Whether lines that devices write leak to memory, by the counters of the last minute.

`report.advice` compares sizes alone. Buffers that are too large for DDIO's ways leak only under
load, and only counters of hits and misses show the leak. A smaller ring ends the leak, and
overflows earlier in a burst (ISCA 2021, section III and figure 3a).
"""

from __future__ import annotations

import dataclasses
import enum
import math
from collections.abc import Sequence

from iat_nova.common import amounts as figures
from iat_nova.model import CacheDomain, Facts, Parameters, Sample, WayMask
from iat_nova.report import escape, times
from iat_nova.report.advice import Advice, Assumed, DeviceRings, advise
from iat_nova.store.reader import HistoryReader

WINDOW_S = 60.0
MOST_SAMPLES = 120
# A sample with this many times the mean is high. Samples are means of a second, so that packets
# come still faster within a burst.
BURSTY = 1.5
# Ports drop a packet now and then for other reasons than a full ring.
FEW_DROPS_PER_S = 1.0
# On the wire: the shortest frame, its preamble and the gap to the next frame (IEEE 802.3).
SHORTEST_BITS = (64 + 20) * 8
OWNER_COLUMNS = 30


class Verdict(enum.StrEnum):
    """The advice on the rings' size."""

    FIT = "fit"
    NOT_COUNTED = "not-counted"
    FEW_MISSES = "few-misses"
    LEAK = "leak"
    LEAK_IN_BURSTS = "leak-in-bursts"
    LEAK_WITH_DROPS = "leak-with-drops"

    @property
    def leaks(self) -> bool:
        """Whether lines that devices write leak to memory."""
        return self in (Verdict.LEAK, Verdict.LEAK_IN_BURSTS, Verdict.LEAK_WITH_DROPS)

    @property
    def may_shrink(self) -> bool:
        """Whether smaller rings may help: no burst and no dropped packet needs their size."""
        return self in (Verdict.LEAK, Verdict.NOT_COUNTED)


@dataclasses.dataclass(frozen=True, slots=True)
class Finding:
    """The verdict on the rings of a cache domain, with its numbers.

    `over_s`: the time of the samples. `inbound_lines_per_s`, `missed_lines_per_s`: their means,
    None if not counted; lines of disks count as well. `peak_lines_per_s`: the most inbound lines of
    a sample. `drops_per_s`: packets that Open vSwitch drops, if ports with these rings drop any.
    `largest`: the ring with most bytes in circulation.
    """

    verdict: Verdict
    over_s: float
    inbound_lines_per_s: float | None
    missed_lines_per_s: float | None
    peak_lines_per_s: float | None
    drops_per_s: float | None
    largest: DeviceRings | None

    @property
    def missed(self) -> float | None:
        """The share of inbound lines that missed DDIO's ways, 0..1; None if not counted."""
        if self.inbound_lines_per_s is None or self.missed_lines_per_s is None:
            return None
        return self.missed_lines_per_s / max(self.inbound_lines_per_s, 1.0)


def read(reader: HistoryReader, domain: int) -> list[Sample]:
    """Return a domain's samples of the last `WINDOW_S` of its records, at least ten intervals."""
    latest = reader.latest(domain)
    if latest is None:
        return []
    end_s = latest.iteration.wall_s
    window_s = max(WINDOW_S, 10 * latest.iteration.sample.interval_s)
    found = reader.between(end_s - window_s, end_s, domain, at_most=MOST_SAMPLES)
    return [one.iteration.sample for one in found]


def of_domain(
    reader: HistoryReader, facts: Facts, domain: CacheDomain, ddio: WayMask, numbers: Parameters
) -> Finding | None:
    """Return whether rings leak from DDIO's ways in a domain; guests' rings are assumed.

    None if the size of a way is unknown.
    """
    found = advise(facts, domain, ddio.count, numbers.ddio_ways_max, Assumed())
    if found is None:
        return None
    samples = [] if found.fits else read(reader, domain.id)
    return find(found, samples, dropped_per_s(facts, found), numbers.threshold_miss_low_per_s)


def dropped_per_s(facts: Facts, advice: Advice) -> float | None:
    """Return the packets a second that Open vSwitch drops; None if no port with these rings drops.

    The rate is of all ports together; counts since the start show which ports drop.
    """
    switch = facts.switch
    if switch is None or switch.drops_per_s is None or switch.drops_per_s < FEW_DROPS_PER_S:
        return None
    ours = {one.device for one in advice.rings if not one.assumed}
    return (
        switch.drops_per_s if any(one.drops for one in switch.ports if one.name in ours) else None
    )


def find(
    advice: Advice, samples: Sequence[Sample], drops_per_s: float | None, few_per_s: float
) -> Finding:
    """Return the verdict on rings.

    `samples`: a domain's samples, oldest first (`read`). `few_per_s`: missing lines that do not
    count as a leak (`threshold_miss_low_per_s` of the policy).
    """
    inbound = _counted([(one.interval_s, one.inbound_lines_per_s) for one in samples])
    missed = _counted([(one.interval_s, one.ddio_misses_per_s) for one in samples])
    return Finding(
        _verdict(advice, inbound, missed, drops_per_s, few_per_s),
        sum(one.interval_s for one in samples),
        _mean(inbound),
        _mean(missed),
        max((rate for _, rate in inbound), default=None),
        drops_per_s,
        max(advice.rings, key=lambda one: one.footprint_bytes, default=None),
    )


def _counted(rates: Sequence[tuple[float, float | None]]) -> list[tuple[float, float]]:
    return [(interval_s, rate) for interval_s, rate in rates if rate is not None]


def _mean(rates: Sequence[tuple[float, float]]) -> float | None:
    passed_s = sum(interval_s for interval_s, _ in rates)
    return sum(interval_s * rate for interval_s, rate in rates) / passed_s if passed_s else None


def _verdict(
    advice: Advice,
    inbound: Sequence[tuple[float, float]],
    missed: Sequence[tuple[float, float]],
    drops_per_s: float | None,
    few_per_s: float,
) -> Verdict:
    if advice.fits:
        return Verdict.FIT
    if not missed:
        return Verdict.NOT_COUNTED
    if max(rate for _, rate in missed) < few_per_s:
        return Verdict.FEW_MISSES
    if drops_per_s:
        return Verdict.LEAK_WITH_DROPS
    return Verdict.LEAK_IN_BURSTS if _bursts([rate for _, rate in inbound]) else Verdict.LEAK


def _bursts(rates: Sequence[float]) -> bool:
    """Return whether a high sample has low samples before and after it.

    A load that begins, or ends, is not a burst.
    """
    mean = sum(rates) / len(rates) if rates else 0.0
    low = [place for place, rate in enumerate(rates) if rate < mean]
    high = [place for place, rate in enumerate(rates) if rate > BURSTY * mean]
    return bool(low) and any(low[0] < place < low[-1] for place in high)


def full_after_us(ring: DeviceRings, descriptors: int) -> float | None:
    """Return the µs in which a burst of the shortest frames fills queues that no CPU empties.

    None if the card's speed is unknown.
    """
    if not ring.speed_gbps:
        return None
    return ring.queues * descriptors * SHORTEST_BITS / (ring.speed_gbps * 1e3)


def told(found: Finding) -> str | None:
    """Return the verdict as sentences; None if the buffers fit."""
    if found.verdict is Verdict.FIT:
        return None
    if found.verdict is Verdict.NOT_COUNTED:
        return "Inbound misses are not counted here: a leak would not be seen."
    missed, inbound = found.missed_lines_per_s or 0.0, found.inbound_lines_per_s or 0.0
    counted = (
        f"Counted over {times.duration(found.over_s)}: {figures.rate(missed)} of "
        f"{figures.rate(inbound)} lines that devices write miss ({found.missed or 0.0:.0%})"
    )
    if found.verdict is Verdict.FEW_MISSES:
        return f"{counted}: no leak at this load. Leave the rings as they are."
    said = f"{counted}, lines of disks included. {_largest(found)}"
    if found.verdict is Verdict.LEAK_WITH_DROPS:
        return (
            f"{said} Open vSwitch drops {found.drops_per_s:.0f} packets a second, also at ports "
            "with these rings. Do not shrink the rings: a smaller ring drops more."
        )
    if found.verdict is Verdict.LEAK_IN_BURSTS:
        return (
            f"{said} The load comes in bursts of {figures.rate(found.peak_lines_per_s or 0.0)} "
            "lines. Do not shrink the rings: a burst would overflow a smaller ring."
        )
    return said


def short(found: Finding | None) -> str | None:
    """Return a line for status pages; None if nothing leaks."""
    return next((" ".join(one) for one in tiles(found)), None)


def tiles(found: Finding | None) -> list[tuple[str, str]]:
    """Return value and caption for the report; nothing if nothing leaks."""
    if found is None or not found.verdict.leaks:
        return []
    written = f"the lines that devices wrote in the last {times.duration(found.over_s)}"
    return [(f"{found.missed:.0%}", f"of {written} missed: see iat-nova advise")]


def _largest(found: Finding) -> str:
    ring = found.largest
    if ring is None:
        return ""
    owner = escape.middle(escape.plain(ring.owner), OWNER_COLUMNS)
    return f"The largest ring is that of {escape.plain(ring.device)} ({owner})."


def burst_words(rings: Sequence[DeviceRings], size: int) -> str:
    """Return the risk of smaller rings: how soon a burst of the shortest frames fills a ring."""
    times = [
        (now, after)
        for one in rings
        if one.descriptors > size
        and (now := full_after_us(one, one.descriptors)) is not None
        and (after := full_after_us(one, size)) is not None
    ]
    if not times or not math.isfinite(sum(times[0])):
        return "short bursts may then be dropped"
    now, after = min(times, key=lambda pair: pair[1])
    return (
        f"64-byte packets at line rate fill such a ring in {after:.1f} µs (now {now:.1f} µs) "
        "unless a CPU reads meanwhile"
    )
