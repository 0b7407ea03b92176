# SPDX-License-Identifier: Apache-2.0
"""Whether packet buffers leak from DDIO's ways to memory, by the counters of the last minute.

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
from iat_nova.report import escape
from iat_nova.report.advice import Advice, Assumed, DeviceRings, advise
from iat_nova.store.reader import HistoryReader

WINDOW_S = 60.0
# A sample with this many times the mean is a burst. Samples are means of a second, so that packets
# come still faster within the burst.
BURSTY = 1.5
# On the wire: the shortest frame, its preamble and the gap to the next frame (IEEE 802.3).
SHORTEST_BITS = (64 + 20) * 8

_LEAKED = "of inbound lines leaked to memory in the last minute: see iat-nova advise"


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
        """Whether packets leak to memory."""
        return self.startswith("leak")

    @property
    def may_shrink(self) -> bool:
        """Whether smaller rings may help: no burst and no dropped packet needs their size."""
        return self not in (Verdict.LEAK_IN_BURSTS, Verdict.LEAK_WITH_DROPS)


@dataclasses.dataclass(frozen=True, slots=True)
class Finding:
    """The verdict on the rings of a cache domain, with its numbers.

    `inbound_lines_per_s`, `missed_lines_per_s`: means of the window, None if not counted.
    `peak_lines_per_s`: the most of one sample. `drops_per_s`: packets that Open vSwitch's ports
    drop. `largest`: the ring with most bytes in circulation.
    """

    verdict: Verdict
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
    """Return a domain's samples of the last `WINDOW_S` of its records."""
    latest = reader.latest(domain)
    if latest is None:
        return []
    end_s = latest.iteration.wall_s
    return [one.iteration.sample for one in reader.between(end_s - WINDOW_S, end_s, domain)]


def of_domain(
    reader: HistoryReader, facts: Facts, domain: CacheDomain, ddio: WayMask, numbers: Parameters
) -> Finding | None:
    """Return the verdict for a domain, with usual rings in guests; None without a way's size."""
    found = advise(facts, domain, ddio.count, numbers.ddio_ways_max, Assumed())
    if found is None:
        return None
    drops_per_s = facts.switch.drops_per_s if facts.switch is not None else None
    samples = [] if found.fits else read(reader, domain.id)
    return find(found, samples, drops_per_s, numbers.threshold_miss_low_per_s)


def find(
    advice: Advice, samples: Sequence[Sample], drops_per_s: float | None, few_per_s: float
) -> Finding:
    """Return the verdict on rings.

    `samples`: a domain's samples of the last `WINDOW_S`. `few_per_s`: missing lines that do not
    count as a leak (`threshold_miss_low_per_s` of the policy).
    """
    missed = [one.ddio_misses_per_s for one in samples if one.ddio_misses_per_s is not None]
    inbound = [rate for one in samples if (rate := one.inbound_lines_per_s) is not None]
    found = Finding(
        Verdict.FIT,
        sum(inbound) / len(inbound) if inbound else None,
        sum(missed) / len(missed) if missed else None,
        max(inbound, default=None),
        drops_per_s,
        max(advice.rings, key=lambda one: one.footprint_bytes, default=None),
    )
    return dataclasses.replace(found, verdict=_verdict(advice, found, few_per_s))


def _verdict(advice: Advice, found: Finding, few_per_s: float) -> Verdict:
    if advice.fits:
        return Verdict.FIT
    if found.missed_lines_per_s is None:
        return Verdict.NOT_COUNTED
    if found.missed_lines_per_s < few_per_s:
        return Verdict.FEW_MISSES
    if found.drops_per_s:
        return Verdict.LEAK_WITH_DROPS
    mean, peak = found.inbound_lines_per_s, found.peak_lines_per_s
    if mean is not None and peak is not None and peak > BURSTY * mean:
        return Verdict.LEAK_IN_BURSTS
    return Verdict.LEAK


def full_after_us(ring: DeviceRings, descriptors: int) -> float | None:
    """Return after how many µs a burst of the shortest frames fills queues that no CPU reads.

    None if the card's speed is unknown.
    """
    if not ring.speed_gbps:
        return None
    return ring.queues * descriptors * SHORTEST_BITS / (ring.speed_gbps * 1e3)


def told(found: Finding) -> str | None:
    """Return the verdict as a sentence; None if the buffers fit."""
    if found.verdict is Verdict.FIT:
        return None
    if found.verdict is Verdict.NOT_COUNTED:
        return "Inbound misses are not counted here: a leak would not be seen."
    counted = _counted(found)
    if found.verdict is Verdict.FEW_MISSES:
        return f"{counted}: no leak at this load. Leave the rings as they are."
    told = f"{counted}: packets leak to memory{_largest(found)}."
    if found.verdict is Verdict.LEAK_WITH_DROPS:
        return (
            f"{told} Open vSwitch's ports drop {found.drops_per_s:.0f} packets a second. Do not "
            "shrink the rings: a smaller ring drops more."
        )
    if found.verdict is Verdict.LEAK_IN_BURSTS:
        return (
            f"{told} The load comes in bursts of {figures.rate(found.peak_lines_per_s or 0.0)} "
            "lines. Do not shrink the rings: a burst would overflow a smaller ring."
        )
    return told


def short(found: Finding | None) -> str | None:
    """Return a line for status pages; None if no packets leak."""
    if found is None or not found.verdict.leaks:
        return None
    return f"{found.missed:.0%} {_LEAKED}"


def tiles(found: Finding | None) -> list[tuple[str, str]]:
    """Return value and caption for the report; nothing if no packets leak."""
    if found is None or not found.verdict.leaks:
        return []
    return [(f"{found.missed:.0%}", _LEAKED)]


def _counted(found: Finding) -> str:
    missed, inbound = found.missed_lines_per_s or 0.0, found.inbound_lines_per_s or 0.0
    share = found.missed or 0.0
    return f"Counted: {figures.rate(missed)} of {figures.rate(inbound)} lines miss ({share:.0%})"


def _largest(found: Finding) -> str:
    ring = found.largest
    if ring is None:
        return ""
    return f", most of all the ring of {escape.plain(ring.device)} ({escape.plain(ring.owner)})"


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
