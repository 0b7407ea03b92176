# SPDX-License-Identifier: Apache-2.0
"""Stretches of time without a decision: why nothing was done, or that no agent ran."""

from __future__ import annotations

import collections
import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence

from iat_nova.model import DomainInventory
from iat_nova.report import moments, times
from iat_nova.report.view import NOBODY
from iat_nova.store.reader import HistoryReader, Recorded

LEAST_S = 10.0  # a shorter stretch is not listed
MOST = 200  # stretches of a domain
SAMPLES = 40  # iterations of a stretch whose reasons are read
REASONS = 2  # the most frequent reasons of a stretch
BUSY = ("ddio-busy", "ddio-busy-unread", "ddio-high-unchanged")
"""Codes of reasons: DDIO misses were above the threshold, and nothing was done."""


@dataclasses.dataclass(frozen=True, slots=True)
class Stretch:
    """A period (wall clock) without a decision. `busy`: DDIO misses were high in some iteration.

    `decided`: an agent decided to do nothing; else `text` says why there are no iterations.
    """

    begin_s: float
    end_s: float
    text: str
    busy: bool
    decided: bool


def quiet(
    reader: HistoryReader,
    domain: int,
    turns: Sequence[Recorded],
    gaps: Sequence[tuple[float, float]],
    known: Mapping[int, DomainInventory],
    period_s: tuple[float, float],
) -> list[Stretch]:
    """Return a domain's stretches of a period, oldest first. `turns`: all its decisions."""
    bounds_s = (period_s[0], *(one.iteration.wall_s for one in turns), period_s[1])
    found: list[Stretch] = []
    for since_s, until_s in itertools.pairwise(bounds_s):
        for begin_s, stop_s in _without(since_s, until_s, gaps):
            if stop_s - begin_s >= LEAST_S:
                found += _quiet(reader, domain, begin_s, stop_s, known)
    found += [_gap(reader, domain, *gap) for gap in gaps]
    return sorted(found[-MOST:], key=lambda one: one.begin_s)


def _without(
    begin_s: float, end_s: float, gaps: Sequence[tuple[float, float]]
) -> Iterator[tuple[float, float]]:
    """Yield the parts of a period outside the gaps."""
    for gap_begin_s, gap_end_s in gaps:
        if begin_s <= gap_begin_s and gap_end_s <= end_s:
            yield begin_s, gap_begin_s
            begin_s = gap_end_s
    yield begin_s, end_s


def _quiet(
    reader: HistoryReader,
    domain: int,
    begin_s: float,
    end_s: float,
    known: Mapping[int, DomainInventory],
) -> Iterator[Stretch]:
    """Yield a stretch with its most frequent reasons, and why the search at its begin ended.

    A period without a reason yields nothing.
    """
    counts: collections.Counter[tuple[str, ...]] = collections.Counter()
    latest: dict[tuple[str, ...], Recorded] = {}
    for recorded in reader.between(begin_s, end_s, domain, at_most=SAMPLES):
        decision = recorded.iteration.decision
        codes = tuple(one.code for one in decision.reasons)
        if codes and not recorded.iteration.eventful:
            counts[codes] += 1
            latest[codes] = recorded
    if not counts:
        return
    texts = []
    told: set[str] = set()
    for codes, count in counts.most_common(REASONS):
        told.update(codes)
        example = latest[codes]
        share = "" if len(counts) == 1 else f" ({count / counts.total():.0%} of the time)"
        when = times.utc(example.iteration.wall_s, "%H:%M:%S UTC")
        inventory = known.get(example.iteration.inventory_id)
        texts.append(f"{when}: {moments.reasons(example, inventory)}{share}")
    search = moments.search_end(reader, domain, begin_s, min(end_s, begin_s + LEAST_S))
    if search is not None and moments.SEARCH_ENDED not in told:
        inventory = known.get(search.iteration.inventory_id)
        texts.append(moments.since_search(search, inventory))
    busy = any(code in BUSY for code in itertools.chain.from_iterable(counts))
    yield Stretch(begin_s, end_s, "; ".join(texts), busy, decided=True)


def _gap(reader: HistoryReader, domain: int, begin_s: float, end_s: float) -> Stretch:
    """Return a gap between two recorded iterations, with its cause."""
    moment = moments.at(reader, (begin_s + end_s) / 2, domain, NOBODY, exact=True)
    text = moments.cause(moment) if moment is not None else ""
    return Stretch(begin_s, end_s, text or "no iteration is recorded", busy=False, decided=False)


def tile(quiet: Sequence[Stretch], begin_s: float, end_s: float) -> tuple[str, str]:
    """Return the share of a period in stretches without a decision, and a caption."""
    quiet_s = sum(one.end_s - one.begin_s for one in quiet if one.decided)
    share = quiet_s / (end_s - begin_s) if end_s > begin_s else 0.0
    return f"{share:.0%}", f"of the time nothing was done for {LEAST_S:.0f} s or longer"
