# SPDX-License-Identifier: Apache-2.0
"""Miss curves, and what they make of a tenant's speed."""

from __future__ import annotations

import dataclasses
import math

FREQUENCY_HZ = 2.3e9
MISS_CYCLES = 100.0  # of an LLC miss that stalls: 90 ns, two of them at a time; `draw` has others


@dataclasses.dataclass(frozen=True, slots=True)
class Piece:
    """A part of the accesses, spread over as much memory as `ways` ways hold.

    With occupancy e they hit with (e / ways) ** `sharpness`: 1 is what random accesses do under any
    replacement, more is a knee, up to the cliff of a loop under LRU (8).
    """

    share: float
    ways: float
    sharpness: float

    def misses(self, occupied: float) -> float:
        """Return the share of all accesses that misses here, with so many ways occupied."""
        if occupied >= self.ways:
            return 0.0
        return self.share * (1.0 - math.pow(occupied / self.ways, self.sharpness))


@dataclasses.dataclass(frozen=True, slots=True)
class Curve:
    """LLC misses a reference: `floor` in any cache, and what does not fit of each piece."""

    floor: float
    pieces: tuple[Piece, ...]

    def at(self, occupied: float) -> float:
        """Return the misses a reference, 0..1, with so many ways occupied."""
        return self.floor + sum(piece.misses(occupied) for piece in self.pieces)


@dataclasses.dataclass(frozen=True, slots=True)
class Load:
    """What a tenant does: `cores` busy, `cpi` cycles an instruction without LLC misses.

    `packet_lines`: lines of packets read an instruction; they miss as DDIO's writes do.
    `miss_cycles`: cycles that one LLC miss stalls.
    """

    cores: int
    cpi: float
    references: float  # LLC, an instruction, packets apart
    curve: Curve
    packet_lines: float = 0.0
    miss_cycles: float = MISS_CYCLES

    def instructions_per_s(self, occupied: float, ddio_misses: float) -> float:
        """Return its speed; `ddio_misses` is the share of inbound lines that went to memory."""
        missing = self.references * self.curve.at(occupied) + self.packet_lines * ddio_misses
        return self.cores * FREQUENCY_HZ / (self.cpi + self.miss_cycles * missing)

    def fills_per_s(self, occupied: float) -> float:
        """Return how many lines a second it brings into the LLC while packets hit."""
        missing = self.references * self.curve.at(occupied)
        return self.instructions_per_s(occupied, 0.0) * missing


@dataclasses.dataclass(frozen=True, slots=True)
class Inbound:
    """What devices write: lines a second, and what is allocated by the ways they occupy."""

    lines_per_s: float
    curve: Curve

    def misses(self, occupied: float) -> float:
        """Return the share of the lines that has to be allocated, 0..1."""
        return self.curve.at(occupied)
