# SPDX-License-Identifier: Apache-2.0
"""Threads that only read and write their own memory: X-Mem, SPEC surrogates, RocksDB."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from iat_nova.experiments.sim import cache
from iat_nova.experiments.sim._compile import inlined
from iat_nova.experiments.sim.workloads import threads as th


@inlined
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
    each = f[th.OWN_CYCLES] + f[th.TOUCHES] * t.stalls[thread, th.OWN]
    work = awake / each
    th.own_accesses(t, c, latency, thread, work * f[th.TOUCHES] / sampling)
    f[th.CYCLES] += awake
    f[th.INSTRUCTIONS] += work * f[th.OWN_INSTRUCTIONS]
    f[th.WORK] += work
