/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads: the parts common to all kinds of workload, and their accesses to their own memory.
 */

INLINE i64 draw_for(Threads *t, i64 thread) { return draw(&t->ints[thread].random); }

/* Return 1 for a share of the draws in percent, else 0. */
INLINE int draw_write(i64 *state, i64 percent) { return percent && draw(state) % 100 < percent; }

/* Return the part of a step's `cycles` in which a thread has its core (scheduling jitter). The time off the core is
 * evenly spread up to off_max_cycles. */
static f64 cycles_on_core(Threads *t, i64 thread, f64 cycles) {
    ThreadFloats *f = t->floats + thread;
    if (f->off_max_cycles == 0.0) return cycles;
    f->on_cycles -= cycles;
    if (f->on_cycles < 0.0) {
        f->off_cycles += (f64)draw_for(t, thread) / RANDOM_RANGE * f->off_max_cycles;
        f->on_cycles = f->off_every_cycles * (0.5 + (f64)draw_for(t, thread) / RANDOM_RANGE);
    }
    f64 off = min_f64(cycles, f->off_cycles);
    f->off_cycles -= off;
    return cycles - off;
}

/* Add the latency of one sampled access to the burst that a thread serves. */
INLINE void note_access(Threads *t, i64 thread, i64 row, int class, f64 cycles) {
    Burst *burst = t->bursts + row * CLASSES + class;
    burst->lines += 1.0;
    burst->stalled += cycles / t->overlap[thread * CLASSES + class];
}

/* Return the cycles by which a thread's burst cost more than charged; update the running means.
 *
 * Packets are charged the running means of their input. The buffers of a burst travel together, so a burst finds most of
 * its lines in the LLC or most of its lines in memory. Charged later, as the mean follows, this cost would fall on other
 * bursts: threads would keep another rhythm, and the devices' writes would meet other lines. A burst's own mean counts by
 * its number of sampled lines (credibility, after Buehlmann 1967). */
static f64 settle(Threads *t, i64 thread, i64 row, i64 sampling) {
    const ThreadFloats *f = t->floats + thread;
    f64 cycles = 0.0;
    for (int class = 0; class < CLASSES; class++) {
        Burst *burst = t->bursts + row * CLASSES + class;
        f64 *mean = t->stalls + row * CLASSES + class, lines = burst->lines;
        if (lines == 0.0) continue;
        f64 above = burst->stalled / lines - *mean;
        cycles += above * (f64)sampling * lines * lines / (lines + f->credible_lines);
        *mean += above * min_f64(1.0, lines * f->running);
        *burst = (Burst){0.0, 0.0};
    }
    return cycles;
}

/* Let a thread access its own memory by its table; `sampled`: number of accesses, with a fraction. */
INLINE void own_accesses(Threads *t, Caches *c, const f64 *latency, i64 thread, f64 sampled) {
    ThreadFloats *f = t->floats + thread;
    ThreadInts *i = t->ints + thread;
    f->access_credit += sampled;
    i64 count = (i64)f->access_credit;
    f->access_credit -= (f64)count;
    /* In locals, because the compiler must assume that a cache access changes the arrays. */
    i64 core = i->core, mask = i->slot_mask, percent = i->writes_percent, state = i->random;
    f64 overlap = t->overlap[thread * CLASSES + OWN], mean = t->stalls[thread * CLASSES + OWN];
    f64 total_cycles = f->latency_cycles, running = f->running;
    const Stretch *stretches = t->stretches + thread * t->stretch_slots;
    for (i64 access = 0; access < count; access++) {
        i64 number = draw(&state);
        Stretch stretch = stretches[number & mask];
        i64 offset = ((number >> SLOT_BITS) * stretch.lines) >> (RANDOM_BITS - SLOT_BITS);
        i32 line = frame_of(c, (i32)(stretch.first + offset));
        int write = draw_write(&state, percent);
        f64 cycles = latency[core_access(c, core, line, write, 0)];
        mean += running * (cycles / overlap - mean);
        total_cycles += cycles;
    }
    i->random = state;
    t->stalls[thread * CLASSES + OWN] = mean;
    f->latency_cycles = total_cycles;
    f->latency_samples += (f64)count;
}

/* Let a thread work that only reads and writes its own memory (X-Mem, SPEC surrogates, RocksDB). */
static void step_memory_bound(Threads *t, Caches *c, const f64 *latency, i64 thread, f64 cycles, i64 sampling) {
    ThreadFloats *f = t->floats + thread;
    f64 awake = cycles * f->duty;
    f64 each = f->own_cycles + f->touches * t->stalls[thread * CLASSES + OWN];
    f64 work = awake / each;
    own_accesses(t, c, latency, thread, work * f->touches / (f64)sampling);
    f->cycles += awake;
    f->instructions += work * f->own_instructions;
    f->work += work;
}
