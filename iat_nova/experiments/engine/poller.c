/* SPDX-License-Identifier: Apache-2.0
 *
 * Poll-mode threads: receive, look up, send.
 *
 * One kind serves testpmd, l3fwd, a guest's virtio forwarder and Open vSwitch's PMD threads. An input is the thread's own
 * receive ring, or another workload's send ring that the thread empties (a guest's virtqueue); outputs are alike. Between
 * rings of one owner a packet is passed on in the same buffer, otherwise the packet is copied.
 *
 * A packet's service time comes from the running means of the packet's classes of accesses, with or without sampled
 * lines. So a packet without sampled lines is not faster than other packets. Each input has its own means, and a burst
 * pays at its end for its own accesses (settle).
 */

enum { BURST_MAX = 32 };      /* packets per poll (DPDK's MAX_PKT_BURST, OVS's NETDEV_MAX_BURST) */
#define HEADER_TOUCHES 3.0    /* lines of a buffer touched for each packet: two of rte_mbuf and the header */

/* What a poll works on: a thread with its caches, and the input. `row`: of the input's running means. */
typedef struct {
    Threads *threads;
    Rings *rings;
    Caches *caches;
    Nics *nics;
    const f64 *latency;
    ThreadFloats *f;
    ThreadInts *i;
    i64 thread, row;
    f64 ns_per_cycle;
} Poll;

INLINE f64 mean_stall(const Poll *p, int class) { return p->threads->stalls[p->row * CLASSES + class]; }

/* Return the line of a buffer at which L2's streamer stops, `last` without prefetching. For each line read in order the
 * streamer fetches two lines, so the lead grows by one, up to `streamer`. The streamer stops at the end of the page, not
 * of the packet: a thread that reads packets also brings in the lines behind each packet. */
INLINE i64 stream_end(const Rings *r, const Caches *c, i64 buffer, i64 last) {
    i64 offset = r->offsets[buffer];
    i64 page = (offset + last - 1) / PAGE_LINES * PAGE_LINES - offset;
    i64 read = last - max_i64(page, DATA_LINE);
    i64 lead = min_i64(read - c->registers->stream_lines, c->registers->streamer);
    if (lead <= 0) return last;
    return min_i64(min_i64(last + lead, page + PAGE_LINES), BUFFER_LINES);
}

/* Access the sampled lines of a buffer: the mbuf, and data lines below `last`. L2's streamer prefetches further lines. In
 * a buffer of another workload's pool (behind a virtqueue) a thread accesses the data only. */
static void touch_buffer(Poll *p, i64 buffer, i64 sharers, int class, i64 last, int write) {
    Rings *r = p->rings;
    Caches *c = p->caches;
    i64 core = p->i->core, end = stream_end(r, c, buffer, last);
    int own = belongs(r, buffer, p->i->pool);
    for (i64 i = r->first[buffer]; i < r->first[buffer + 1]; i++) {
        BufferLine at = r->lines[i];
        int is_mbuf = own && MBUF_LINE <= at.place && at.place < MBUF_LINE + 2;
        if (is_mbuf || (DATA_LINE <= at.place && at.place < last)) {
            int level = core_access(c, core, at.line, is_mbuf ? 1 : write, sharers);
            note_access(p->threads, p->thread, p->row, is_mbuf ? PACKET : class, p->latency[level]);
        } else if (last <= at.place && at.place < end) {
            prefetch(c, core, at.line, sharers);
        }
    }
}

/* Copy a packet from one buffer to another; return the cycles. */
static f64 copy_packet(Poll *p, i64 source, i64 source_sharers, i64 target, i64 target_sharers) {
    Packet *packets = p->rings->packets;
    i64 lines = payload_lines(packets[source].bytes), last = DATA_LINE + lines;
    touch_buffer(p, source, source_sharers, COPY_FROM, last, 0);
    touch_buffer(p, target, target_sharers, COPY_TO, last, 1);
    f64 a_line = p->f->copy_cycles + mean_stall(p, COPY_FROM) + mean_stall(p, COPY_TO);
    packets[target] = packets[source];
    packets[target].ready_ns += (i64)((f64)lines * a_line * p->ns_per_cycle);
    return (f64)lines * a_line;
}

/* Pass one packet to its output ring; return the cycles of copying, 0 without a copy. */
static f64 forward_packet(Poll *p, const Ring *source, i64 buffer, i64 output) {
    Rings *r = p->rings;
    i64 pool = p->i->pool;
    int own_source = source->pool == pool;
    i64 source_sharers = r->pools[source->pool].sharers;
    Ring *out = r->state + output;
    f64 cycles = 0.0;
    if (out->pool == pool) {
        if (!own_source) {
            i64 copy = allocate_buffer(r, pool);
            if (copy < 0) {
                out->dropped++;
                return 0.0;
            }
            cycles = copy_packet(p, buffer, source_sharers, copy, r->pools[pool].sharers);
            buffer = copy;
        }
        send_buffer(r, output, buffer);
        return cycles;
    }
    if (out->done < out->posted) {
        i64 slot = *slot_of(r, output, out->done);
        cycles = copy_packet(p, buffer, source_sharers, slot, r->pools[out->pool].sharers);
        out->done++;
        out->passed++;
        out->peak = max_i64(out->peak, out->done - out->taken);
    } else {
        out->dropped++;
    }
    if (own_source) release(r, pool, buffer);
    return cycles;
}

/* Write the reply over the request in the same buffer; return the cycles. */
static f64 write_reply(Poll *p, i64 buffer, i64 sharers) {
    i64 size = (i64)p->f->reply_bytes, lines = payload_lines(size);
    touch_buffer(p, buffer, sharers, COPY_TO, DATA_LINE + lines, 1);
    p->rings->packets[buffer].bytes = size;
    return (f64)lines * (p->f->copy_cycles + mean_stall(p, COPY_TO));
}

/* Tell whether a receive ring belongs to a kernel: such a ring has a backlog. */
INLINE int is_kernels(const Ring *ring) { return ring->empty_max < ring->size; }

/* Fill a kernel's receive ring once REARM buffers or more are missing. */
static void refill_kernels(Rings *r, i64 number) {
    i64 space = vacant(r->state + number);
    if (space >= REARM) refill(r, number, space);
}

/* Give the device new buffers before reading a burst, as i40e's vector receive does. So a stack mempool gives the buffers
 * that any ring freed since the last burst. Guests' virtqueues follow the same rule. A kernel's ring is filled at each
 * packet, and also here, in case the pool was empty before. */
static void rearm(Poll *p, i64 number) {
    Ring *ring = p->rings->state + number;
    if (ring->pool != p->i->pool || ring->handoff) return;
    if (is_kernels(ring)) refill_kernels(p->rings, number);
    else if (vacant(ring) > min_i64(REARM, ring->size - 1)) refill(p->rings, number, REARM);
}

/* Free sent buffers once per burst, not per packet, because a burst is allocated as a whole. i40e frees buffers before
 * posting a burst, with the same effect. If a virtual switch sends to a card by target, send_buffer makes room instead. */
static void reclaim_sent(Poll *p, i64 output) {
    if (output < 0) return;
    const Ring *ring = p->rings->state + output;
    if (ring->pool == p->i->pool && vacant(ring) < RECLAIM) reclaim(p->rings, output);
}

/* Tell whether an input is a ring in which the thread receives into its own buffers. */
INLINE int receives(const Poll *p, const Ring *ring) { return ring->pool == p->i->pool && !ring->handoff; }

/* Serve the packet at the head of an input; return the cycles. Service begins when the thread is free and the packet is
 * ready. The number of packets per step depends on cycles alone. */
static f64 serve_packet(Poll *p, const Input *input) {
    Rings *r = p->rings;
    ThreadFloats *f = p->f;
    Ring *ring = r->state + input->ring;
    int own = ring->pool == p->i->pool, received = receives(p, ring);
    i64 buffer = *slot_of(r, input->ring, received ? ring->taken : ring->done);
    if (own) ring->taken++;
    if (received) {
        if (is_kernels(ring)) refill_kernels(r, input->ring);
    } else {
        ring->done++;
        ring->passed++;
    }
    Packet *packet = r->packets + buffer;
    i64 size = packet->bytes, lines = payload_lines(size);
    i64 read = max_i64(1, (i64)((f64)lines * f->payload_share));
    i64 sharers = r->pools[ring->pool].sharers;
    touch_buffer(p, buffer, sharers, PACKET, DATA_LINE + read, (int)f->payload_writes);
    f64 cycles = f->own_cycles + (HEADER_TOUCHES - 1 + (f64)read) * mean_stall(p, PACKET)
                 + f->touches * p->threads->stalls[p->thread * CLASSES + OWN];
    if (f->reply_bytes > 0) cycles += write_reply(p, buffer, sharers);
    f64 begun_ns = max_f64(f->clock_ns, (f64)packet->ready_ns);
    f->clock_ns = begun_ns + cycles * p->ns_per_cycle;
    packet->ready_ns = (i64)f->clock_ns;
    i64 output = input->output;
    if (output == BY_TARGET) output = p->threads->routes[packet->target * p->threads->route_lanes + input->lane];
    if (output == CONSUME) {
        count_served(p->nics, packet->target, size, packet->ready_ns - packet->arrived_ns);
        if (own) release(r, ring->pool, buffer);
        return cycles;
    }
    f64 copying = forward_packet(p, ring, buffer, output);
    if (copying > 0) {
        f->clock_ns += copying * p->ns_per_cycle;
        f->instructions += (f64)lines * f->copy_cycles; /* copies run at about one instruction per own cycle */
    }
    return cycles + copying;
}

/* Return the number of packets that wait at an input. */
INLINE i64 waiting_packets(const Poll *p, i64 number) {
    const Ring *ring = p->rings->state + number;
    return receives(p, ring) ? ring->done - ring->taken : ring->posted - ring->done;
}

/* Run one polling thread for a time step of `length_ns` that ends at `now_ns`. `cycles`: the cycles of a core in a step.
 * Other work on the core can take some of these cycles. */
static void step_poller(Poll *p, f64 cycles, i64 sampling, i64 length_ns, i64 now_ns) {
    Threads *t = p->threads;
    ThreadFloats *f = p->f;
    ThreadInts *i = p->i;
    p->ns_per_cycle = (f64)length_ns / cycles;
    f->cycles += cycles;
    f64 on_cycles = cycles_on_core(t, p->thread, cycles);
    f->idle_cycles += cycles - on_cycles;
    /* The overrun of the last step, and the time off the core, come first. */
    f64 late_cycles = cycles - on_cycles - f->credit_cycles;
    f->clock_ns = (f64)(now_ns - length_ns) + late_cycles * p->ns_per_cycle;
    f->credit_cycles += on_cycles;
    i64 served = 0, idle_inputs = 0;
    while (f->credit_cycles > 0 && idle_inputs < i->inputs_count) {
        const Input *input = t->inputs + i->inputs + i->next;
        i->next = (i->next + 1) % i->inputs_count;
        p->row = input->stalls;
        rearm(p, input->ring);
        i64 count = min_i64(waiting_packets(p, input->ring), BURST_MAX);
        idle_inputs = count ? 0 : idle_inputs + 1;
        for (i64 packet = 0; packet < count; packet++) f->credit_cycles -= serve_packet(p, input);
        if (count) {
            f64 more_cycles = settle(t, p->thread, p->row, sampling);
            f->credit_cycles -= more_cycles;
            f->clock_ns += more_cycles * p->ns_per_cycle;
            reclaim_sent(p, input->output);
        }
        served += count;
    }
    f->work += (f64)served;
    f->instructions += (f64)served * f->own_instructions;
    if (f->touches > 0)
        own_accesses(t, p->caches, p->latency, p->thread, (f64)served * f->touches / (f64)sampling);
    if (f->credit_cycles > 0) {
        f->instructions += f->credit_cycles * f->spin_ipc;
        f->idle_cycles += f->credit_cycles;
        f->credit_cycles = 0.0;
    }
}
