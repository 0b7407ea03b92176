/* SPDX-License-Identifier: Apache-2.0
 *
 * The monitors of a cache with ADCA: the ways for device lines, and early replacement of these.
 *
 * After Li Peng et al., "Memory access optimization of I/O devices on multi-core processor systems". One set in 64 has a
 * monitor beside the cache. A monitor changes nothing in the cache and has two parts:
 *
 * - A stack of the lines that cores used last, most recent first, with as many entries as the cache has ways (W). From a
 *   device's write of a line until a core's read of this line, N is the deepest stack position at which a core's access
 *   hits. The cores need N ways, and P = W - N are left. The largest (aggressive) or the smallest (conservative) of the
 *   monitors' latest P holds for all sets, or the mean of these two (normal).
 * - A directory of the set's lines under pure LRU replacement. A device's line is judged when evicted from the directory
 *   or written again. A line that was read once adds one to a saturating counter, a line read more often takes one. The
 *   counter starts at 0, with LRU. Priority replacement starts when all bits are ones, and LRU again when all are zeros.
 */

/* Tell whether a device's line is the next to be replaced after a core has read the line. */
INLINE int prioritised(const Adaptive *a) { return a->numbers->priority == 1; }

/* Return the monitor of a set, -1 for a set without monitor. */
INLINE i64 monitor_of(const Adaptive *a, i64 set) {
    i64 number = set >> a->numbers->shift;
    return number << a->numbers->shift == set ? number : -1;
}

/* Bring a line to the front of a stack; return the previous position, -1 for a new line. */
static i64 use_line(i64 *stack, i64 size, i64 line) {
    i64 depth = -1, last = size - 1;
    for (i64 position = 0; position < size; position++)
        if (stack[position] == line) {
            depth = last = position;
            break;
        }
    memmove(stack + 1, stack, (u64)last * sizeof *stack);
    stack[0] = line;
    return depth;
}

/* Count a device's line by its number of reads; lines that no core read do not count. */
static void judge(Adaptive *a, i64 reads) {
    AdaptiveNumbers *n = a->numbers;
    if (reads == 1) n->counter = min_i64(COUNTER_MAX, n->counter + 1);
    else if (reads > 1) n->counter = max_i64(0, n->counter - 1);
    if (n->counter == COUNTER_MAX) n->priority = 1;
    else if (n->counter == 0) n->priority = 0;
}

/* Record the use of a line in the directory, which always replaces the LRU line. */
static void enter_line(Adaptive *a, i64 monitor, i64 line, int by_device) {
    DirectoryEntry *entries = a->directory + monitor * a->ways;
    i64 place = 0;
    while (place < a->ways - 1 && entries[place].line != line) place++;
    i64 reads = entries[place].reads;
    if (by_device || entries[place].line != line) {
        judge(a, reads);
        reads = by_device ? 0 : OF_CORES;
    } else if (reads != OF_CORES) {
        reads++;
    }
    memmove(entries + 1, entries, (u64)place * sizeof *entries);
    entries[0] = (DirectoryEntry){line, reads};
}

/* End a monitor's watch and choose the common P again from all monitors with a P. */
static void close_watch(Adaptive *a, i64 monitor) {
    a->watch[monitor].room = a->ways - a->watch[monitor].deepest;
    a->watch[monitor].line = -1;
    i64 least = a->ways, most = 0;
    for (i64 number = 0; number < a->monitors; number++) {
        i64 room = a->watch[number].room;
        if (room < 0) continue;
        least = min_i64(least, room);
        most = max_i64(most, room);
    }
    i64 choice = a->numbers->choice;
    a->numbers->left = choice == 0 ? most : choice == 1 ? (least + most) / 2 : least;
}

/* Report a core's access to the monitors. */
static void core_used(Adaptive *a, i64 set, i64 line) {
    i64 monitor = monitor_of(a, set);
    if (monitor < 0) return;
    i64 depth = use_line(a->stack + monitor * a->ways, a->ways, line);
    enter_line(a, monitor, line, 0);
    Watch *watch = a->watch + monitor;
    if (watch->line == line) close_watch(a, monitor);
    else if (watch->line >= 0) watch->deepest = max_i64(watch->deepest, depth + 1);
}

/* Report a device's write to the monitors, also a write past the cache. */
static void device_wrote(Adaptive *a, i64 set, i64 line) {
    i64 monitor = monitor_of(a, set);
    if (monitor < 0) return;
    enter_line(a, monitor, line, 1);
    Watch *watch = a->watch + monitor;
    if (watch->line == line) close_watch(a, monitor); /* written again before a core read it */
    if (watch->line < 0) {
        watch->line = line;
        watch->deepest = 0;
    }
}
