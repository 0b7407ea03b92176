# SPDX-License-Identifier: Apache-2.0
"""The distribution of a thread's accesses over its own memory.

A locality is a list of pieces ``(share, bytes)``: this share of the accesses beyond L1 goes to a
piece of this size, with all lines equally likely. Pieces lie one after another. So nested working
sets become pieces, each with the part of a larger set beyond the smaller sets. Enough pieces
approximate any curve of misses over cache size under least-recently-used replacement.

The engine draws from a *table* of `SLOTS` equally likely stretches.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from iat_nova.experiments.engine.layout import number
from iat_nova.experiments.machines.machine import LINE_BYTES

Locality = tuple[tuple[float, float], ...]
"""Pieces: share of the accesses (sum 1), bytes."""

SLOTS = number("SLOTS")
_ZIPF_PIECES = 64


def uniform(size_bytes: float) -> Locality:
    """Return a locality of one piece: all lines are equally likely."""
    return ((1.0, size_bytes),)


@functools.lru_cache(maxsize=16)
def zipf(records: int, record_bytes: float, exponent: float = 0.99) -> Locality:
    """Return the locality of records whose k-th most popular is read in proportion to k^-exponent.

    Pieces of equal shares approximate the curve; 0.99 is YCSB's exponent (Cooper et al., SoCC
    2010).
    """
    popularity = np.cumsum(np.arange(1, records + 1, dtype=np.float64) ** -exponent)
    below = np.concatenate(([0.0], popularity / popularity[-1]))
    edges = np.interp(np.linspace(0.0, 1.0, _ZIPF_PIECES + 1), below, np.arange(records + 1))
    return tuple((1.0 / _ZIPF_PIECES, float(size) * record_bytes) for size in np.diff(edges))


def mixed(*parts: tuple[float, Locality]) -> Locality:
    """Return several localities side by side in memory, each with a weight (sum 1)."""
    return tuple((weight * share, size) for weight, part in parts for share, size in part)


def size_bytes(locality: Locality) -> float:
    """Return the bytes of memory that a locality covers."""
    return sum(size for _, size in locality)


def table(locality: Locality, first_line: int, sampling: int) -> npt.NDArray[np.int32]:
    """Return [slot, (first sampled line, lines)]: the locality as equally likely stretches.

    `first_line` is the number of the first sampled line. A piece has slots in proportion to its
    share, so shares have a resolution of 1 in `SLOTS`. A piece worth less than half a slot may have
    no slot and is then never read.
    """
    edges = np.cumsum([0.0, *(size / LINE_BYTES / sampling for _, size in locality)])
    rows = []
    for piece, slots in enumerate(_slots([share for share, _ in locality])):
        start = int(edges[piece])
        lines = max(1, round(edges[piece + 1]) - start)
        rows += [(first_line + start, lines)] * slots
    return np.array(rows, np.int32)


def _slots(shares: Sequence[float]) -> Iterable[int]:
    """Distribute `SLOTS` in proportion to shares, carrying the rounding from piece to piece."""
    ends = [round(SLOTS * end) for end in np.cumsum(shares) / sum(shares)]
    return (end - start for start, end in zip([0, *ends], ends, strict=False))
