# SPDX-License-Identifier: Apache-2.0
"""Find the least disturbing places for masks, given the present masks.

The line of ways is swept upwards, once. At each position the way stays idle, or a mask not yet
placed begins. Later costs depend on earlier choices only through the set of placed masks. Therefore
only the cheapest path to each position and set continues (as in the knapsack problem). Up to
`EXACT_GROUPS` masks, all sets are followed. Beyond, only the cheapest few sets at each position are
followed, and the result is not proven optimal.

Costs are compared in this order: ways shared with DDIO (if part of the search), masks that move,
ways new to their owner, and positions. Positions of the first mask count most, so no two solutions
cost the same. `_Weights` combines all costs in a single number.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

from iat_nova.strategies.layout.line import Line

EXACT_GROUPS = 8
"""Up to this many groups every search is exhaustive."""

_BEAM = 192  # sets followed per position, times masks

Spans = tuple[tuple[int, int], ...]
"""From and up to which position of the line each mask goes."""


@dataclasses.dataclass(frozen=True, slots=True)
class Item:
    """A mask to place.

    `ways`: number of ways. `held`: the present mask, 0 if none. `overlap`: the required number of
    ways shared with DDIO; None if the search minimises overlap or overlap does not matter.
    """

    ways: int
    held: int
    overlap: int | None


def at_rest(items: Sequence[Item], on: Line, ddio: int) -> bool:
    """Return whether every item may keep the present mask, which is then the best solution."""
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
    """Return the spans of least cost, and whether they are proven optimal; None if none was found.

    `weigh`: ways shared with `ddio` are part of the cost, the first item's first.
    """
    weights = _Weights.of(len(items))
    problem = _Problem.of(items, on, ddio, weights, weigh)
    exhaustive = len(items) <= EXACT_GROUPS
    beam = _BEAM // len(items)
    # With few moves most places are fixed, and the search is short.
    for moves in () if weigh else range(1, 4 if exhaustive else 3):
        cost, proven = _sweep(problem, moves * weights.move, None if exhaustive else beam)
        if cost is not None:
            return _decode(cost, items, on), proven
    cost, proven = _sweep(problem, weights.beyond, beam)
    if exhaustive and not proven:  # the beam's result bounds the exhaustive search
        better, proven = _sweep(problem, weights.beyond if cost is None else cost, None)
        cost = cost if better is None else better
    return None if cost is None else (_decode(cost, items, on), proven)


# ----------------------------------------------------------------------- costs of places

_POSITIONS = 1 << 5  # ways are numbered below 32: CAT's masks have 32 bits
_COUNTS = 1 << 6  # more than the number of ways, or of masks


@dataclasses.dataclass(frozen=True, slots=True)
class _Weights:
    """Cost per unit of each kind; each unit outweighs all lesser kinds together.

    `start`: a position upwards, by item. `new_way`: a way new to the owner. `move`: a moved mask.
    `shared`: a way shared with DDIO, by item. `beyond`: more than any solution costs.
    """

    start: tuple[int, ...]
    new_way: int
    move: int
    shared: tuple[int, ...]
    beyond: int

    @classmethod
    def of(cls, items: int) -> _Weights:
        """Return the weights for `items` items; the first item weighs most."""
        ranks = range(items - 1, -1, -1)
        new_way = _POSITIONS**items
        move = new_way * _COUNTS
        shared = tuple(move * _COUNTS * _COUNTS**rank for rank in ranks)
        start = tuple(_POSITIONS**rank for rank in ranks)
        return cls(start, new_way, move, shared, shared[0] * _COUNTS)


def _decode(cost: int, items: Sequence[Item], on: Line) -> Spans:
    """Return the positions of the items, which are the lowest digits of a cost."""
    spans = []
    for item in reversed(items):
        cost, start = divmod(cost, _POSITIONS)
        spans.append((start, on.end(start, item.ways)))
    return tuple(reversed(spans))


class _Place(NamedTuple):
    """An item at a position.

    `item`: the bit of the item in sets of items. `passed`: other items whose present masks start
    within this place. Such items have to move unless already placed.
    """

    item: int
    ways: int
    end: int
    passed: int
    cost: int


@dataclasses.dataclass(frozen=True, slots=True)
class _Problem:
    """The possible places of each item, with costs.

    `places`, `present`: by position, the places that begin there, and the items whose present masks
    begin there. `slack`: the number of ways that may stay idle.
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
            # If the item's present place lies below, the sweep counted the move in passing that
            # place.
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
    """Sweep the line upwards; return the least cost below `bound`, and whether no set was cut.

    `width`: number of sets followed at a position; None: all. The cost of a set includes a move for
    each unplaced item with its present place below the position.
    """
    everything, move = problem.everything, problem.move
    reached: list[dict[int, int]] = [{} for _ in range(len(problem.places) + 1)]
    reached[0][0] = 0
    ways = {0: 0}  # total ways of the items, by set
    best, complete = bound, True
    for position, places in enumerate(problem.places):
        here, idle = reached[position], reached[position + 1]
        if width is not None and len(here) > width:
            cheapest = sorted((cost, ways[placed], placed) for placed, cost in here.items())
            here = {placed: cost for cost, _, placed in cheapest[:width]}
            complete = False
        present = problem.present[position]
        needed = position + 1 - problem.slack  # ways in use here at least, or the rest does not fit
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
