# SPDX-License-Identifier: Apache-2.0
"""Packet buffers, mempools and descriptor rings.

One form serves receive and send rings of NIC queues and virtqueues. The *owner* of a ring posts
buffers (`POSTED`) and reclaims buffers (`TAKEN`). A device or a virtual switch at the other end
fills or empties the buffers (`DONE`). The three counters never decrease:
``TAKEN <= DONE <= POSTED <= TAKEN + SIZE``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from iat_nova.experiments.sim import cache
from iat_nova.experiments.sim._compile import inlined

# Columns of `Rings.state`.
# SOCKET: of the card at the other end. HANDOFF 1: between two threads of one owner, as DPDK's
# rte_ring: the second thread takes the buffers that the first thread has posted, and no buffer is
# reclaimed. EMPTY_MAX: maximum number of empty buffers for the device; the rest of SIZE holds
# waiting packets.
POSTED, DONE, TAKEN, SIZE, POOL, DROPPED, PASSED, PEAK, DCA, SOCKET, HANDOFF, EMPTY_MAX = range(12)
# Columns of `Rings.pools`. LIFO 1: the buffer freed last is used first (a stack handler, or the
# per-core caches in front of a ring when one core allocates and frees); 0: in turn (a ring).
# HEAD counts allocations, TAIL frees and the buffers at the start.
LIFO, HEAD, TAIL, COUNT, BASE, SHARERS, FAILED = range(7)
# Columns of `Rings.packets`. READY_NS: from when the next thread or card may take the packet.
BYTES, ARRIVED_NS, TARGET, READY_NS = range(4)

# Layout of a buffer in DPDK: 64 B mempool header, 128 B rte_mbuf, 128 B headroom, 2,048 B data.
BUFFER_LINES = 37
PAGE_LINES = 64  # of 4 KiB
MBUF_LINE = 1  # and the next
DATA_LINE = 5
# A sender reclaims when fewer descriptors than this number are free: the same number at a time,
# once per burst (DPDK's tx_free_thresh and tx_rs_thresh; i40e_tx_free_bufs frees all together).
RECLAIM = 32
# A receiver gives the device this number of new buffers at a time, before reading a burst, when
# more descriptors are free (RTE_I40E_RXQ_REARM_THRESH of i40e's vector receive).
REARM = 32

Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]


class Rings(NamedTuple):
    """All rings, pools and buffers. Ring sizes are powers of two."""

    slots: Int32  # [ring, slot]: buffer
    state: Int64  # [ring, see POSTED ...]
    pools: Int64  # [pool, see LIFO ...]
    free: Int32  # [buffer]: free lists, one stretch per pool
    first: Int32  # [buffer]: start of the buffer's lines in `lines`, one more entry at the end
    lines: Int32  # [n, 0]: sampled line, [n, 1]: number of this line in the buffer
    offsets: Int32  # [buffer]: number of the buffer's first line in its page
    packets: Int64  # [buffer, see BYTES ...]: the packet in the buffer


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
    table = np.zeros((max(1, len(pools)), 7), np.int64)
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
    state = np.zeros((max(1, len(rings)), 12), np.int64)
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
        state[number, [SIZE, POOL, DCA, SOCKET]] = (ring.size, ring.pool, ring.dca, ring.socket)
        state[number, HANDOFF] = ring.handoff
        state[number, EMPTY_MAX] = ring.size - ring.backlog
        if ring.prefilled:
            refill(made, number, vacant(made, number))
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


@inlined
def belongs(r: Rings, buffer: int, pool: int) -> bool:
    """Tell whether a buffer belongs to a pool."""
    p = r.pools[pool]
    return bool(0 <= buffer - p[BASE] < p[COUNT])


@inlined
def allocate(r: Rings, pool: int) -> int:
    """Take a buffer out of a pool; -1 if the pool is empty."""
    p = r.pools[pool]
    available = p[TAIL] - p[HEAD]
    if available <= 0:
        p[FAILED] += 1
        return -1
    place = available - 1 if p[LIFO] else p[HEAD] % p[COUNT]
    p[HEAD] += 1
    buffer: int = r.free[p[BASE] + place]
    return buffer


@inlined
def release(r: Rings, pool: int, buffer: int) -> None:
    """Return a buffer to its pool."""
    p = r.pools[pool]
    place = p[TAIL] - p[HEAD] if p[LIFO] else p[TAIL] % p[COUNT]
    r.free[p[BASE] + place] = buffer
    p[TAIL] += 1


@inlined
def post(r: Rings, ring: int, buffer: int) -> None:
    """Put a buffer on a ring that has room."""
    s = r.state[ring]
    r.slots[ring, s[POSTED] & (s[SIZE] - 1)] = buffer
    s[POSTED] += 1


@inlined
def vacant(r: Rings, ring: int) -> int:
    """Return the number of buffers that the owner of a ring may still post."""
    s = r.state[ring]
    left: int = min(s[SIZE] - (s[POSTED] - s[TAKEN]), s[EMPTY_MAX] - (s[POSTED] - s[DONE]))
    return left


@inlined
def refill(r: Rings, ring: int, count: int) -> None:
    """Post up to `count` empty buffers on a receive ring, as far as ring and pool allow."""
    s = r.state[ring]
    for _ in range(min(count, vacant(r, ring))):
        buffer = allocate(r, s[POOL])
        if buffer < 0:
            return
        post(r, ring, buffer)


@inlined
def reclaim(r: Rings, ring: int) -> None:
    """Free up to `RECLAIM` of the buffers that a send ring's device has sent."""
    s = r.state[ring]
    for _ in range(RECLAIM):
        if s[TAKEN] == s[DONE]:
            return
        release(r, s[POOL], r.slots[ring, s[TAKEN] & (s[SIZE] - 1)])
        s[TAKEN] += 1


@inlined
def send(r: Rings, ring: int, buffer: int) -> bool:
    """Post a full buffer on a send ring; if the ring is full, drop the packet and return False."""
    s = r.state[ring]
    if s[POSTED] - s[TAKEN] >= s[SIZE]:
        reclaim(r, ring)
    if s[POSTED] - s[TAKEN] >= s[SIZE]:
        s[DROPPED] += 1
        release(r, s[POOL], buffer)
        return False
    post(r, ring, buffer)
    return True


@inlined
def payload_lines(size: int) -> int:
    """Return the number of lines of a packet of `size` bytes."""
    return (size + 63) >> 6
