# SPDX-License-Identifier: Apache-2.0
"""State of a socket's memory; ``memory.c`` has the latency under load.

MBA's rate controller stands between a core's L2 and the mesh and delays every L2 miss, wherever the
line is found (Intel SDM volume 3, "Memory Bandwidth Allocation"; A. Herdrich et al., "Introduction
to Memory Bandwidth Allocation in the Intel Xeon Processor Scalable Family", 2019). A limit of p
percent is the delay with which a core that only waits for an idle memory gets p percent of its
lines: 1/p - 1 of that latency. So a core that also computes loses less than the limit, and a core
that hits the LLC loses more, as documented.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import numpy.typing as npt

from iat_nova.experiments.engine import cache, layout
from iat_nova.experiments.engine.library import FUNCTIONS
from iat_nova.experiments.machines.machine import LINE_BYTES, Machine

WRITE_COST = float(layout.numbers("state.h")["WRITE_COST"])


@dataclasses.dataclass(frozen=True, eq=False)
class Memory(layout.Block):
    """State of the memory of one socket."""

    values: npt.NDArray[np.float64]
    load: npt.NDArray[np.float64]
    latency: npt.NDArray[np.float64]


def make(machine: Machine, sampling: int) -> Memory:
    """Return an idle memory."""
    idle = machine.memory_ns * 1e-9 * machine.frequency_hz
    # A miss in one LLC, the link, a hit in the other LLC.
    remote = 2 * machine.llc_cycles + machine.link_ns * 1e-9 * machine.frequency_hz
    line_bytes = LINE_BYTES * sampling
    start = [idle, machine.memory_bytes_per_s, 0.0, 0.0, 0.0, line_bytes, machine.memory_smoothing]
    return Memory(
        np.array(start),
        np.zeros(1),
        np.array([machine.l2_cycles, machine.llc_cycles, machine.peer_cycles, idle, remote]),
    )


def memory_writes(c: cache.Caches) -> int:
    """Return the number of sampled lines written to memory."""
    return int(FUNCTIONS["memory_writes"](c.address))


def memory_lines(c: cache.Caches) -> int:
    """Return the number of sampled lines that crossed the memory bus, reads and writes."""
    return int(FUNCTIONS["memory_lines"](c.address))


def slowdown(utilisation: float) -> float:
    """Return the ratio of the latency under load to the latency without load."""
    return FUNCTIONS["slowdown"](utilisation)


def delay(machine: Machine, percent: int) -> float:
    """Return the delay of a core's L2 misses, in cycles, under an MBA limit of `percent`."""
    return (100.0 / percent - 1.0) * machine.memory_ns * 1e-9 * machine.frequency_hz


def update(memory: Memory, caches: cache.Caches, seconds: float) -> None:
    """Measure the traffic since the last update and set the resulting latency."""
    FUNCTIONS["update_memory"](memory.address, caches.address, seconds)
