# SPDX-License-Identifier: Apache-2.0
"""The compiled heart: devices and threads take turns in steps of a few microseconds."""

from __future__ import annotations

from typing import NamedTuple

from iat_nova.sim import cache, clients, memory, nic, nvme, rings
from iat_nova.sim._compile import kernel
from iat_nova.sim.workloads import fio, memory_bound, poller
from iat_nova.sim.workloads import threads as th

# Memory's latency follows its load, and the LRU clock is looked at, at this interval.
MEMORY_INTERVAL_NS = 50_000


class State(NamedTuple):
    """Everything that runs in one socket."""

    caches: cache.Caches
    memory: memory.Memory
    rings: rings.Rings
    nics: nic.Nics
    clients: clients.Clients
    disks: nvme.Disks
    threads: th.Threads


@kernel
def advance(
    s: State, start_ns: int, end_ns: int, step_ns: int, frequency_hz: float, sampling: int
) -> None:
    """Run the machine from `start_ns` to `end_ns` of its own time."""
    now_ns = start_ns
    memory_due_ns = start_ns + MEMORY_INTERVAL_NS
    while now_ns < end_ns:
        length_ns = min(step_ns, end_ns - now_ns)
        now_ns += length_ns
        seconds = length_ns * 1e-9
        cycles = seconds * frequency_hz
        nic.receive(s.nics, s.rings, s.caches, seconds, now_ns)
        nvme.step(s.disks, s.caches, seconds, now_ns, sampling)
        for thread in range(s.threads.ints.shape[0]):
            if s.threads.floats[thread, th.DUTY] == 0.0:
                continue
            if s.threads.ints[thread, th.KIND] == th.POLLER:
                poller.step(
                    s.threads,
                    s.rings,
                    s.caches,
                    s.nics,
                    s.memory.latency,
                    thread,
                    cycles,
                    sampling,
                    now_ns,
                )
            elif s.threads.ints[thread, th.KIND] == th.STORAGE:
                fio.step(
                    s.threads,
                    s.disks,
                    s.caches,
                    s.nics,
                    s.memory.latency,
                    thread,
                    cycles,
                    sampling,
                    now_ns,
                )
            else:
                memory_bound.step(s.threads, s.caches, s.memory.latency, thread, cycles, sampling)
        nic.transmit(s.nics, s.rings, s.caches, seconds, now_ns)
        clients.step(s.clients, s.nics, now_ns - length_ns, now_ns)
        if now_ns >= memory_due_ns or now_ns == end_ns:
            cache.renumber(s.caches)
            memory.update(s.memory, s.caches, now_ns * 1e-9)
            memory_due_ns = now_ns + MEMORY_INTERVAL_NS
