# SPDX-License-Identifier: Apache-2.0
"""From partitions to places on the line of ways: the exact search.

`Line` is what the masks may cover: ways in ascending order, with coerced ways as one unit (a mask
has all of them or none) and breaks where reserved ways lie in between. `pack` finds the least
overlap with DDIO in closed form; `search` finds, among the places with that overlap, those with
the fewest moved masks and then the fewest ways that are new to their owner.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import NamedTuple

EXACT_GROUPS = 8
"""Up to this many groups every search is exhaustive."""

_BEAM = 192  # states kept a position, times groups
_WAY_BITS = 5  # ways are numbered below 32: CAT's masks have 32 bits
_COUNT_BITS = 6  # a number of ways or of masks


@dataclasses.dataclass(frozen=True, slots=True)
class Line:
    """The ways open to masks, numbered 0.. from the lowest.

    `prefix[i]` is the mask of the first i ways. The unit of coerced ways lies at
    `unit_low`..`unit_high` (exclusive); both equal the length when there is none. `breaks` are
    the positions that a mask may not run across.
    """

    prefix: tuple[int, ...]
    unit_low: int
    unit_high: int
    breaks: tuple[int, ...]

    @property
    def length(self) -> int:
        """The number of ways."""
        return len(self.prefix) - 1

    @property
    def units(self) -> int:
        """The number of masks that could lie here side by side."""
        return self.length - max(0, self.unit_high - self.unit_low - 1)

    @property
    def regular(self) -> bool:
        """Whether `pack` applies: no breaks, and coerced ways, if any, at the top."""
        return not self.breaks and self.unit_high == self.length

    def mask(self, start: int, end: int) -> int:
        """Return the mask of the ways from `start` up to, not including, `end`."""
        return self.prefix[end] ^ self.prefix[start]

    def end(self, start: int, ways: int) -> int:
        """Return where a mask of `ways` ways from `start` ends; 0 when it cannot lie there.

        A mask too small for the unit takes all of it, and so has more ways than asked for.
        """
        end = start + ways
        if self.unit_low < end < self.unit_high:
            if start != self.unit_low:
                return 0
            end = self.unit_high
        if end >= len(self.prefix) or self.unit_low < start < self.unit_high:
            return 0
        for position in self.breaks:
            if start < position < end:
                return 0
        return end

    def admits(self, mask: int, ways: int) -> bool:
        """Tell whether `mask` is a place for `ways` ways."""
        low = mask & -mask
        start = (self.prefix[-1] & (low - 1)).bit_count()
        end = self.end(start, ways)
        return end > 0 and self.prefix[end] ^ self.prefix[start] == mask


@functools.lru_cache(maxsize=64)
def line(open_ways: int, coerced: int, broken: bool) -> Line:
    """Return the line of `open_ways`; not `broken`: masks may run across gaps (sparse masks)."""
    ways = [way for way in range(open_ways.bit_length()) if open_ways >> way & 1]
    prefix = [0]
    for way in ways:
        prefix.append(prefix[-1] | 1 << way)
    unit = [position for position, way in enumerate(ways) if coerced >> way & 1]
    breaks = tuple(i for i in range(1, len(ways)) if broken and ways[i] != ways[i - 1] + 1)
    low, high = (unit[0], unit[-1] + 1) if len(unit) > 1 else (len(ways), len(ways))
    return Line(tuple(prefix), low, high, breaks)


@dataclasses.dataclass(frozen=True, slots=True)
class Packing:
    """A layout without regard to the present one: spans of positions, in the order given.

    `overlaps` are the ways each shares with DDIO: lexicographically the least there is.
    """

    spans: tuple[tuple[int, int], ...]
    overlaps: tuple[int, ...]


def pack(sizes: Sequence[int], on: Line, clean: int) -> Packing | None:
    """Place masks so that those early in `sizes` overlap DDIO least.

    `clean`: DDIO's ways start at this position. None: the masks do not fit, or the line is not
    regular. Filling from below in the given order is optimal: the first k masks hold the clean
    ways as fully as k masks can, so the next one's overlap cannot be less. With a coerced unit at
    the top, one mask owns it or none does, and below it the same holds: try each owner.
    """
    if not on.regular:
        return None
    length, unit = on.length, on.unit_high - on.unit_low
    total = sum(sizes)
    best = None
    if total <= on.unit_low:
        best = _fill(sizes, clean, None, length, length)
        if not unit or not any(best.overlaps):
            return best
    for owner in range(len(sizes) - 1, -1, -1) if unit else ():
        start = length - max(unit, sizes[owner])
        if total - sizes[owner] <= start:
            found = _fill(sizes, clean, owner, start, length)
            if best is None or found.overlaps < best.overlaps:
                best = found
    return best


def _fill(sizes: Sequence[int], clean: int, owner: int | None, start: int, end: int) -> Packing:
    spans, overlaps = [], []
    at = 0
    for index, size in enumerate(sizes):
        span = (start, end) if index == owner else (at, at + size)
        if index != owner:
            at += size
        spans.append(span)
        overlaps.append(span[1] - max(span[0], clean) if span[1] > clean else 0)
    return Packing(tuple(spans), tuple(overlaps))


@dataclasses.dataclass(frozen=True, slots=True)
class Item:
    """One mask to be placed. `held` is its present mask (0: none); `overlap` the number of ways
    it has to share with DDIO, None when that is part of the search or of no interest.
    """

    ways: int
    held: int
    overlap: int | None


class _Option(NamedTuple):
    """Item `bit` put at some position: what that adds to the state and to the cost.

    `passed` are the other items whose present masks start under this one: unless placed before,
    they have to move.
    """

    bit: int
    step: int
    end: int
    passed: int
    cost: int


@dataclasses.dataclass(frozen=True, slots=True)
class _Problem:
    options: tuple[tuple[_Option, ...], ...]  # by position
    starts: tuple[int, ...]  # by position: the items whose present mask starts there
    items: int
    length: int
    slack: int  # ways that may stay idle
    move: int  # the cost of one moved mask


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
) -> tuple[tuple[tuple[int, int], ...], bool] | None:
    """Find the spans of least cost and tell whether that is proven; None: none was found.

    Cost, lexicographically: with `weigh` the ways each item shares with `ddio`, the first item's
    first; moved masks; ways new to their owner; positions, the first item lowest.
    """
    problem = _problem(items, on, ddio, weigh)
    count = len(items)
    exhaustive = count <= EXACT_GROUPS
    beam = _BEAM // count
    no_bound = 1 << problem.move.bit_length() + _COUNT_BITS * (count + 1)
    # With at most two moves most places are fixed, and the search is short.
    for moves in () if weigh else range(1, 4 if exhaustive else 3):
        cost, proven = _sweep(problem, moves * problem.move, None if exhaustive else beam)
        if cost is not None:
            return _decode(cost, items, on), proven
    cost, proven = _sweep(problem, no_bound, beam)
    if exhaustive and not proven:  # the beam's find bounds the exhaustive search
        better, proven = _sweep(problem, no_bound if cost is None else cost, None)
        cost = cost if better is None else better
    return None if cost is None else (_decode(cost, items, on), proven)


def _problem(items: Sequence[Item], on: Line, ddio: int, weigh: bool) -> _Problem:
    count, length = len(items), on.length
    cold = 1 << _WAY_BITS * count
    move = cold << _COUNT_BITS
    overlap = move << _COUNT_BITS
    places = []
    starts = [0] * length
    held_at = [-1] * count
    for index, item in enumerate(items):
        for start in range(length):
            end = on.end(start, item.ways)
            mask = on.mask(start, end) if end else 0
            shared = (mask & ddio).bit_count()
            if not end or item.overlap not in (None, shared):
                continue
            cost = start << _WAY_BITS * (count - 1 - index)
            if item.held:
                cost += (mask & ~item.held).bit_count() * cold
            if weigh:
                cost += shared * overlap << _COUNT_BITS * (count - 1 - index)
            if mask == item.held:
                held_at[index] = start
                starts[start] |= 1 << index
            places.append((index, start, end, cost))
    options: list[list[_Option]] = [[] for _ in range(length)]
    for index, start, end, cost in places:
        passed = 0
        for position in range(start, end):
            passed |= starts[position]
        bit = 1 << index
        own = move if held_at[index] > start else 0  # passed already when it lies below
        step = bit | items[index].ways << count
        options[start].append(_Option(bit, step, end, passed & ~bit, cost + own))
    slack = length - sum(item.ways for item in items)
    by_position = tuple(map(tuple, options))
    return _Problem(by_position, tuple(starts), count, length, slack, move)


def _sweep(problem: _Problem, bound: int, width: int | None) -> tuple[int | None, bool]:
    """Sweep the line upwards; return the least cost below `bound`, and whether nothing was cut.

    A state is the set of items placed so far (low bits) and the sum of their ways (high bits).
    Its cost counts each item that is yet to be placed but whose present place is passed already.
    """
    count, move = problem.items, problem.move
    everything = (1 << count) - 1
    layers: list[dict[int, int]] = [{} for _ in range(problem.length + 1)]
    layers[0][0] = 0
    best, complete = bound, True
    for position, options in enumerate(problem.options):
        layer = layers[position]
        if width is not None and len(layer) > width:
            layer = dict(sorted(layer.items(), key=_by_cost)[:width])
            complete = False
        idle, starts = layers[position + 1], problem.starts[position]
        idle_least = position + 1 - problem.slack << count  # fewer ways placed: the rest cannot fit
        for state, cost in layer.items():
            if state >= idle_least:
                total = cost + (starts & ~state).bit_count() * move
                if total < idle.get(state, best):
                    idle[state] = total
            for bit, step, end, passed, own in options:
                if state & bit:
                    continue
                total = cost + own + (passed & ~state).bit_count() * move
                if total < best:
                    placed = state + step
                    if placed & everything == everything:
                        best = total
                    elif total < layers[end].get(placed, best):
                        layers[end][placed] = total
    return (best if best < bound else None), complete


def _by_cost(entry: tuple[int, int]) -> tuple[int, int]:
    return entry[1], entry[0]


def _decode(cost: int, items: Sequence[Item], on: Line) -> tuple[tuple[int, int], ...]:
    """Read the positions back out of the cost's low bits."""
    spans = []
    for index, item in enumerate(items):
        start = cost >> _WAY_BITS * (len(items) - 1 - index) & (1 << _WAY_BITS) - 1
        spans.append((start, on.end(start, item.ways)))
    return tuple(spans)
