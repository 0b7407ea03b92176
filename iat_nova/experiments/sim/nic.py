# SPDX-License-Identifier: Apache-2.0
"""Network cards: receive traffic through DDIO into rings, and send at line rate."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from iat_nova.experiments.sim import cache, lcg, rings
from iat_nova.experiments.sim._compile import inlined, kernel

# Bytes on the wire beside the frame: preamble, start delimiter, inter-frame gap.
OVERHEAD_BYTES = 20

# Columns of `Nics.flow` (float64) and `Nics.streams` (int64).
PACKETS_PER_S, CREDIT = range(2)
# BURST is the mean length of bursts, NEXT the length of the next burst.
RING, FRAME_BYTES, TARGET, BURST, OFFERED, NEXT, RANDOM = range(7)
# Columns of `Nics.ports` (float64).
BYTES_PER_S, TX_CREDIT, TX_BYTES = range(3)
# Columns of `Nics.tx`: send rings and the card of each.
TX_RING, TX_PORT = range(2)
# Columns of `Nics.served` (float64), one row per target: the workload that receives the packets.
PACKETS, SERVED_BYTES, LATENCY_NS = range(3)
# Latency histogram: each octave of nanoseconds has 32 bins of equal width, of 3 % or less, named by
# the exponent of a float64 and the highest bits of its fraction.
BIN_BITS = 5
BINS = 40 << BIN_BITS
_FRACTION_BITS, _EXPONENT_BIAS = 52, 1023


class Nics(NamedTuple):
    """State of all cards: incoming streams from the wire, send rings to the wire."""

    flow: npt.NDArray[np.float64]
    streams: npt.NDArray[np.int64]
    ports: npt.NDArray[np.float64]
    tx: npt.NDArray[np.int64]
    served: npt.NDArray[np.float64]
    latency: npt.NDArray[np.int64]  # [target, bin]


def packets_per_s(bits_per_s: float, frame_bytes: int) -> float:
    """Return the packet rate of frames that fill `bits_per_s` of the wire."""
    return bits_per_s / 8 / (frame_bytes + OVERHEAD_BYTES)


@inlined
def _due(s: npt.NDArray[np.int64], credit: float) -> int:
    """Return the packets of a stream due now: whole bursts of 1 to 2 BURST - 1 packets.

    A burst is held back until complete, then arrives at once.
    """
    if s[BURST] == 1:
        return int(credit)
    count = 0
    while credit >= count + s[NEXT]:
        count += s[NEXT]
        s[RANDOM] = lcg.following(s[RANDOM])
        s[NEXT] = 1 + lcg.number(s[RANDOM]) % (2 * s[BURST] - 1)
    return count


@inlined
def receive(
    n: Nics, r: rings.Rings, c: cache.Caches, socket: int, seconds: float, now_ns: int
) -> None:
    """Let the packets of one step arrive at a socket's cards; a full ring drops packets."""
    for stream in range(n.streams.shape[0]):
        s = n.streams[stream]
        if r.state[s[RING], rings.SOCKET] != socket:
            continue
        n.flow[stream, CREDIT] += n.flow[stream, PACKETS_PER_S] * seconds
        count = _due(s, n.flow[stream, CREDIT])
        n.flow[stream, CREDIT] -= count
        s[OFFERED] += count
        ring = r.state[s[RING]]
        room = min(count, ring[rings.POSTED] - ring[rings.DONE])
        ring[rings.DROPPED] += count - room
        ring[rings.PASSED] += room
        sharers = r.pools[ring[rings.POOL], rings.SHARERS]
        last = rings.DATA_LINE + rings.payload_lines(s[FRAME_BYTES])
        # Single packets arrive evenly over the step; bursts arrive at the start of the step.
        start_ns = now_ns - int(seconds * 1e9)
        apart_ns = seconds * 1e9 / max(1, count) if s[BURST] == 1 else 0.0
        for number in range(room):
            buffer = r.slots[s[RING], ring[rings.DONE] & (ring[rings.SIZE] - 1)]
            ring[rings.DONE] += 1
            r.packets[buffer, rings.BYTES] = s[FRAME_BYTES]
            arrived_ns = start_ns + int((number + 0.5) * apart_ns)
            r.packets[buffer, rings.ARRIVED_NS] = arrived_ns
            r.packets[buffer, rings.READY_NS] = arrived_ns
            r.packets[buffer, rings.TARGET] = s[TARGET]
            for i in range(r.first[buffer], r.first[buffer + 1]):
                if rings.DATA_LINE <= r.lines[i, 1] < last:
                    cache.dma_write(c, r.lines[i, 0], sharers, ring[rings.DCA])
        waiting = ring[rings.DONE] - ring[rings.TAKEN]
        ring[rings.PEAK] = max(ring[rings.PEAK], waiting)


@inlined
def bin_of(latency_ns: int) -> int:
    """Return the bin of a latency in the histogram."""
    bits = int(np.float64(max(latency_ns, 1)).view(np.int64))
    bin_number = (bits >> (_FRACTION_BITS - BIN_BITS)) - (_EXPONENT_BIAS << BIN_BITS)
    return min(bin_number, BINS - 1)


@inlined
def count_served(n: Nics, target: int, size: int, latency_ns: int) -> None:
    """Count a served packet."""
    n.served[target, PACKETS] += 1
    n.served[target, SERVED_BYTES] += size
    n.served[target, LATENCY_NS] += latency_ns
    n.latency[target, bin_of(latency_ns)] += 1


def middle_ns(bin_number: int) -> float:
    """Return the latency in the middle of a bin of the histogram."""
    octave, part = divmod(bin_number, 1 << BIN_BITS)
    return float((1 + (part + 0.5) / (1 << BIN_BITS)) * 2.0**octave)


@kernel
def grant(n: Nics, seconds: float) -> None:
    """Let every card send the bytes of one step at line rate; idle time is not saved up."""
    for port in range(n.ports.shape[0]):
        n.ports[port, TX_CREDIT] = (
            min(n.ports[port, TX_CREDIT], 0.0) + n.ports[port, BYTES_PER_S] * seconds
        )


@inlined
def transmit(n: Nics, r: rings.Rings, c: cache.Caches, socket: int, now_ns: int) -> None:
    """Send packets from the send rings of a socket's cards, as many bytes as `grant` gave."""
    for queue in range(n.tx.shape[0]):
        number = n.tx[queue, TX_RING]
        port = n.tx[queue, TX_PORT]
        ring = r.state[number]
        if ring[rings.SOCKET] != socket:
            continue
        sharers = r.pools[ring[rings.POOL], rings.SHARERS]
        ns_per_byte = 1e9 / n.ports[port, BYTES_PER_S]
        while ring[rings.DONE] < ring[rings.POSTED] and n.ports[port, TX_CREDIT] > 0:
            buffer = r.slots[number, ring[rings.DONE] & (ring[rings.SIZE] - 1)]
            size = r.packets[buffer, rings.BYTES]
            last = rings.DATA_LINE + rings.payload_lines(size)
            for i in range(r.first[buffer], r.first[buffer + 1]):
                if rings.DATA_LINE <= r.lines[i, 1] < last:
                    cache.dma_read(c, r.lines[i, 0], sharers)
            ring[rings.DONE] += 1
            ring[rings.PASSED] += 1
            # The remaining credit gives the card's position in the step.
            free_ns = now_ns - n.ports[port, TX_CREDIT] * ns_per_byte
            n.ports[port, TX_CREDIT] -= size + OVERHEAD_BYTES
            n.ports[port, TX_BYTES] += size
            wire_ns = (size + OVERHEAD_BYTES) * ns_per_byte
            sent_ns = max(free_ns, float(r.packets[buffer, rings.READY_NS])) + wire_ns
            latency_ns = int(sent_ns) - r.packets[buffer, rings.ARRIVED_NS]
            count_served(n, r.packets[buffer, rings.TARGET], size, latency_ns)
