# SPDX-License-Identifier: Apache-2.0
"""Threads that only read and write memory of their own: X-Mem, an idle guest."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from iat_nova.sim import cache
from iat_nova.sim._compile import kernel
from iat_nova.sim.workloads import threads as th


@kernel
def step(
    t: th.Threads,
    c: cache.Caches,
    latency: npt.NDArray[np.float64],
    thread: int,
    cycles: float,
    sampling: int,
) -> None:
    """Let one thread work for `cycles` of its core's time."""
    f = t.floats[thread]
    awake = cycles * f[th.DUTY]
    past_l1 = 1.0 - f[th.L1_SHARE]
    each = f[th.OWN_CYCLES] + past_l1 * t.stalls[thread, th.OWN]
    work = awake / each
    th.own_accesses(t, c, latency, thread, work * past_l1 / sampling)
    f[th.CYCLES] += awake
    f[th.INSTRUCTIONS] += work * f[th.OWN_INSTRUCTIONS]
    f[th.WORK] += work
