/* SPDX-License-Identifier: Apache-2.0
 *
 * The main loop: devices and threads take turns in steps of a few microseconds. One unit of compilation has all parts, so
 * that a cache access is part of the loops that call it. Python calls the functions marked EXPORT (library.py).
 */
#include "ways.h"
#include "random.h"
#include "replacement.h"

#include "adaptive.c"
#include "llc.c"
#include "cache.c"
#include "memory.c"
#include "rings.c"
#include "card.c"
#include "clients.c"
#include "disk.c"
#include "threads.c"
#include "fio.c"
#include "poller.c"

/* The interval at which memory's latency is adapted to the load, and the LRU clock is checked. */
enum { MEMORY_INTERVAL_NS = 50000 };

/* Each variant for a CPU has names of its own; see engine_avx2.c. */
#ifndef VARIANT
#define VARIANT(name) iat_##name

/* Return the digest of the sources, empty unless a package was built of these. */
#ifndef IAT_SOURCES
#define IAT_SOURCES ""
#endif
const char *iat_sources(void);
const char *iat_sources(void) { return IAT_SOURCES; }

/* Tell whether this CPU can run engine_avx2.c. */
int iat_has_avx2(void);
int iat_has_avx2(void) {
#if defined(__x86_64__) && !defined(SCALAR) && !defined(PORTABLE)
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2");
#else
    return 0;
#endif
}
#endif
#define EXPORT(type, name) type VARIANT(name)

/* A step: its length and end, its cycles, and one line in `sampling` is simulated. */
typedef struct { i64 length_ns, now_ns; f64 cycles; i64 sampling; } Step;

/* Let threads run on their cores in order, from `thread` to the next thread of another socket; return the number of that
 * thread, or the number of all threads. */
static i64 run_threads(State *s, Caches *c, const f64 *latency, i64 thread, const Step *step) {
    Threads *t = s->threads;
    for (; thread < t->count; thread++) {
        if (t->floats[thread].duty == 0.0) continue;
        i64 core = t->ints[thread].core;
        if (!(c->registers->cores >> core & 1)) break;
        const f64 *times = latency;
        if (s->delays[core] != 0.0) {
            for (int level = 0; level < LEVELS; level++)
                s->delayed[level] = latency[level] + (level == L2 ? 0.0 : s->delays[core]);
            times = s->delayed;
        }
        i64 kind = t->ints[thread].kind;
        if (kind == POLLER) {
            Poll poll = {t, s->rings, c, s->nics, times, t->floats + thread, t->ints + thread, thread, 0, 0.0};
            step_poller(&poll, step->cycles, step->sampling, step->length_ns, step->now_ns);
        } else if (kind == STORAGE) {
            step_storage(t, s->disks, c, s->nics, times, thread, step->cycles, step->sampling, step->now_ns);
        } else {
            step_memory_bound(t, c, times, thread, step->cycles, step->sampling);
        }
    }
    return thread;
}

/* Run the machine from `start_ns` to `end_ns` of simulated time. */
EXPORT(void, advance)(State *s, i64 start_ns, i64 end_ns, i64 step_ns, f64 frequency_hz, i64 sampling) {
    i64 now_ns = start_ns, memory_due_ns = start_ns + MEMORY_INTERVAL_NS;
    int linked = s->caches->registers->linked != 0;
    while (now_ns < end_ns) {
        i64 length_ns = min_i64(step_ns, end_ns - now_ns);
        now_ns += length_ns;
        f64 seconds = (f64)length_ns * 1e-9;
        Step step = {length_ns, now_ns, seconds * frequency_hz, sampling};
        receive_packets(s->nics, s->rings, s->caches, 0, seconds, now_ns);
        if (linked) receive_packets(s->nics, s->rings, s->far_caches, 1, seconds, now_ns);
        step_disks(s->disks, s->caches, seconds, now_ns, sampling);
        i64 thread = 0;
        while (thread < s->threads->count) {
            thread = run_threads(s, s->caches, s->memory->latency, thread, &step);
            if (linked && thread < s->threads->count)
                thread = run_threads(s, s->far_caches, s->far_memory->latency, thread, &step);
        }
        grant_bytes(s->nics, seconds);
        transmit_packets(s->nics, s->rings, s->caches, 0, now_ns);
        if (linked) transmit_packets(s->nics, s->rings, s->far_caches, 1, now_ns);
        step_clients(s->clients, s->nics, now_ns - length_ns, now_ns);
        if (now_ns >= memory_due_ns || now_ns == end_ns) {
            renumber(s->caches);
            update_memory(s->memory, s->caches, (f64)now_ns * 1e-9);
            if (linked) {
                renumber(s->far_caches);
                update_memory(s->far_memory, s->far_caches, (f64)now_ns * 1e-9);
            }
            memory_due_ns = now_ns + MEMORY_INTERVAL_NS;
        }
    }
}

/* Run a trace of `count` accesses on core 0: of kind 0 read, 1 write, 2 a device's write, 3 a device's read. */
EXPORT(void, replay)(Caches *c, const i8 *kinds, const i32 *lines, i64 count) {
    for (i64 i = 0; i < count; i++) {
        if (kinds[i] <= 1) core_access(c, 0, lines[i], kinds[i], 1);
        else if (kinds[i] == 2) dma_write(c, lines[i], 1, 1);
        else dma_read(c, lines[i], 1);
    }
}

/* The parts by themselves. */
EXPORT(i64, core_access)(Caches *c, i64 core, i64 line, i64 write, i64 sharers) {
    return core_access(c, core, (i32)line, (int)write, sharers);
}
EXPORT(i64, prefetch)(Caches *c, i64 core, i64 line, i64 sharers) { return prefetch(c, core, (i32)line, sharers); }
EXPORT(void, dma_write)(Caches *c, i64 line, i64 sharers, i64 dca) { dma_write(c, (i32)line, sharers, dca); }
EXPORT(void, dma_read)(Caches *c, i64 line, i64 sharers) { dma_read(c, (i32)line, sharers); }
EXPORT(i64, llc_set)(Caches *c, i64 line) { return llc_set(c, (i32)line); }
EXPORT(i64, frame_of)(Caches *c, i64 line) { return frame_of(c, (i32)line); }
EXPORT(void, renumber)(Caches *c) { renumber(c); }
EXPORT(void, core_used)(Adaptive *a, i64 set, i64 line) { core_used(a, set, line); }
EXPORT(void, device_wrote)(Adaptive *a, i64 set, i64 line) { device_wrote(a, set, line); }
EXPORT(i64, memory_lines)(Caches *c) { return memory_lines(c); }
EXPORT(i64, memory_writes)(Caches *c) { return memory_writes(c); }
EXPORT(f64, slowdown)(f64 utilisation) { return slowdown(utilisation); }
EXPORT(void, update_memory)(Memory *m, Caches *c, f64 seconds) { update_memory(m, c, seconds); }
EXPORT(void, refill)(Rings *r, i64 ring, i64 count) { refill(r, ring, count); }
EXPORT(i64, bin_of)(i64 latency_ns) { return bin_of(latency_ns); }
EXPORT(i64, next_state)(i64 state) { return next_state(state); }
EXPORT(f64, settle)(Threads *t, i64 thread, i64 row, i64 sampling) { return settle(t, thread, row, sampling); }
