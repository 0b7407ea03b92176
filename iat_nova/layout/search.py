# SPDX-License-Identifier: Apache-2.0
"""The least disturbing places for masks that lie somewhere already.

The line of ways is swept upwards, once. At each position the way there stays idle, or one of the
masks that are not placed yet begins. What was done before matters for what follows only by the set
of masks that are placed: of all ways to get to a position with that set, the cheapest goes on (as
in the knapsack problem). Up to `EXACT_GROUPS` masks all sets are followed; beyond, the cheapest
few at each position, and then nobody can say that nothing cheaper was cut.

Costs are compared in this order: ways shared with DDIO (where that is part of the search), masks
that move, ways that are new to their owner, and how high masks lie, the first one's first, so that
no two solutions cost the same. `_Weights` makes one number of them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

from iat_nova.layout.line import Line

EXACT_GROUPS = 8
"""Up to this many groups every search is exhaustive."""

_BEAM = 192  # sets followed a position, times masks

Spans = tuple[tuple[int, int], ...]
"""From and up to which position of the line each mask goes."""


@dataclasses.dataclass(frozen=True, slots=True)
class Item:
    """One mask to be placed. `held` is its present mask (0: none); `overlap` the number of ways
    it has to share with DDIO, None when that is part of the search or of no interest.
    """

    ways: int
    held: int
    overlap: int | None


def at_rest(items: Sequence[Item], on: Line, ddio: int) -> bool:
    """Tell whether every item may stay where it is: then nothing can be better."""
    taken = 0
    for item in items:
        held = item.held
        if not held or held & taken or not on.admits(held, item.ways):
            return False
        if item.overlap is not None and (held & ddio).bit_count() != item.overlap:
            return False
        taken |= held
    return True


def search(
    items: Sequence[Item], on: Line, ddio: int, *, weigh: bool = False
) -> tuple[Spans, bool] | None:
    """Find the spans of least cost and tell whether that is proven; None: none was found.

    `weigh`: the ways each item shares with `ddio` are part of the cost, the first item's first.
    """
    weights = _Weights.of(len(items))
    problem = _Problem.of(items, on, ddio, weights, weigh)
    exhaustive = len(items) <= EXACT_GROUPS
    beam = _BEAM // len(items)
    # With at most two moves most places are fixed, and the search is short.
    for moves in () if weigh else range(1, 4 if exhaustive else 3):
        cost, proven = _sweep(problem, moves * weights.move, None if exhaustive else beam)
        if cost is not None:
            return _decode(cost, items, on), proven
    cost, proven = _sweep(problem, weights.beyond, beam)
    if exhaustive and not proven:  # the beam's find bounds the exhaustive search
        better, proven = _sweep(problem, weights.beyond if cost is None else cost, None)
        cost = cost if better is None else better
    return None if cost is None else (_decode(cost, items, on), proven)


# ----------------------------------------------------------------------- what a place costs

_POSITIONS = 1 << 5  # ways are numbered below 32: CAT's masks have 32 bits
_COUNTS = 1 << 6  # more than there are ways, or masks


@dataclasses.dataclass(frozen=True, slots=True)
class _Weights:
    """What one of each kind costs: so much that all lesser kinds together cost less.

    `start`: a position higher, by item; `new_way`: a way that its owner did not have; `move`: a
    mask that moves; `shared`: a way shared with DDIO, by item; `beyond`: more than anything costs.
    """

    start: tuple[int, ...]
    new_way: int
    move: int
    shared: tuple[int, ...]
    beyond: int

    @classmethod
    def of(cls, items: int) -> _Weights:
        """Return the weights for so many items; the first weighs most."""
        ranks = range(items - 1, -1, -1)
        new_way = _POSITIONS**items
        move = new_way * _COUNTS
        shared = tuple(move * _COUNTS * _COUNTS**rank for rank in ranks)
        start = tuple(_POSITIONS**rank for rank in ranks)
        return cls(start, new_way, move, shared, shared[0] * _COUNTS)


def _decode(cost: int, items: Sequence[Item], on: Line) -> Spans:
    """Read the positions out of a cost, of which they are the least part."""
    spans = []
    for item in reversed(items):
        cost, start = divmod(cost, _POSITIONS)
        spans.append((start, on.end(start, item.ways)))
    return tuple(reversed(spans))


class _Place(NamedTuple):
    """An item put at some position.

    `item` is its bit in sets of items. `passed`: other items whose present masks start under this
    one; unless they are placed before, they have to move.
    """

    item: int
    ways: int
    end: int
    passed: int
    cost: int


@dataclasses.dataclass(frozen=True, slots=True)
class _Problem:
    """Where each item may lie, and what that costs.

    `places` and `present` are by position: what may begin there, and the items whose present
    masks do. `slack`: ways that may stay idle.
    """

    places: tuple[tuple[_Place, ...], ...]
    present: tuple[int, ...]
    everything: int
    slack: int
    move: int

    @classmethod
    def of(
        cls, items: Sequence[Item], on: Line, ddio: int, weights: _Weights, weigh: bool
    ) -> _Problem:
        """Try each item at each position."""
        present = [0] * on.length
        found = []
        for index, item in enumerate(items):
            for start in range(on.length):
                end = on.end(start, item.ways)
                mask = on.mask(start, end) if end else 0
                shared = (mask & ddio).bit_count()
                if not end or item.overlap not in (None, shared):
                    continue
                cost = start * weights.start[index]
                if item.held:
                    cost += (mask & ~item.held).bit_count() * weights.new_way
                if weigh:
                    cost += shared * weights.shared[index]
                if mask == item.held:
                    present[start] |= 1 << index
                found.append((index, start, end, cost))
        places: list[list[_Place]] = [[] for _ in range(on.length)]
        for index, start, end, cost in found:
            own, passed = 1 << index, 0
            for position in range(start, end):
                passed |= present[position]
            # Where its present place lies below, the move was counted when that was passed.
            moves_later = any(at & own for at in present[start + 1 :])
            move = weights.move if moves_later else 0
            places[start].append(_Place(own, items[index].ways, end, passed & ~own, cost + move))
        return cls(
            tuple(map(tuple, places)),
            tuple(present),
            (1 << len(items)) - 1,
            on.length - sum(item.ways for item in items),
            weights.move,
        )


# ----------------------------------------------------------------------- the sweep


def _sweep(problem: _Problem, bound: int, width: int | None) -> tuple[int | None, bool]:
    """Sweep the line upwards; return the least cost below `bound`, and whether nothing was cut.

    `width`: how many sets are followed at a position, None: all. A set's cost counts each item that
    is yet to be placed but whose present place is passed already.
    """
    everything, move = problem.everything, problem.move
    reached: list[dict[int, int]] = [{} for _ in range(len(problem.places) + 1)]
    reached[0][0] = 0
    ways = {0: 0}  # of the items of a set together
    best, complete = bound, True
    for position, places in enumerate(problem.places):
        here, idle = reached[position], reached[position + 1]
        if width is not None and len(here) > width:
            cheapest = sorted((cost, ways[placed], placed) for placed, cost in here.items())
            here = {placed: cost for cost, _, placed in cheapest[:width]}
            complete = False
        present = problem.present[position]
        needed = position + 1 - problem.slack  # ways in use by then, or the rest does not fit
        for placed, cost in here.items():
            if ways[placed] >= needed:
                total = cost + (present & ~placed).bit_count() * move
                if total < idle.get(placed, best):
                    idle[placed] = total
            for item, size, end, passed, own in places:
                if placed & item:
                    continue
                total = cost + own + (passed & ~placed).bit_count() * move
                if total >= best:
                    continue
                both = placed | item
                if both == everything:
                    best = total
                elif total < reached[end].get(both, best):
                    reached[end][both] = total
                    ways[both] = ways[placed] + size
    return (best if best < bound else None), complete
