/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory: used bandwidth, and a latency that rises with the bandwidth. Only the latency limits the bandwidth: with a
 * higher latency, cores that wait for their misses make fewer misses. So the bandwidth settles below the DIMMs' peak.
 */

/* The latency without load is multiplied by 1 + QUEUEING * u^2 / (1 - u) at utilisation u of the DIMMs' peak, the shape
 * of a queue. The factor is fitted to Intel's Memory Latency Checker on a Xeon Platinum 8180 with 6 channels of DDR4-2666
 * (FD.io CSIT's calibration data, a socket of two): 95 ns at 42 GB/s, 101 at 56, 122 at 80, 227 to 283 at 108. u is
 * capped, because devices do not slow down as cores do. */
#define QUEUEING 0.45
#define UTILISATION_MAX 0.97

/* Return the number of sampled lines written to memory. */
static i64 memory_writes(const Caches *c) {
    const Totals *t = c->totals;
    return t->write_backs + t->cleaned + t->dma_memory_writes + t->written_through;
}

/* Return the number of sampled lines that crossed the memory bus, reads and writes. */
static i64 memory_lines(const Caches *c) {
    i64 total = memory_writes(c) + c->totals->dma_read_misses;
    for (i64 core = 0; core < c->cores; core++)
        if (c->registers->cores >> core & 1)
            total += c->served[core * LEVELS + MEMORY] + c->prefetched[core * LEVELS + MEMORY];
    return total;
}

/* Return the ratio of the latency under load to the latency without load. */
static f64 slowdown(f64 utilisation) {
    f64 u = min_f64(utilisation, UTILISATION_MAX);
    return 1.0 + QUEUEING * u * u / (1.0 - u);
}

/* Measure the traffic since the last update and set the resulting latency. */
static void update_memory(Memory *m, const Caches *c, f64 seconds) {
    MemoryValues *v = m->values;
    f64 lines = (f64)memory_lines(c), writes = (f64)memory_writes(c), elapsed = seconds - v->seconds;
    if (elapsed <= 0) return;
    f64 moved = lines - v->lines + (WRITE_COST - 1.0) * (writes - v->writes);
    f64 used = moved * v->bytes_per_line / elapsed / v->bytes_per_s;
    v->lines = lines;
    v->writes = writes;
    v->seconds = seconds;
    m->load[0] += v->smoothing * (used - m->load[0]);
    m->latency[MEMORY] = v->idle_cycles * slowdown(m->load[0]);
}
