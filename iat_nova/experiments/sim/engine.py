# SPDX-License-Identifier: Apache-2.0
"""The compiled main loop: devices and threads take turns in steps of a few microseconds."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from iat_nova.experiments.sim import cache, clients, memory, nic, nvme, rings
from iat_nova.experiments.sim._compile import kernel, merged
from iat_nova.experiments.sim.workloads import fio, memory_bound, poller
from iat_nova.experiments.sim.workloads import threads as th

# The interval at which memory's latency is adapted to the load, and the LRU clock is checked.
MEMORY_INTERVAL_NS = 50_000


class State(NamedTuple):
    """The whole state: `caches` and `memory` of the first socket, `far...` of the second.

    With one socket, `far...` repeat the first socket and are not used, so that one compiled form
    serves both kinds of machine. Disks belong to the first socket. `delays`: cycles by which each
    CPU's L2 misses are delayed (MBA). `delayed`: working space for the latencies of one CPU.
    """

    caches: cache.Caches
    memory: memory.Memory
    rings: rings.Rings
    nics: nic.Nics
    clients: clients.Clients
    disks: nvme.Disks
    threads: th.Threads
    far_caches: cache.Caches
    far_memory: memory.Memory
    delays: npt.NDArray[np.float64]
    delayed: npt.NDArray[np.float64]


@merged
def _run_threads(
    s: State,
    c: cache.Caches,
    latency: npt.NDArray[np.float64],
    first: int,
    cycles: float,
    sampling: int,
    length_ns: int,
    now_ns: int,
) -> int:
    """Let threads run on their cores in order, from `first` to the next thread of another socket.

    Return the number of that thread, or the number of all threads. The code of each kind of thread
    is compiled in here once for each socket.
    """
    cores = c.registers[cache.CORES]
    for thread in range(first, s.threads.ints.shape[0]):
        if s.threads.floats[thread, th.DUTY] == 0.0:
            continue
        core = s.threads.ints[thread, th.CORE]
        if cores >> core & 1 == 0:
            return thread
        times = latency
        if s.delays[core]:
            for level in range(cache.LEVELS):
                delay = 0.0 if level == cache.L2 else s.delays[core]
                s.delayed[level] = latency[level] + delay
            times = s.delayed
        kind = s.threads.ints[thread, th.KIND]
        if kind == th.POLLER:
            poller.step(
                s.threads, s.rings, c, s.nics, times, thread, cycles, sampling, length_ns, now_ns
            )
        elif kind == th.STORAGE:
            fio.step(s.threads, s.disks, c, s.nics, times, thread, cycles, sampling, now_ns)
        else:
            memory_bound.step(s.threads, c, times, thread, cycles, sampling)
    return int(s.threads.ints.shape[0])


# The second socket has calls of its own, so that a machine with one socket has no cost of two.


@kernel
def _run_afar(
    s: State, first: int, cycles: float, sampling: int, length_ns: int, now_ns: int
) -> int:
    """Let threads run on the second socket, see `_run_threads`."""
    return _run_threads(
        s, s.far_caches, s.far_memory.latency, first, cycles, sampling, length_ns, now_ns
    )


@kernel
def _receive_afar(s: State, seconds: float, now_ns: int) -> None:
    """Let packets arrive at the second socket's cards."""
    nic.receive(s.nics, s.rings, s.far_caches, 1, seconds, now_ns)


@kernel
def _transmit_afar(s: State, now_ns: int) -> None:
    """Send packets from the second socket's cards."""
    nic.transmit(s.nics, s.rings, s.far_caches, 1, now_ns)


@kernel
def advance(
    s: State, start_ns: int, end_ns: int, step_ns: int, frequency_hz: float, sampling: int
) -> None:
    """Run the machine from `start_ns` to `end_ns` of simulated time."""
    now_ns = start_ns
    memory_due_ns = start_ns + MEMORY_INTERVAL_NS
    linked = s.caches.registers[cache.LINKED] != 0
    while now_ns < end_ns:
        length_ns = min(step_ns, end_ns - now_ns)
        now_ns += length_ns
        seconds = length_ns * 1e-9
        cycles = seconds * frequency_hz
        nic.receive(s.nics, s.rings, s.caches, 0, seconds, now_ns)
        if linked:
            _receive_afar(s, seconds, now_ns)
        nvme.step(s.disks, s.caches, seconds, now_ns, sampling)
        thread = 0
        while thread < s.threads.ints.shape[0]:
            thread = _run_threads(
                s, s.caches, s.memory.latency, thread, cycles, sampling, length_ns, now_ns
            )
            if linked and thread < s.threads.ints.shape[0]:
                thread = _run_afar(s, thread, cycles, sampling, length_ns, now_ns)
        nic.grant(s.nics, seconds)
        nic.transmit(s.nics, s.rings, s.caches, 0, now_ns)
        if linked:
            _transmit_afar(s, now_ns)
        clients.step(s.clients, s.nics, now_ns - length_ns, now_ns)
        if now_ns >= memory_due_ns or now_ns == end_ns:
            cache.renumber(s.caches)
            memory.update(s.memory, s.caches, now_ns * 1e-9)
            if linked:
                cache.renumber(s.far_caches)
                memory.update(s.far_memory, s.far_caches, now_ns * 1e-9)
            memory_due_ns = now_ns + MEMORY_INTERVAL_NS
