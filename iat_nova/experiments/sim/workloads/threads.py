# SPDX-License-Identifier: Apache-2.0
"""Threads: the state common to all kinds of workload, and their accesses to the caches."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from iat_nova.experiments.sim import cache, lcg
from iat_nova.experiments.sim._compile import inlined, kernel
from iat_nova.experiments.sim.workloads.locality import SLOT_BITS

MEMORY_BOUND, POLLER, STORAGE = range(3)

# Columns of `Threads.ints`. FIRST_LINE: start of the thread's own memory. SLOT_MASK chooses among
# the thread's rows of `Threads.stretches`: 0 for one stretch, locality.SLOTS - 1 for a whole table.
KIND, CORE, RANDOM, FIRST_LINE, SLOT_MASK, WRITES_PERCENT, POOL, INPUTS, INPUTS_COUNT, NEXT = range(
    10
)
INTS = 10

# Columns of `Threads.floats`.
(
    CREDIT_CYCLES,  # cycles that may be spent; negative when a step overran
    ACCESS_CREDIT,  # due sampled accesses to own memory
    OWN_CYCLES,  # own cycles per unit of work (an access, a packet)
    OWN_INSTRUCTIONS,
    DUTY,  # 0..1: share of the time without sleep
    TOUCHES,  # accesses to own memory per unit of work, without accesses that L1 serves
    PAYLOAD_SHARE,  # 0..1: share of a packet's lines that the thread itself reads
    COPY_CYCLES,  # own cycles of copying a line
    SPIN_IPC,  # instructions per cycle during empty polling
    REPLY_BYTES,  # size of a reply's frame; 0: the size of the request
    INSTRUCTIONS,
    CYCLES,
    WORK,  # units of work done
    LATENCY_CYCLES,  # sum over sampled accesses to own memory
    LATENCY_SAMPLES,
    OFF_MAX_CYCLES,  # the longest time off the core; 0: the thread never loses its core
    OFF_CYCLES,  # remaining time off the core
    ON_CYCLES,  # time until the thread loses its core again
    PAYLOAD_WRITES,  # 1: payload that is read is also written (encryption in place)
    CLOCK_NS,  # the thread's position within a step
    IDLE_CYCLES,  # of CYCLES: empty polling, or off the core
    OFF_EVERY_CYCLES,  # mean time between two losses of the core
    RUNNING,  # weight of one sampled access in the running means
    CREDIBLE_LINES,  # sampled lines for which a burst's own mean counts as much as the running mean
) = range(24)
FLOATS = 24

# Classes of accesses, each with a running mean of stall cycles (`stalls`) and its own memory-level
# parallelism (`overlap`: the number of misses served at a time).
OWN, PACKET, COPY_FROM, COPY_TO = range(4)
CLASSES = 4
# Columns of `Threads.bursts`: sampled lines, and the sum of their stall cycles.
LINES, STALLED = range(2)


class Threads(NamedTuple):
    """All threads, one row each."""

    ints: npt.NDArray[np.int64]
    floats: npt.NDArray[np.float64]
    stalls: npt.NDArray[np.float64]  # [row, class]: a row for each thread, then for each input
    bursts: npt.NDArray[np.float64]  # [row, class, see LINES ...]: of the burst being served
    overlap: npt.NDArray[np.float64]  # [thread, class]
    inputs: npt.NDArray[np.int64]  # see poller
    routes: npt.NDArray[np.int64]  # see poller
    stretches: npt.NDArray[np.int32]  # [thread, slot, (first sampled line, lines)], see locality


@kernel
def draw(t: Threads, thread: int) -> int:
    """Return the thread's next random number, 0 to `lcg.RANGE` - 1."""
    state = lcg.following(t.ints[thread, RANDOM])
    t.ints[thread, RANDOM] = state
    return lcg.number(state)


@kernel
def on_core(t: Threads, thread: int, cycles: float) -> float:
    """Return the part of a step's `cycles` in which a thread has its core (scheduling jitter).

    The time off the core is evenly spread up to OFF_MAX_CYCLES.
    """
    f = t.floats[thread]
    if f[OFF_MAX_CYCLES] == 0.0:
        return cycles
    f[ON_CYCLES] -= cycles
    if f[ON_CYCLES] < 0.0:
        f[OFF_CYCLES] += draw(t, thread) / lcg.RANGE * f[OFF_MAX_CYCLES]
        f[ON_CYCLES] = f[OFF_EVERY_CYCLES] * (0.5 + draw(t, thread) / lcg.RANGE)
    off = min(cycles, f[OFF_CYCLES])
    f[OFF_CYCLES] -= off
    left: float = cycles - off
    return left


@kernel
def observe(t: Threads, thread: int, kind: int, cycles: float) -> None:
    """Add the latency of one sampled access to the running mean of the access's class."""
    stall = cycles / t.overlap[thread, kind]
    t.stalls[thread, kind] += t.floats[thread, RUNNING] * (stall - t.stalls[thread, kind])


@inlined
def note(t: Threads, thread: int, row: int, kind: int, cycles: float) -> None:
    """Add the latency of one sampled access to the burst that a thread serves."""
    t.bursts[row, kind, LINES] += 1.0
    t.bursts[row, kind, STALLED] += cycles / t.overlap[thread, kind]


@kernel
def settle(t: Threads, thread: int, row: int, sampling: int) -> float:
    """Return the cycles by which a thread's burst cost more than charged; update the running means.

    Packets are charged the running means of their input. The buffers of a burst travel together, so
    a burst finds most of its lines in the LLC or most of its lines in memory. Charged later, as the
    mean follows, this cost would fall on other bursts: threads would keep another rhythm, and the
    devices' writes would meet other lines. A burst's own mean counts by its number of sampled lines
    (credibility, after Buehlmann 1967).
    """
    f = t.floats[thread]
    cycles = 0.0
    for kind in range(CLASSES):
        lines = t.bursts[row, kind, LINES]
        if lines == 0.0:
            continue
        above = t.bursts[row, kind, STALLED] / lines - t.stalls[row, kind]
        cycles += above * sampling * lines * lines / (lines + f[CREDIBLE_LINES])
        t.stalls[row, kind] += above * min(1.0, lines * f[RUNNING])
        t.bursts[row, kind, LINES] = 0.0
        t.bursts[row, kind, STALLED] = 0.0
    return cycles


@inlined
def own_accesses(
    t: Threads, c: cache.Caches, latency: npt.NDArray[np.float64], thread: int, sampled: float
) -> None:
    """Let a thread access its own memory by its table; `sampled`: number of accesses, a float."""
    f = t.floats[thread]
    i = t.ints[thread]
    f[ACCESS_CREDIT] += sampled
    count = int(f[ACCESS_CREDIT])
    f[ACCESS_CREDIT] -= count
    # In locals, because the compiler must assume that a cache access changes the arrays.
    core, mask, writes_percent = i[CORE], i[SLOT_MASK], i[WRITES_PERCENT]
    state, overlap, mean = i[RANDOM], t.overlap[thread, OWN], t.stalls[thread, OWN]
    total_cycles, running = f[LATENCY_CYCLES], f[RUNNING]
    stretches = t.stretches[thread]
    for _ in range(count):
        state = lcg.following(state)
        number = lcg.number(state)
        slot = number & mask
        start, lines = int(stretches[slot, 0]), int(stretches[slot, 1])
        line = cache.frame_of(c, start + (((number >> SLOT_BITS) * lines) >> (31 - SLOT_BITS)))
        write = 0
        if writes_percent:
            state = lcg.following(state)
            write = 1 if lcg.number(state) % 100 < writes_percent else 0
        cycles = latency[cache.core_access(c, core, line, write, 0)]
        mean += running * (cycles / overlap - mean)
        total_cycles += cycles
    i[RANDOM] = state
    t.stalls[thread, OWN] = mean
    f[LATENCY_CYCLES] = total_cycles
    f[LATENCY_SAMPLES] += count
