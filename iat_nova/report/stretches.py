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
BUSY = frozenset({"ddio-busy", "ddio-busy-unread", "ddio-high-unchanged"})
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
    bounds_s: Sequence[float],
    gaps: Sequence[tuple[float, float]],
    inventories: Mapping[int, DomainInventory],
) -> list[Stretch]:
    """Return a domain's stretches, oldest first.

    `bounds_s`: the begin of the period, its decisions, and its end.
    """
    stretches = [
        stretch
        for since_s, until_s in itertools.pairwise(bounds_s)
        for begin_s, end_s in without(since_s, until_s, gaps)
        if end_s - begin_s >= LEAST_S
        for stretch in _quiet(reader, domain, begin_s, end_s, inventories)
    ]
    stretches += [_gap(reader, domain, *gap) for gap in gaps]
    return sorted(stretches[-MOST:], key=lambda stretch: stretch.begin_s)


def without(
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
    inventories: Mapping[int, DomainInventory],
) -> Iterator[Stretch]:
    """Yield a stretch with its most frequent reasons, and why the search at its begin ended.

    A period without a reason yields nothing.
    """
    examples: dict[tuple[str, ...], list[Recorded]] = collections.defaultdict(list)
    for recorded in reader.between(begin_s, end_s, domain, at_most=SAMPLES):
        codes = tuple(reason.code for reason in recorded.iteration.decision.reasons)
        if codes and not recorded.iteration.eventful:
            examples[codes].append(recorded)
    if not examples:
        return
    frequent = sorted(examples, key=lambda codes: -len(examples[codes]))[:REASONS]
    total, texts = sum(map(len, examples.values())), []
    for codes in frequent:
        *_, latest = same = examples[codes]
        share = "" if len(examples) == 1 else f" ({len(same) / total:.0%} of the time)"
        when = times.utc(latest.iteration.wall_s, "%H:%M:%S UTC")
        inventory = inventories.get(latest.iteration.inventory_id)
        texts.append(f"{when}: {moments.reasons(latest, inventory)}{share}")
    search = moments.search_end(reader, domain, begin_s, min(end_s, begin_s + LEAST_S))
    if search is not None and not any(moments.SEARCH_ENDED in codes for codes in frequent):
        inventory = inventories.get(search.iteration.inventory_id)
        texts.append(moments.since_search(search, inventory))
    busy = not BUSY.isdisjoint(itertools.chain.from_iterable(examples))
    yield Stretch(begin_s, end_s, "; ".join(texts), busy, decided=True)


def _gap(reader: HistoryReader, domain: int, begin_s: float, end_s: float) -> Stretch:
    """Return a gap between two recorded iterations, with its cause."""
    moment = moments.at(reader, (begin_s + end_s) / 2, domain, NOBODY, exact=True)
    text = moments.cause(moment) if moment is not None else ""
    return Stretch(begin_s, end_s, text or "no iteration is recorded", busy=False, decided=False)
