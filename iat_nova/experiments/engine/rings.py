# SPDX-License-Identifier: Apache-2.0
"""State of packet buffers, mempools and descriptor rings; ``rings.c`` has the rules."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from iat_nova.experiments.engine import cache, layout
from iat_nova.experiments.engine.layout import Block, columns
from iat_nova.experiments.engine.library import FUNCTIONS

RING, POOL = columns("Ring"), columns("Pool")
BUFFER_LINES, PAGE_LINES = layout.number("BUFFER_LINES"), layout.number("PAGE_LINES")

Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]


@dataclasses.dataclass(frozen=True, eq=False)
class Rings(Block):
    """All rings, pools and buffers. Ring sizes are powers of two."""

    slots: Int32
    state: Int64
    pools: Int64
    free: Int32
    first: Int32
    lines: Int32
    offsets: Int32
    packets: Int64


class PoolPlan(NamedTuple):
    """The plan of a mempool: first line (a multiple of the sampling), buffers, cores as bits."""

    base_line: int
    buffers: int
    lifo: bool
    sharers: int


class RingPlan(NamedTuple):
    """The plan of a ring; `prefilled`: the owner receives, so empty buffers are posted first.

    `backlog`: the number of slots for packets that the device has delivered and that wait for the
    owner.
    """

    size: int
    pool: int
    prefilled: bool
    dca: int  # as of `cache.dma_write`
    socket: int = 0
    handoff: bool = False
    backlog: int = 0


def make(pools: Sequence[PoolPlan], rings: Sequence[RingPlan], sampling: int) -> Rings:
    """Lay out pools and rings; fill receive rings from their pools."""
    total = sum(pool.buffers for pool in pools)
    first = np.zeros(total + 1, np.int32)
    chunks: list[Int64] = [np.zeros((0, 3), np.int64)]
    table = np.zeros((max(1, len(pools)), len(POOL)), np.int64)
    base = 0
    offsets = np.zeros(max(1, total), np.int32)
    for number, pool in enumerate(pools):
        starts = pool.base_line + np.arange(pool.buffers, dtype=np.int64) * BUFFER_LINES
        offsets[base : base + pool.buffers] = starts % PAGE_LINES
        chunks.append(_sampled_lines(pool, base, sampling))
        table[number] = (pool.lifo, 0, pool.buffers, pool.buffers, base, pool.sharers, 0)
        base += pool.buffers
    found = np.concatenate(chunks)
    first[1:] = np.cumsum(np.bincount(found[:, 0], minlength=total)[:total])
    size = max((ring.size for ring in rings), default=1)
    state = np.zeros((max(1, len(rings)), len(RING)), np.int64)
    made = Rings(
        np.zeros((max(1, len(rings)), size), np.int32),
        state,
        table,
        np.arange(max(1, total), dtype=np.int32),
        first,
        np.ascontiguousarray(found[:, 1:], dtype=np.int32),
        offsets,
        np.zeros((max(1, total), 4), np.int64),
    )
    for number, ring in enumerate(rings):
        if ring.size & (ring.size - 1):
            raise ValueError(f"ring size {ring.size} is not a power of two")
        state[number, [RING.size, RING.pool, RING.dca]] = (ring.size, ring.pool, ring.dca)
        state[number, [RING.socket, RING.handoff]] = (ring.socket, ring.handoff)
        state[number, RING.empty_max] = ring.size - ring.backlog
        if ring.prefilled:
            FUNCTIONS["refill"](made.address, number, ring.size)
    return made


def _sampled_lines(pool: PoolPlan, first_buffer: int, sampling: int) -> Int64:
    """Return [buffer, sampled line, line of the buffer] for each sampled line of a pool."""
    groups = np.arange(
        pool.base_line // sampling,
        (pool.base_line + pool.buffers * BUFFER_LINES + sampling - 1) // sampling,
        dtype=np.int64,
    )
    offsets = groups * sampling + cache.sampled_offset(groups, sampling) - pool.base_line
    inside = (offsets >= 0) & (offsets < pool.buffers * BUFFER_LINES)
    buffers, places = np.divmod(offsets[inside], BUFFER_LINES)
    return np.stack([buffers + first_buffer, groups[inside], places], axis=1)


def payload_lines(size: int) -> int:
    """Return the number of lines of a packet of `size` bytes."""
    return (size + 63) >> 6
