/* SPDX-License-Identifier: Apache-2.0
 *
 * The LLC's sets: slices, and the effects of an eviction.
 */

INLINE Set set_of(i32 *sets, i64 number, i64 ways, i64 policy, i64 *clock) {
    i32 *entries = sets + number * 3 * ways;
    return (Set){entries, entries + ways, entries + 2 * ways, ways, policy, clock};
}

/* `options` of the functions below: whether the machine has any optional property, see Registers.options. All callers
 * pass a constant, so that the code for the usual machine has no cost of the options. */
INLINE Set llc_at(Caches *c, i64 number, int options) {
    Registers *r = c->registers;
    return set_of(c->llc, number, options ? c->llc_ways : LANES, options ? r->policy : QLRU, &r->clock);
}

INLINE Set far_at(Caches *c, i64 number) { return set_of(c->far, number, c->llc_ways, c->registers->policy, 0); }

INLINE Set l2_at(Caches *c, i64 core, i32 line, int options) {
    i64 number = core * c->l2_sets + (line & (c->l2_sets - 1));
    return set_of(c->l2, number, options ? c->l2_ways : LANES, LRU, &c->registers->clock);
}

INLINE const i32 *mask_row(const Caches *c, Set set, i64 row) { return c->forbidden + row * set.ways; }

/* Return the LLC slice to which a line is hashed; the slice's CHA counts the line.
 *
 * CPUs hash all bits of the address: a base sequence of slices, in which each slice has its share, is repeated over
 * consecutive blocks of memory, permuted in each by a hash of the upper bits (J. McCalpin, "Mapping Addresses to L3/CHA
 * Slices in Intel Processors", TR-2021-03, 2021). So any stride fills the slices evenly, and the lines of a block fill
 * the sets evenly. `even_slices`: a block has one line for each set of the LLC, and which slice comes first is hashed for
 * each block and set in a slice; a rotation stands for the binary permutations. Else the slice of each line is random,
 * and so is the number of used lines in a set. The hash is the finaliser of MurmurHash3, not the CPUs' own. */
INLINE i64 slice_of(const Caches *c, i32 line) {
    const Registers *r = c->registers;
    if (r->slices == 1) return 0;
    u32 mixed = (u32)line;
    i64 place = 0;
    if (r->even_slices) {
        i64 row = line >> r->set_bits, block = row * r->even_slices >> RECIPROCAL_BITS;
        place = row - block * r->slices;
        mixed = (u32)(block << r->set_bits | (line & ((1 << r->set_bits) - 1)));
    }
    mixed = (mixed ^ mixed >> 16) * 0x85EBCA6Bu;
    mixed = (mixed ^ mixed >> 13) * 0xC2B2AE35u;
    mixed ^= mixed >> 16;
    i64 slice = (i64)((u64)mixed * (u64)r->slices >> 32) + place;
    return slice >= r->slices ? slice - r->slices : slice;
}

/* Return the LLC set of a line: in the line's slice, the set given by the line's low bits. */
INLINE i64 llc_set(const Caches *c, i32 line) {
    i64 bits = c->registers->set_bits;
    return slice_of(c, line) << bits | (line & ((1 << bits) - 1));
}

/* Return where a line of a thread's own memory lies: its page's frame is drawn by a hash. An operating system hands out
 * any free frames, so that which lines share a set of L2 or the LLC is random from page to page. The hash is a
 * bijection, onto numbers that no other memory has. */
INLINE i32 frame_of(const Caches *c, i32 line) {
    i64 bits = c->registers->page_bits;
    if (LIKELY(bits < 0)) return line;
    u32 mask = (DRAWN_LINES >> bits) - 1;
    u32 page = ((u32)line >> bits) * 0x9E3779B1u & mask;
    page = (page ^ page >> 11) * 0x85EBCA6Bu & mask;
    page ^= page >> 11;
    return (i32)(DRAWN_LINES | page << bits | ((u32)line & ((1u << bits) - 1)));
}

/* Empty a way without a write-back. */
INLINE void drop(Set set, int way) {
    set.entries[way] = -1;
    set.stamps[way] = stamp_of(0, way);
}

/* Remove a line from the L2 of one of `cores`; return the line's dirty bit, -1 if absent. */
INLINE int take_from_l2(Caches *c, i32 line, i64 cores, int options) {
    for (u64 rest = (u64)cores; rest; rest &= rest - 1) {
        Set set = l2_at(c, __builtin_ctzll(rest), line, options);
        int way = find(set, line);
        if (way >= 0) {
            int dirty = set.entries[way] & DIRTY;
            drop(set, way);
            return dirty;
        }
    }
    return -1;
}

/* Tell whether an L2 of `cores` has the line. */
INLINE int in_l2(Caches *c, i32 line, i64 cores, int options) {
    for (u64 rest = (u64)cores; rest; rest &= rest - 1)
        if (find(l2_at(c, __builtin_ctzll(rest), line, options), line) >= 0) return 1;
    return 0;
}

/* Remove the L2's copy of an evicted line; return the copy's dirty bit, 0 without a copy. */
static __attribute__((noinline)) int recall(Caches *c, i32 owner, i32 line) {
    if (owner < 0) return 0;
    int dirty = take_from_l2(c, line, (i64)1 << owner, 1);
    if (dirty < 0) return 0;
    c->totals->recalled++;
    return dirty;
}

/* Count a transfer of a line from or to memory, for the port whose device writes the line. */
static void charge(Caches *c, i32 line) {
    if (!c->registers->ports) return;
    i64 low = 0, high = c->owned_count;
    while (low < high) {
        i64 middle = (low + high) >> 1;
        if (line < c->owned[middle].end) high = middle;
        else low = middle + 1;
    }
    if (low < c->owned_count && line >= c->owned[low].first) c->moved[c->owned[low].port]++;
}

/* Put an entry into a way that a row of `forbidden` allows, and evict the line there; return the way. */
INLINE int place_line(Caches *c, Set set, i32 entry, i64 row, int cause, int options) {
    const i32 *forbidden = mask_row(c, set, row);
    int way = victim(set, forbidden);
    /* Without a branch on whether the way is empty: CPUs would often predict it wrongly, and late. */
    i32 before = set.entries[way], some = 1 + (before >> 31), old = before & -some;
    fill(set, forbidden, way, cause);
    if (old & SHARED && c->registers->migrates) old |= recall(c, set.others[way], old >> LINE_SHIFT);
    if (options && old & (UNREAD | SHARED) && old & DIRTY) charge(c, old >> LINE_SHIFT);
    Totals *totals = c->totals;
    totals->evicted += some;
    totals->write_backs += old & DIRTY;
    totals->leaked += (old & UNREAD) >> 1;
    set.entries[way] = entry;
    return way;
}

/* Mark a device's line for replacement next, if ADCA gives such lines priority. */
static void put_up(Caches *c, Set set, int way) {
    if (c->registers->adapts && set.entries[way] & SHARED && prioritised(c->adaptive))
        set.stamps[way] = stamp_of(0, way);
}
