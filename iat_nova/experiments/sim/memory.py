# SPDX-License-Identifier: Apache-2.0
"""Memory: used bandwidth, and a latency that rises with the bandwidth.

Only the latency limits the bandwidth: with a higher latency, cores that wait for their misses make
fewer misses. So the bandwidth settles below the DIMMs' peak.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from iat_nova.experiments.sim import cache, cachestate
from iat_nova.experiments.sim._compile import kernel
from iat_nova.experiments.sim.machine import LINE_BYTES, Machine

# `Memory.values`. SECONDS, LINES and the part WRITES of LINES: at the last update.
IDLE_CYCLES, BYTES_PER_S, SECONDS, LINES, WRITES, BYTES_PER_LINE, SMOOTHING = range(7)
# The latency without load is multiplied by 1 + QUEUEING * u^2 / (1 - u) at utilisation u of the
# DIMMs' peak, the shape of a queue. The factor is fitted to Intel's Memory Latency Checker on a
# Xeon Platinum 8180 with 6 channels of DDR4-2666 (FD.io CSIT's calibration data, a socket of two):
# 95 ns at 42 GB/s, 101 at 56, 122 at 80, 227 to 283 at 108. u is capped, because devices do not
# slow down as cores do.
QUEUEING = 0.45
UTILISATION_MAX = 0.97
# The cost of a write in reads, with the turnaround of the bus. From the same data:
# 108 GB/s of reads, 91 with a quarter of writes, 89 with a third, 75 with a half.
WRITE_COST = 1.75
# MBA's rate controller stands between a core's L2 and the mesh and delays every L2 miss, wherever
# the line is found (Intel SDM volume 3, "Memory Bandwidth Allocation"; A. Herdrich et al.,
# "Introduction to Memory Bandwidth Allocation in the Intel Xeon Processor Scalable Family", 2019).
# A limit of p percent is the delay with which a core that only waits for an idle memory gets p
# percent of its lines: 1/p - 1 of that latency. So a core that also computes loses less than the
# limit, and a core that hits the LLC loses more, as documented.


class Memory(NamedTuple):
    """State of the memory of one socket."""

    values: npt.NDArray[np.float64]  # see IDLE_CYCLES ...
    load: npt.NDArray[np.float64]  # [0]: utilisation, 0..1
    latency: npt.NDArray[np.float64]  # cycles by the level that served, see cache.L2 ...


@kernel
def memory_writes(c: cache.Caches) -> int:
    """Return the number of sampled lines written to memory."""
    total: int = (
        c.totals[cache.WRITE_BACKS]
        + c.totals[cachestate.CLEANED]
        + c.totals[cache.DMA_MEMORY_WRITES]
        + c.totals[cache.WRITTEN_THROUGH]
    )
    return total


@kernel
def memory_lines(c: cache.Caches) -> int:
    """Return the number of sampled lines that crossed the memory bus, reads and writes."""
    total: int = memory_writes(c) + c.totals[cachestate.DMA_READ_MISSES]
    for core in range(c.served.shape[0]):
        if c.registers[cache.CORES] >> core & 1:
            total += c.served[core, cache.MEMORY] + c.prefetched[core, cache.MEMORY]
    return total


def make(machine: Machine, sampling: int) -> Memory:
    """Return an idle memory."""
    idle = machine.memory_ns * 1e-9 * machine.frequency_hz
    # A miss in one LLC, the link, a hit in the other LLC.
    remote = 2 * machine.llc_cycles + machine.link_ns * 1e-9 * machine.frequency_hz
    return Memory(
        np.array(
            [
                idle,
                machine.memory_bytes_per_s,
                0.0,
                0.0,
                0.0,
                LINE_BYTES * sampling,
                machine.memory_smoothing,
            ]
        ),
        np.zeros(1),
        np.array([machine.l2_cycles, machine.llc_cycles, machine.peer_cycles, idle, remote]),
    )


@kernel
def slowdown(utilisation: float) -> float:
    """Return the ratio of the latency under load to the latency without load."""
    u = min(utilisation, UTILISATION_MAX)
    return 1.0 + QUEUEING * u * u / (1.0 - u)


def delay(machine: Machine, percent: int) -> float:
    """Return the delay of a core's L2 misses, in cycles, under an MBA limit of `percent`."""
    return (100.0 / percent - 1.0) * machine.memory_ns * 1e-9 * machine.frequency_hz


@kernel
def update(memory: Memory, caches: cache.Caches, seconds: float) -> None:
    """Measure the traffic since the last update and set the resulting latency."""
    v = memory.values
    lines = memory_lines(caches)
    writes = memory_writes(caches)
    elapsed = seconds - v[SECONDS]
    if elapsed <= 0:
        return
    moved = lines - v[LINES] + (WRITE_COST - 1.0) * (writes - v[WRITES])
    used = moved * v[BYTES_PER_LINE] / elapsed / v[BYTES_PER_S]
    v[LINES] = lines
    v[WRITES] = writes
    v[SECONDS] = seconds
    memory.load[0] += v[SMOOTHING] * (used - memory.load[0])
    memory.latency[cache.MEMORY] = v[IDLE_CYCLES] * slowdown(memory.load[0])
