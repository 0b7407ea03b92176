/* SPDX-License-Identifier: Apache-2.0
 *
 * FIO's jobs: keep a queue of random reads and writes full, and access every byte. A job's thread takes a completed
 * command and reads the block after a read. Then the thread draws the kind of the next command, fills the block before a
 * write, and submits the command again. Without completions the thread sleeps. As for packets, the cycles of a line come
 * from the running mean of the line's class of accesses.
 */

/* Read or fill the next page of the job's block; return the cycles. */
static f64 touch_page(Threads *t, Disks *d, Caches *c, const f64 *latency, i64 thread, Job *job, i64 sampling) {
    int write = job->filling != 0, class = write ? COPY_TO : PACKET;
    i64 lines = DISK_PAGE_LINES / sampling, first = d->commands[job->current].line + job->page * lines;
    f64 *mean = t->stalls + thread * CLASSES + class, overlap = t->overlap[thread * CLASSES + class];
    for (i64 line = first; line < first + lines; line++) {
        int level = core_access(c, t->ints[thread].core, (i32)line, write, 0);
        *mean += t->floats[thread].running * (latency[level] / overlap - *mean);
    }
    job->page++;
    return DISK_PAGE_LINES * (t->floats[thread].copy_cycles + *mean);
}

/* Continue the job's current command after its data: draw the next kind, fill, submit. */
static void continue_command(Threads *t, Disks *d, i64 thread, Job *job, i64 now_ns) {
    ThreadInts *i = t->ints + thread;
    if (job->filling == 0) {
        int writes = draw_write(&i->random, i->writes_percent);
        d->commands[job->current].writes = writes;
        if (writes) {
            job->filling = 1;
            job->page = 0;
            return;
        }
    }
    submit(d, job->current, now_ns);
    job->current = -1;
}

/* Make a new or completed command the current command; return 0 without one. */
static int take_command(Threads *t, Disks *d, Nics *n, i64 thread, Job *job, i64 now_ns) {
    job->filling = 0;
    if (job->fresh > 0) {
        job->fresh--;
        job->current = job->first + job->fresh;
        job->page = job->block_pages;
        return 1;
    }
    i64 number = take_done(d, job - d->jobs);
    if (number < 0) return 0;
    const Command *command = d->commands + number;
    job->current = number;
    job->page = command->writes ? job->block_pages : 0;
    count_served(n, job->owner, job->block_pages * DISK_PAGE_BYTES, now_ns - command->submitted_ns);
    t->floats[thread].work += 1.0;
    return 1;
}

/* Let one thread work for `cycles` of its core's time, less cycles overspent before. */
static void step_storage(
    Threads *t, Disks *d, Caches *c, Nics *n, const f64 *latency, i64 thread, f64 cycles, i64 sampling, i64 now_ns
) {
    ThreadFloats *f = t->floats + thread;
    Job *job = d->jobs + d->job_of[thread];
    f->credit_cycles += cycles;
    f64 before = f->credit_cycles;
    while (f->credit_cycles > 0) {
        if (job->current < 0) {
            if (!take_command(t, d, n, thread, job, now_ns)) break;
            f->credit_cycles -= f->own_cycles;
            f->instructions += f->own_instructions;
        } else if (job->page == job->block_pages) {
            continue_command(t, d, thread, job, now_ns);
        } else {
            f->credit_cycles -= touch_page(t, d, c, latency, thread, job, sampling);
            /* As for copies, a loop of one instruction per own cycle. */
            f->instructions += DISK_PAGE_LINES * f->copy_cycles;
        }
    }
    f->cycles += before - f->credit_cycles;
    f->credit_cycles = min_f64(f->credit_cycles, 0.0); /* the remaining time is sleep and is not saved up */
}
