# SPDX-License-Identifier: Apache-2.0
"""The line of ways open to masks, and how masks fill an empty line.

The ways are in ascending order. Coerced ways form a unit: a mask has all of them or none. Reserved
ways in between are breaks. `pack` finds the least overlap with DDIO in closed form. If masks are
already in place, `iat_nova.strategies.layout.search` finds the least disturbing places.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence


@dataclasses.dataclass(frozen=True, slots=True)
class Line:
    """The ways open to masks, numbered from 0 at the lowest.

    `prefix[i]`: the mask of the first i ways. `unit_low`..`unit_high` (exclusive): position of the
    coerced unit; without coerced ways both equal the length. `breaks`: positions at which a mask
    has to end.
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
        """The number of masks with room side by side."""
        return self.length - max(0, self.unit_high - self.unit_low - 1)

    @property
    def regular(self) -> bool:
        """Whether `pack` applies: `breaks` is empty, and coerced ways, if any, are at the top."""
        return not self.breaks and self.unit_high == self.length

    def mask(self, start: int, end: int) -> int:
        """Return the mask of the ways from `start` up to, but not including, `end`."""
        return self.prefix[end] ^ self.prefix[start]

    def end(self, start: int, ways: int) -> int:
        """Return the end of a mask of `ways` ways at `start`, or 0 if the place is impossible.

        A mask that ends inside the coerced unit takes the whole unit, more ways than asked for.
        """
        end = start + ways
        if start == self.unit_low:
            end = max(end, self.unit_high)
        if end > self.length or any(self.unit_low < at < self.unit_high for at in (start, end)):
            return 0
        for position in self.breaks:
            if start < position < end:
                return 0
        return end

    def admits(self, mask: int, ways: int) -> bool:
        """Return whether `mask` is a valid place for `ways` ways."""
        low = mask & -mask
        start = (self.prefix[-1] & (low - 1)).bit_count()
        return self.mask(start, self.end(start, ways)) == mask


@functools.lru_cache(maxsize=64)
def line(open_ways: int, coerced: int, broken: bool) -> Line:
    """Return the line of `open_ways`. Without `broken`, masks may cross gaps (sparse masks)."""
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
    """A layout that disregards the present masks: spans of positions, in the given order.

    `overlaps`: ways that each span shares with DDIO, lexicographically minimal.
    """

    spans: tuple[tuple[int, int], ...]
    overlaps: tuple[int, ...]


def pack(sizes: Sequence[int], on: Line, clean: int) -> Packing | None:
    """Place masks so that the first masks of `sizes` overlap DDIO least.

    `clean`: the position at which DDIO's ways start. Return None if the masks do not fit, or if the
    line is not `regular` (breaks, or coerced ways below the top).

    Filling from below in the given order is optimal. The first k masks use the ways without DDIO as
    fully as k masks can, so the next mask's overlap cannot be smaller. Coerced ways at the top
    belong together to one mask or to no mask. Below the coerced ways, filling from below is optimal
    again. Therefore each mask, and no mask, is tried as the owner of the coerced ways.
    """
    if not on.regular:
        return None
    length, unit = on.length, on.unit_high - on.unit_low
    total = sum(sizes)
    best = from_below(sizes, on.unit_low, clean)
    for owner in reversed(range(len(sizes))):
        start = length - max(unit, sizes[owner])
        if total - sizes[owner] <= start:
            found = _fill(sizes, clean, {owner: (start, length)})
            if best is None or found.overlaps < best.overlaps:
                best = found
    return best


def from_below(sizes: Sequence[int], length: int, clean: int) -> Packing | None:
    """Place masks side by side from below; return None if they need more than `length` ways."""
    return _fill(sizes, clean, {}) if sum(sizes) <= length else None


def _fill(sizes: Sequence[int], clean: int, placed: Mapping[int, tuple[int, int]]) -> Packing:
    """Place masks from below; `placed` gives the spans of some masks by index."""
    spans, overlaps = [], []
    at = 0
    for index, size in enumerate(sizes):
        span = placed.get(index, (at, at + size))
        if index not in placed:
            at += size
        spans.append(span)
        overlaps.append(max(0, span[1] - max(span[0], clean)))
    return Packing(tuple(spans), tuple(overlaps))
