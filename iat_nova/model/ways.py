# SPDX-License-Identifier: Apache-2.0
"""A set of LLC ways."""

from __future__ import annotations

WAYS_LIMIT = 64
"""More ways than any LLC has: the maximum length of CAT's capacity masks."""


class WayMask(int):
    """A set of LLC ways, bit n for way n, as in the capacity bit masks of CAT."""

    __slots__ = ()

    @classmethod
    def span(cls, lowest: int, count: int) -> WayMask:
        """Return the contiguous mask of `count` ways from way `lowest` upwards."""
        return cls(((1 << count) - 1) << lowest)

    @property
    def count(self) -> int:
        """The number of ways in the mask."""
        return self.bit_count()

    @property
    def lowest(self) -> int:
        """The number of the lowest way; -1 for the empty mask."""
        return (self & -self).bit_length() - 1

    @property
    def highest(self) -> int:
        """The number of the highest way; -1 for the empty mask."""
        return self.bit_length() - 1

    @property
    def is_contiguous(self) -> bool:
        """Whether the ways are one unbroken, non-empty run."""
        return self != 0 and self.count == self.highest - self.lowest + 1

    def overlaps(self, other: int) -> bool:
        """Tell whether the two masks have a way in common."""
        return bool(self & other)

    def __str__(self) -> str:
        return hex(self)

    def __repr__(self) -> str:
        return f"WayMask({self:#x})"
