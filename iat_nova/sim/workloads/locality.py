# SPDX-License-Identifier: Apache-2.0
"""How a thread's accesses spread over its own memory.

A locality is a list of pieces ``(share, bytes)``: that share of the accesses beyond L1 goes to a
piece of that size, each of its lines alike. Pieces lie one after another, so nested working sets
are pieces in which every larger set is what it has beyond the smaller ones, and any curve of
misses over cache size under least-recently-used replacement can be approached by enough of them.

The kernels draw from a *table* of `SLOTS` equally likely stretches.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from iat_nova.sim.machine import LINE_BYTES

Locality = tuple[tuple[float, float], ...]
"""Pieces: share of the accesses (all together 1), bytes."""

SLOT_BITS = 8
SLOTS = 1 << SLOT_BITS
_ZIPF_PIECES = 64


def uniform(size_bytes: float) -> Locality:
    """Return one piece: every line alike."""
    return ((1.0, size_bytes),)


@functools.lru_cache(maxsize=16)
def zipf(records: int, record_bytes: float, exponent: float = 0.99) -> Locality:
    """Return records of which the k-th most popular is read in proportion to k^-exponent.

    Approached by pieces of equal shares; 0.99 is YCSB's exponent (Cooper et al., SoCC 2010).
    """
    popularity = np.cumsum(np.arange(1, records + 1, dtype=np.float64) ** -exponent)
    below = np.concatenate(([0.0], popularity / popularity[-1]))
    edges = np.interp(np.linspace(0.0, 1.0, _ZIPF_PIECES + 1), below, np.arange(records + 1))
    return tuple((1.0 / _ZIPF_PIECES, float(size) * record_bytes) for size in np.diff(edges))


def mixed(*parts: tuple[float, Locality]) -> Locality:
    """Return several localities, side by side in memory; each with its weight (together 1)."""
    return tuple((weight * share, size) for weight, part in parts for share, size in part)


def size_bytes(locality: Locality) -> float:
    """Return the memory that a locality covers."""
    return sum(size for _, size in locality)


def table(locality: Locality, first_line: int, sampling: int) -> npt.NDArray[np.int32]:
    """Return [slot, (first sampled line, lines)]: the locality as equally likely stretches.

    `first_line` is the number of the first sampled line. A piece has as many slots as its share
    is worth, so shares are kept to 1 in `SLOTS`; one worth less than half a slot is never read.
    """
    edges = np.cumsum([0.0, *(size / LINE_BYTES / sampling for _, size in locality)])
    rows = []
    for piece, slots in enumerate(_slots([share for share, _ in locality])):
        start = int(edges[piece])
        lines = max(1, round(edges[piece + 1]) - start)
        rows += [(first_line + start, lines)] * slots
    return np.array(rows, np.int32)


def _slots(shares: Sequence[float]) -> Iterable[int]:
    """Deal `SLOTS` out in proportion to shares, the rounding carried on from piece to piece."""
    ends = [round(SLOTS * end) for end in np.cumsum(shares) / sum(shares)]
    return (end - start for start, end in zip([0, *ends], ends, strict=False))
