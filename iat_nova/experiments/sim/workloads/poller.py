# SPDX-License-Identifier: Apache-2.0
"""Poll-mode threads: receive, look up, send.

One kind serves testpmd, l3fwd, a guest's virtio forwarder and Open vSwitch's PMD threads. An input
is the thread's own receive ring, or another workload's send ring that the thread empties (a guest's
virtqueue); outputs are alike. Between rings of one owner a packet is passed on in the same buffer,
otherwise the packet is copied.

A packet's service time comes from the running means of the packet's classes of accesses, with or
without sampled lines. So a packet without sampled lines is not faster than other packets. Each
input has its own means, and a burst pays at its end for its own accesses (`threads.settle`).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from iat_nova.experiments.sim import cache, nic, rings
from iat_nova.experiments.sim._compile import inlined, kernel, merged
from iat_nova.experiments.sim.workloads import threads as th

# Columns of `Threads.inputs`: the ring, and the output of its packets: a ring, the entry of each
# packet's target in `Threads.routes[target, lane]` (BY_TARGET), or no ring (CONSUME: served here);
# the row of the input's running means in `Threads.stalls`.
RING, OUTPUT, LANE, STALLS = range(4)
BY_TARGET, CONSUME = -1, -2
BURST = 32  # packets per poll (DPDK's MAX_PKT_BURST, OVS's NETDEV_MAX_BURST)
# Lines of a buffer touched for each packet: two of rte_mbuf and the header.
HEADER_TOUCHES = 3.0


@inlined
def _stream_end(r: rings.Rings, c: cache.Caches, buffer: int, last: int) -> int:
    """Return the line of a buffer at which L2's streamer stops, `last` without prefetching.

    For each line read in order the streamer fetches two lines, so the lead grows by one, up to
    `Machine.streamer_lines`. The streamer stops at the end of the page, not of the packet: a
    thread that reads packets also brings in the lines behind each packet.
    """
    offset = r.offsets[buffer]
    page = (offset + last - 1) // rings.PAGE_LINES * rings.PAGE_LINES - offset
    seen = last - max(page, rings.DATA_LINE)
    lead = min(seen - c.registers[cache.STREAM_LINES], c.registers[cache.STREAMER])
    if lead <= 0:
        return last
    return int(min(last + lead, page + rings.PAGE_LINES, rings.BUFFER_LINES))


@inlined
def _touch(
    t: th.Threads,
    r: rings.Rings,
    c: cache.Caches,
    latency: npt.NDArray[np.float64],
    thread: int,
    row: int,
    buffer: int,
    sharers: int,
    kind: int,
    last: int,
    write: int,
) -> None:
    """Access the sampled lines of a buffer: the mbuf, and data lines below `last`.

    L2's streamer prefetches further lines. In a buffer of another workload's pool (behind a
    virtqueue) a thread accesses the data only.
    """
    core = t.ints[thread, th.CORE]
    own = rings.belongs(r, buffer, t.ints[thread, th.POOL])
    end = _stream_end(r, c, buffer, last)
    for i in range(r.first[buffer], r.first[buffer + 1]):
        place = r.lines[i, 1]
        is_mbuf = own and rings.MBUF_LINE <= place < rings.MBUF_LINE + 2
        if is_mbuf or rings.DATA_LINE <= place < last:
            written = 1 if is_mbuf else write
            level = cache.core_access(c, core, r.lines[i, 0], written, sharers)
            th.note(t, thread, row, th.PACKET if is_mbuf else kind, latency[level])
        elif last <= place < end:
            cache.prefetch(c, core, r.lines[i, 0], sharers)


@kernel
def _copy(
    t: th.Threads,
    r: rings.Rings,
    c: cache.Caches,
    latency: npt.NDArray[np.float64],
    thread: int,
    row: int,
    source: int,
    source_sharers: int,
    target: int,
    target_sharers: int,
    ns_per_cycle: float,
) -> float:
    """Copy a packet from one buffer to another; return the cycles."""
    size = r.packets[source, rings.BYTES]
    lines = rings.payload_lines(size)
    last = rings.DATA_LINE + lines
    for write in range(2):  # one call, as it is inlined
        buffer = target if write else source
        sharers = target_sharers if write else source_sharers
        kind = th.COPY_TO if write else th.COPY_FROM
        _touch(t, r, c, latency, thread, row, buffer, sharers, kind, last, write)
    for column in range(r.packets.shape[1]):
        r.packets[target, column] = r.packets[source, column]
    a_line: float = (
        t.floats[thread, th.COPY_CYCLES] + t.stalls[row, th.COPY_FROM] + t.stalls[row, th.COPY_TO]
    )
    r.packets[target, rings.READY_NS] += int(lines * a_line * ns_per_cycle)
    return lines * a_line


@merged
def _forward(
    t: th.Threads,
    r: rings.Rings,
    c: cache.Caches,
    latency: npt.NDArray[np.float64],
    thread: int,
    row: int,
    source_ring: int,
    buffer: int,
    output: int,
    ns_per_cycle: float,
) -> float:
    """Pass one packet to its output ring; return the cycles of copying, 0 without a copy."""
    pool = t.ints[thread, th.POOL]
    own_source = r.state[source_ring, rings.POOL] == pool
    source_sharers = r.pools[r.state[source_ring, rings.POOL], rings.SHARERS]
    out = r.state[output]
    out_sharers = r.pools[out[rings.POOL], rings.SHARERS]
    cycles = 0.0
    if out[rings.POOL] == pool:
        if not own_source:
            copy = rings.allocate(r, pool)
            if copy < 0:
                out[rings.DROPPED] += 1
                return 0.0
            own_sharers = r.pools[pool, rings.SHARERS]
            cycles = _copy(
                t,
                r,
                c,
                latency,
                thread,
                row,
                buffer,
                source_sharers,
                copy,
                own_sharers,
                ns_per_cycle,
            )
            buffer = copy
        rings.send(r, output, buffer)
        return cycles
    if out[rings.DONE] < out[rings.POSTED]:
        slot = r.slots[output, out[rings.DONE] & (out[rings.SIZE] - 1)]
        cycles = _copy(
            t, r, c, latency, thread, row, buffer, source_sharers, slot, out_sharers, ns_per_cycle
        )
        out[rings.DONE] += 1
        out[rings.PASSED] += 1
        out[rings.PEAK] = max(out[rings.PEAK], out[rings.DONE] - out[rings.TAKEN])
    else:
        out[rings.DROPPED] += 1
    if own_source:
        rings.release(r, pool, buffer)
    return cycles


@kernel
def _reply(
    t: th.Threads,
    r: rings.Rings,
    c: cache.Caches,
    latency: npt.NDArray[np.float64],
    thread: int,
    row: int,
    buffer: int,
    sharers: int,
) -> float:
    """Write the reply over the request in the same buffer; return the cycles."""
    size = int(t.floats[thread, th.REPLY_BYTES])
    lines = rings.payload_lines(size)
    last = rings.DATA_LINE + lines
    _touch(t, r, c, latency, thread, row, buffer, sharers, th.COPY_TO, last, 1)
    r.packets[buffer, rings.BYTES] = size
    a_line: float = t.floats[thread, th.COPY_CYCLES] + t.stalls[row, th.COPY_TO]
    return lines * a_line


@inlined
def _rearm(t: th.Threads, r: rings.Rings, thread: int, source: int) -> None:
    """Give the device new buffers before reading a burst, as i40e's vector receive does.

    So a stack mempool gives the buffers that any ring freed since the last burst. Guests'
    virtqueues follow the same rule. A kernel's ring is filled at each packet, and also here, in
    case the pool was empty before.
    """
    number = t.inputs[source, RING]
    ring = r.state[number]
    if ring[rings.POOL] != t.ints[thread, th.POOL] or ring[rings.HANDOFF]:
        return
    if _is_kernels(r, number):
        _refill_kernels(r, number)
    elif rings.vacant(r, number) > min(rings.REARM, ring[rings.SIZE] - 1):
        rings.refill(r, number, rings.REARM)


@inlined
def _is_kernels(r: rings.Rings, number: int) -> bool:
    """Tell whether a receive ring belongs to a kernel: such a ring has a backlog."""
    return bool(r.state[number, rings.EMPTY_MAX] < r.state[number, rings.SIZE])


@inlined
def _refill_kernels(r: rings.Rings, number: int) -> None:
    """Fill a kernel's receive ring once `rings.REARM` buffers or more are missing."""
    space = rings.vacant(r, number)
    if space >= rings.REARM:
        rings.refill(r, number, space)


@inlined
def _reclaim(t: th.Threads, r: rings.Rings, thread: int, source: int) -> None:
    """Free sent buffers once per burst, not per packet, because a burst is allocated as a whole.

    i40e frees buffers before posting a burst, with the same effect. If a virtual switch sends to a
    card by target, `rings.send` makes room instead.
    """
    output = t.inputs[source, OUTPUT]
    if output >= 0:
        own = r.state[output, rings.POOL] == t.ints[thread, th.POOL]
        if own and rings.vacant(r, output) < rings.RECLAIM:
            rings.reclaim(r, output)


@merged
def _serve(
    t: th.Threads,
    r: rings.Rings,
    c: cache.Caches,
    n: nic.Nics,
    latency: npt.NDArray[np.float64],
    thread: int,
    source: int,
    ns_per_cycle: float,
) -> float:
    """Serve the packet at the head of an input; return the cycles.

    Service begins when the thread is free and the packet is ready. The number of packets per step
    depends on cycles alone.
    """
    f = t.floats[thread]
    number, row = t.inputs[source, RING], t.inputs[source, STALLS]
    ring = r.state[number]
    own = ring[rings.POOL] == t.ints[thread, th.POOL]
    received = own and not ring[rings.HANDOFF]
    taken = ring[rings.TAKEN] if received else ring[rings.DONE]
    buffer = r.slots[number, taken & (ring[rings.SIZE] - 1)]
    if own:
        ring[rings.TAKEN] += 1
    if received:
        if _is_kernels(r, number):
            _refill_kernels(r, number)
    else:
        ring[rings.DONE] += 1
        ring[rings.PASSED] += 1
    size = r.packets[buffer, rings.BYTES]
    lines = rings.payload_lines(size)
    read = max(1, int(lines * f[th.PAYLOAD_SHARE]))
    sharers = r.pools[ring[rings.POOL], rings.SHARERS]
    last = rings.DATA_LINE + read
    _touch(
        t, r, c, latency, thread, row, buffer, sharers, th.PACKET, last, int(f[th.PAYLOAD_WRITES])
    )
    cycles: float = (
        f[th.OWN_CYCLES]
        + (HEADER_TOUCHES - 1 + read) * t.stalls[row, th.PACKET]
        + f[th.TOUCHES] * t.stalls[thread, th.OWN]
    )
    if f[th.REPLY_BYTES] > 0:
        cycles += _reply(t, r, c, latency, thread, row, buffer, sharers)
    begun_ns = max(f[th.CLOCK_NS], float(r.packets[buffer, rings.READY_NS]))
    f[th.CLOCK_NS] = begun_ns + cycles * ns_per_cycle
    r.packets[buffer, rings.READY_NS] = int(f[th.CLOCK_NS])
    output = t.inputs[source, OUTPUT]
    if output == BY_TARGET:
        output = t.routes[r.packets[buffer, rings.TARGET], t.inputs[source, LANE]]
    if output == CONSUME:
        latency_ns = r.packets[buffer, rings.READY_NS] - r.packets[buffer, rings.ARRIVED_NS]
        nic.count_served(n, r.packets[buffer, rings.TARGET], size, latency_ns)
        if own:
            rings.release(r, ring[rings.POOL], buffer)
        return cycles
    copying = _forward(t, r, c, latency, thread, row, number, buffer, output, ns_per_cycle)
    if copying > 0:
        f[th.CLOCK_NS] += copying * ns_per_cycle
        # Copies run at about one instruction per own cycle.
        f[th.INSTRUCTIONS] += lines * f[th.COPY_CYCLES]
    return cycles + copying


@inlined
def _waiting(t: th.Threads, r: rings.Rings, thread: int, source: int) -> int:
    """Return the number of packets that wait at an input."""
    ring = r.state[t.inputs[source, RING]]
    received = ring[rings.POOL] == t.ints[thread, th.POOL] and not ring[rings.HANDOFF]
    waiting: int = (
        ring[rings.DONE] - ring[rings.TAKEN] if received else ring[rings.POSTED] - ring[rings.DONE]
    )
    return waiting


@inlined
def step(
    t: th.Threads,
    r: rings.Rings,
    c: cache.Caches,
    n: nic.Nics,
    latency: npt.NDArray[np.float64],
    thread: int,
    cycles: float,
    sampling: int,
    length_ns: int,
    now_ns: int,
) -> None:
    """Run one polling thread for a time step of `length_ns` that ends at `now_ns`.

    `cycles`: the cycles of a core in a step. Other work on the core can take some of these cycles.
    """
    f = t.floats[thread]
    i = t.ints[thread]
    ns_per_cycle = length_ns / cycles
    f[th.CYCLES] += cycles
    on_cycles = th.on_core(t, thread, cycles)
    f[th.IDLE_CYCLES] += cycles - on_cycles
    # The overrun of the last step, and the time off the core, come first.
    late_cycles = cycles - on_cycles - f[th.CREDIT_CYCLES]
    f[th.CLOCK_NS] = now_ns - length_ns + late_cycles * ns_per_cycle
    f[th.CREDIT_CYCLES] += on_cycles
    served = 0
    idle_inputs = 0
    while f[th.CREDIT_CYCLES] > 0 and idle_inputs < i[th.INPUTS_COUNT]:
        source = i[th.INPUTS] + i[th.NEXT]
        i[th.NEXT] = (i[th.NEXT] + 1) % i[th.INPUTS_COUNT]
        _rearm(t, r, thread, source)
        count = min(_waiting(t, r, thread, source), BURST)
        idle_inputs = 0 if count else idle_inputs + 1
        for _ in range(count):
            f[th.CREDIT_CYCLES] -= _serve(t, r, c, n, latency, thread, source, ns_per_cycle)
        if count:
            more_cycles = th.settle(t, thread, t.inputs[source, STALLS], sampling)
            f[th.CREDIT_CYCLES] -= more_cycles
            f[th.CLOCK_NS] += more_cycles * ns_per_cycle
            _reclaim(t, r, thread, source)
        served += count
    f[th.WORK] += served
    f[th.INSTRUCTIONS] += served * f[th.OWN_INSTRUCTIONS]
    if f[th.TOUCHES] > 0:
        th.own_accesses(t, c, latency, thread, served * f[th.TOUCHES] / sampling)
    if f[th.CREDIT_CYCLES] > 0:
        f[th.INSTRUCTIONS] += f[th.CREDIT_CYCLES] * f[th.SPIN_IPC]
        f[th.IDLE_CYCLES] += f[th.CREDIT_CYCLES]
        f[th.CREDIT_CYCLES] = 0.0
