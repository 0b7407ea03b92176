/* SPDX-License-Identifier: Apache-2.0
 *
 * NVMe disks: commands of whole blocks, moved by DMA page by page.
 *
 * A disk has a bandwidth, a cost per command (from the IOPS in the data sheet), and the latency of the medium. The many
 * flash dies work in parallel, and the next page may belong to any command in progress. The number of these commands
 * determines how long a page waits for the rest of its block, and so how many lines leak:
 *
 * - A controller serves its submission queues in turn (NVM Express base specification, "Round Robin Arbitration", which
 *   every controller has). Linux gives each CPU its own queue to each drive (drivers/nvme/host/pci.c). So one command of
 *   each queue is in progress. In a striped array of `drives`, each thread has one command in progress per drive, and
 *   the drive of a block is random.
 * - Further commands begin, from the queues in turn, until enough bytes are in progress to keep the disk busy. By
 *   Little's law this is the bandwidth times the latency of the medium.
 *
 * A read fills the block through DDIO, or in memory if the disk's port has no DCA. A write reads the block from the
 * present place of the lines. An array has the sum of its drives' bandwidths. A block lies on one drive: the splitting of
 * blocks larger than an array's chunk is not modelled. A job is one thread's commands, each with its own buffer.
 */

/* Submit a command to a random drive of the disk. */
static void submit(Disks *d, i64 command, i64 now_ns) {
    Command *submitted = d->commands + command;
    Job *job = d->jobs + submitted->job;
    Disk *disk = d->devices + job->disk;
    i64 queue = job->lanes;
    if (disk->drives > 1) queue += draw(&disk->random) * disk->drives >> RANDOM_BITS;
    submitted->queue = queue;
    submitted->moved = 0;
    submitted->submitted_ns = now_ns;
    d->waiting[queue * d->waiting_slots + d->queues[queue].submitted % d->waiting_slots] = (i32)command;
    d->queues[queue].submitted++;
}

/* Return a job's next completed command, -1 without one. */
static i64 take_done(Disks *d, i64 job) {
    Job *j = d->jobs + job;
    if (j->taken == j->completed) return -1;
    i64 command = d->done[job * d->done_slots + j->taken % d->done_slots];
    j->taken++;
    return command;
}

/* Begin the transfer of commands whose blocks the medium has found. */
static void start_commands(Disks *d, i64 number, i64 now_ns) {
    Disk *disk = d->devices + number;
    for (i64 passed = 0; passed < disk->queues; passed++) {
        i64 queue = disk->first_queue + disk->next;
        disk->next = (disk->next + 1) % disk->queues;
        Queue *q = d->queues + queue;
        if (q->started == q->submitted || (q->under_way > 0 && disk->pages >= disk->pages_max)) continue;
        i32 command = d->waiting[queue * d->waiting_slots + q->started % d->waiting_slots];
        if (d->commands[command].submitted_ns + disk->medium_ns > now_ns) continue;
        passed = -1;
        q->started++;
        q->under_way++;
        d->active[number * d->active_slots + disk->active++] = command;
        disk->pages += d->jobs[d->commands[command].job].block_pages;
    }
}

/* Move one page of the active command at `place`; return whether the command is complete. */
static int move_page(Disks *d, Caches *c, i64 number, i64 place, i64 sampling) {
    Disk *disk = d->devices + number;
    DiskRates *rates = d->rates + number;
    i32 *active = d->active + number * d->active_slots;
    Command *command = d->commands + active[place];
    Job *job = d->jobs + command->job;
    i64 lines = DISK_PAGE_LINES / sampling, first = command->line + command->moved * lines;
    for (i64 line = first; line < first + lines; line++)
        if (command->writes) dma_read(c, (i32)line, job->cores);
        else dma_write(c, (i32)line, job->cores, disk->dca);
    if (command->moved == 0) rates->credit_s -= rates->command_s;
    command->moved++;
    rates->credit_s -= rates->page_s;
    rates->moved_bytes += DISK_PAGE_BYTES;
    if (command->moved < job->block_pages) return 0;
    disk->active--;
    disk->pages -= job->block_pages;
    d->queues[command->queue].under_way--;
    d->done[command->job * d->done_slots + job->completed % d->done_slots] = active[place];
    active[place] = active[disk->active];
    job->completed++;
    return 1;
}

/* Let every disk transfer pages for `seconds`. */
static void step_disks(Disks *d, Caches *c, f64 seconds, i64 now_ns, i64 sampling) {
    for (i64 number = 0; number < d->device_count; number++) {
        Disk *disk = d->devices + number;
        DiskRates *rates = d->rates + number;
        rates->credit_s = min_f64(rates->credit_s, 0.0) + seconds; /* idle time is not saved up beyond this step */
        start_commands(d, number, now_ns);
        while (rates->credit_s > 0 && disk->active > 0) {
            i64 place = draw(&disk->random) * disk->active >> RANDOM_BITS;
            if (move_page(d, c, number, place, sampling)) start_commands(d, number, now_ns);
        }
    }
}
