# SPDX-License-Identifier: Apache-2.0
"""FIO's jobs: keep a queue of random reads and writes full, and access every byte.

A job's thread takes a completed command and reads the block after a read. Then the thread draws the
kind of the next command, fills the block before a write, and submits the command again. Without
completions the thread sleeps.

As for packets, the cycles of a line come from the running mean of the line's class of accesses.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from iat_nova.experiments.sim import cache, nic, nvme
from iat_nova.experiments.sim._compile import kernel, merged
from iat_nova.experiments.sim.workloads import threads as th


@merged
def _touch_page(
    t: th.Threads,
    d: nvme.Disks,
    c: cache.Caches,
    latency: npt.NDArray[np.float64],
    thread: int,
    job: int,
    write: int,
    sampling: int,
) -> float:
    """Read or fill the next page of the job's block; return the cycles."""
    j = d.jobs[job]
    lines = nvme.PAGE_LINES // sampling
    first = d.commands[j[nvme.CURRENT], nvme.LINE] + j[nvme.PAGE] * lines
    kind = th.COPY_TO if write else th.PACKET
    for line in range(first, first + lines):
        level = cache.core_access(c, t.ints[thread, th.CORE], line, write, 0)
        th.observe(t, thread, kind, latency[level])
    j[nvme.PAGE] += 1
    cycles: float = nvme.PAGE_LINES * (t.floats[thread, th.COPY_CYCLES] + t.stalls[thread, kind])
    return cycles


@kernel
def _next(t: th.Threads, d: nvme.Disks, thread: int, job: int, now_ns: int) -> None:
    """Continue the job's current command after its data: draw the next kind, fill, submit."""
    j = d.jobs[job]
    command = d.commands[j[nvme.CURRENT]]
    if j[nvme.FILLING] == 0:
        writes = 0
        if t.ints[thread, th.WRITES_PERCENT]:
            writes = 1 if th.draw(t, thread) % 100 < t.ints[thread, th.WRITES_PERCENT] else 0
        command[nvme.WRITES] = writes
        if writes:
            j[nvme.FILLING] = 1
            j[nvme.PAGE] = 0
            return
    nvme.submit(d, j[nvme.CURRENT], now_ns)
    j[nvme.CURRENT] = -1


@kernel
def _take(t: th.Threads, d: nvme.Disks, n: nic.Nics, thread: int, job: int, now_ns: int) -> bool:
    """Make a new or completed command the current command; return False without one."""
    j = d.jobs[job]
    j[nvme.FILLING] = 0
    if j[nvme.FRESH] > 0:
        j[nvme.FRESH] -= 1
        j[nvme.CURRENT] = j[nvme.FIRST] + j[nvme.FRESH]
        j[nvme.PAGE] = j[nvme.BLOCK_PAGES]
        return True
    number = nvme.take_done(d, job)
    if number < 0:
        return False
    command = d.commands[number]
    j[nvme.CURRENT] = number
    j[nvme.PAGE] = j[nvme.BLOCK_PAGES] if command[nvme.WRITES] else 0
    size = j[nvme.BLOCK_PAGES] * nvme.PAGE_BYTES
    nic.count_served(n, j[nvme.OWNER], size, now_ns - command[nvme.SUBMITTED_NS])
    t.floats[thread, th.WORK] += 1.0
    return True


@merged
def step(
    t: th.Threads,
    d: nvme.Disks,
    c: cache.Caches,
    n: nic.Nics,
    latency: npt.NDArray[np.float64],
    thread: int,
    cycles: float,
    sampling: int,
    now_ns: int,
) -> None:
    """Let one thread work for `cycles` of its core's time, less cycles overspent before."""
    f = t.floats[thread]
    job = d.job_of[thread]
    j = d.jobs[job]
    f[th.CREDIT_CYCLES] += cycles
    before = f[th.CREDIT_CYCLES]
    while f[th.CREDIT_CYCLES] > 0:
        if j[nvme.CURRENT] < 0:
            if not _take(t, d, n, thread, job, now_ns):
                break
            f[th.CREDIT_CYCLES] -= f[th.OWN_CYCLES]
            f[th.INSTRUCTIONS] += f[th.OWN_INSTRUCTIONS]
        elif j[nvme.PAGE] == j[nvme.BLOCK_PAGES]:
            _next(t, d, thread, job, now_ns)
        else:
            spent = _touch_page(t, d, c, latency, thread, job, j[nvme.FILLING], sampling)
            f[th.CREDIT_CYCLES] -= spent
            # As for copies, a loop of one instruction per own cycle.
            f[th.INSTRUCTIONS] += nvme.PAGE_LINES * f[th.COPY_CYCLES]
    f[th.CYCLES] += before - f[th.CREDIT_CYCLES]
    # The remaining time is sleep and is not saved up.
    f[th.CREDIT_CYCLES] = min(f[th.CREDIT_CYCLES], 0.0)
