# SPDX-License-Identifier: Apache-2.0
"""Memory: bandwidth used, and latency that rises with it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from iat_nova.sim import cache
from iat_nova.sim._compile import kernel
from iat_nova.sim.machine import LINE_BYTES, Machine

# `Memory.values`.
IDLE_CYCLES, BYTES_PER_S, SECONDS, LINES, BYTES_PER_LINE = range(5)
# The latency without load is multiplied by 1 + QUEUEING * u^2 / (1 - u) at utilisation u. Chosen
# so that latency doubles at 85 % of what streams reach, the shape of published loaded-latency
# curves of Skylake-SP; u is capped, as cores wait rather than queue without bound.
QUEUEING = 0.21
UTILISATION_MAX = 0.97
# How much of each new measurement (every 50 us) enters the running utilisation.
SMOOTHING = 0.2


class Memory(NamedTuple):
    """State of the memory of one socket."""

    values: npt.NDArray[np.float64]  # see IDLE_CYCLES ...; SECONDS, LINES: at the last update
    load: npt.NDArray[np.float64]  # [0]: utilisation, 0..1
    latency: npt.NDArray[np.float64]  # cycles by the level that served, see cache.L2 ...


def make(machine: Machine, sampling: int) -> Memory:
    """Return an idle memory."""
    idle = machine.memory_ns * 1e-9 * machine.frequency_hz
    return Memory(
        np.array([idle, machine.memory_bytes_per_s, 0.0, 0.0, float(LINE_BYTES * sampling)]),
        np.zeros(1),
        np.array([machine.l2_cycles, machine.llc_cycles, machine.peer_cycles, idle]),
    )


@kernel
def update(memory: Memory, caches: cache.Caches, seconds: float) -> None:
    """Take the traffic since the last update and set the latency that follows from it."""
    v = memory.values
    lines = cache.memory_lines(caches)
    elapsed = seconds - v[SECONDS]
    if elapsed <= 0:
        return
    used = (lines - v[LINES]) * v[BYTES_PER_LINE] / elapsed / v[BYTES_PER_S]
    v[LINES] = lines
    v[SECONDS] = seconds
    load = memory.load[0] + SMOOTHING * (used - memory.load[0])
    memory.load[0] = load
    bounded = min(load, UTILISATION_MAX)
    memory.latency[cache.MEMORY] = v[IDLE_CYCLES] * (
        1.0 + QUEUEING * bounded * bounded / (1.0 - bounded)
    )
