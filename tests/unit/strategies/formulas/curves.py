# SPDX-License-Identifier: Apache-2.0
"""Miss curves, and the resulting speed of a tenant."""

from __future__ import annotations

import dataclasses
import math

FREQUENCY_HZ = 2.3e9
MISS_CYCLES = 100.0  # of an LLC miss that stalls: 90 ns, two misses at a time; `draw` varies this


@dataclasses.dataclass(frozen=True, slots=True)
class Piece:
    """A part of the accesses, spread over as much memory as `ways` ways hold.

    With occupancy e, the hit rate is (e / ways) ** `sharpness`. Sharpness 1 models random accesses
    under any replacement. Higher values form a knee, up to the cliff of a loop under LRU (8).
    """

    share: float
    ways: float
    sharpness: float

    def misses(self, occupied: float) -> float:
        """Return the share of all accesses that misses in this piece, with `occupied` ways."""
        if occupied >= self.ways:
            return 0.0
        return self.share * (1.0 - math.pow(occupied / self.ways, self.sharpness))


@dataclasses.dataclass(frozen=True, slots=True)
class MissCurve:
    """LLC misses per reference: `floor` in any cache, plus the misses of each piece."""

    floor: float
    pieces: tuple[Piece, ...]

    def at(self, occupied: float) -> float:
        """Return the misses per reference, 0..1, with `occupied` ways."""
        return self.floor + sum(piece.misses(occupied) for piece in self.pieces)


@dataclasses.dataclass(frozen=True, slots=True)
class Load:
    """The load of a tenant.

    `cores`: busy cores. `cpi`: cycles per instruction without LLC misses. `references`: LLC
    references per instruction, without packets. `packet_lines`: lines of packets read per
    instruction; packet reads miss like DDIO's writes. `miss_cycles`: stall cycles per LLC miss.
    """

    cores: int
    cpi: float
    references: float  # LLC, per instruction, without packets
    curve: MissCurve
    packet_lines: float = 0.0
    miss_cycles: float = MISS_CYCLES

    def instructions_per_s(self, occupied: float, ddio_misses: float) -> float:
        """Return the speed with `occupied` ways.

        `ddio_misses`: share of inbound lines that missed the cache, 0..1.
        """
        missing = self.references * self.curve.at(occupied) + self.packet_lines * ddio_misses
        return self.cores * FREQUENCY_HZ / (self.cpi + self.miss_cycles * missing)

    def fills_per_s(self, occupied: float) -> float:
        """Return the LLC fills in lines per second while packets hit."""
        missing = self.references * self.curve.at(occupied)
        return self.instructions_per_s(occupied, 0.0) * missing


@dataclasses.dataclass(frozen=True, slots=True)
class InboundWrites:
    """Writes of devices in lines per second, and the share of misses by occupied ways."""

    lines_per_s: float
    curve: MissCurve

    def misses(self, occupied: float) -> float:
        """Return the share of inbound lines, 0..1, that need an allocation with `occupied` ways."""
        return self.curve.at(occupied)
