# SPDX-License-Identifier: Apache-2.0
"""The best static partition of a host: all counts, all orders, 2 to 6 DDIO ways.

The search is exhaustive with a bound. A partition without ways shared with DDIO bounds the utility
of its counts. Counts are tried from the best bound downwards until no bound exceeds the best
result.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Sequence

from iat_nova.experiments.plant.formula_host import FormulaHost, Masks

DDIO_WAYS = range(2, 7)


@dataclasses.dataclass(frozen=True, slots=True)
class BestMasks:
    """The best masks and their utility."""

    masks: Masks
    utility: float


def best_static(host: FormulaHost) -> BestMasks:
    """Return the best partition; among equals the first found, with the fewest DDIO ways first."""
    best = BestMasks((0, ()), -1.0)
    for bound, negative, counts in sorted(_bounds(host), key=lambda one: (-one[0], -one[1])):
        if bound <= best.utility:
            break
        for masks in layouts(host.ways, counts, -negative):
            outcome = host.with_masks(masks)
            if outcome.utility > best.utility:
                best = BestMasks(masks, outcome.utility)
    return best


def _bounds(host: FormulaHost) -> Iterator[tuple[float, int, tuple[int, ...]]]:
    """Yield the utility without shared ways, DDIO's ways (negated), and the counts."""
    numbers = range(len(host.tenants))
    for ddio in DDIO_WAYS:
        missed = host.inbound.misses(ddio)
        worth = [
            [
                host.worth(n, host.loads[n].instructions_per_s(w, missed))
                for w in range(host.ways + 1)
            ]
            for n in numbers
        ]
        for counts in _compositions(len(numbers), host.ways):
            yield sum(worth[n][counts[n]] for n in numbers), -ddio, counts


def _compositions(parts: int, total: int) -> Iterator[tuple[int, ...]]:
    """Yield each way to give `parts` tenants one way or more each, at most `total` together."""
    for cuts in itertools.combinations(range(1, total + 1), parts):
        yield tuple(b - a for a, b in itertools.pairwise((0, *cuts)))


def layouts(ways: int, counts: Sequence[int], ddio: int) -> Iterator[Masks]:
    """Yield the masks for `counts`, from the lowest way upwards, in every order that matters.

    The order of tenants entirely below DDIO's ways does not matter, so only a single order is
    tried.
    """
    clean = ways - ddio
    device = ((1 << ddio) - 1) << clean
    for top in _tops(counts, sum(counts) - clean):
        below = [number for number in range(len(counts)) if number not in top]
        masks = [0] * len(counts)
        at = 0
        for number in (*below, *top):
            masks[number] = ((1 << counts[number]) - 1) << at
            at += counts[number]
        yield device, tuple(masks)


def _tops(
    counts: Sequence[int], shared: int, top: tuple[int, ...] = ()
) -> Iterator[tuple[int, ...]]:
    """Yield the tenants that may lie highest, from below.

    Together their ways reach down to DDIO's ways.
    """
    if sum(counts[number] for number in top) >= shared:
        yield top
        return
    for number in range(len(counts)):
        if number not in top:
            yield from _tops(counts, shared, (number, *top))
