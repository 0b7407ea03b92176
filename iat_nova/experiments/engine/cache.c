/* SPDX-License-Identifier: Apache-2.0
 *
 * The caches: a private L2 per core and a shared, non-inclusive LLC with CAT and DDIO.
 *
 * The rules, in the order of an access:
 *
 * - A core's access that misses in L2 is served by the LLC, or by the L2 of another core. `sharers` has a bit for each
 *   core that may hold the line. A line is in at most one L2. The access fills L2 only.
 * - An ordinary line that hits in the LLC moves to L2. A line that a device wrote stays in the LLC when a core reads the
 *   line, but migrates to the inclusive ways. Only the inclusive ways can hold a line that is also in an L2 (A4, ISCA
 *   2025). If the migration would evict another such line, the line moves to L2 instead. An eviction from the inclusive
 *   ways also removes the L2's copy, because the entry in the directory is gone (Yan et al., "Attack Directories, Not
 *   Caches", S&P 2019). A core that writes a line removes the LLC's copy and owns the line.
 * - L2's victim is placed in the ways of the core's mask: the LLC is a victim cache. A copy in the inclusive ways is
 *   removed; on a machine without inclusive ways the victim merges into the copy. Masks limit placement, never hits.
 * - A victim that L2's prefetchers fetched from memory is dropped if no instruction has used the line. The counters of
 *   Skylake-SP show this: IDI_MISC.WB_DOWNGRADE counts "cache lines that are dropped and not written back to L3 as they
 *   are deemed to be less likely to be reused shortly". L2_LINES_OUT.USELESS_HWPF counts lines that were "hardware
 *   prefetched but not used and now evicted" (Intel, perfmon events of Skylake-SP). The link between the two counters is
 *   inferred.
 * - A device's write updates a line of the LLC in place (write update, a DDIO hit). A line absent from the LLC is placed
 *   in DDIO's ways (write allocate: a DDIO miss, or a hit if an L2 had the line). A copy in an L2 is dropped. With DCA
 *   off, the write goes to memory and the LLC's copy is dropped. On a machine with I/O RDT each port may have ways of its
 *   own instead of DDIO's, and its traffic to and from memory is counted.
 * - A device's read hits or goes to memory, and places no line.
 *
 * With two sockets, each socket has an LLC. DDIO acts on the LLC of the device's socket, wherever the buffer's memory is:
 * a core of the other socket finds the line across the link. A core's read leaves the line there, clean; a core's write
 * takes the line away. A device's write drops the line from the other socket's LLC. Only lines that devices write are
 * searched across the link, and a core's memory belongs to the core's socket.
 *
 * Two more properties differ by machine. An LLC that fills is the ordinary kind. Such an LLC also takes lines that miss,
 * keeps lines that hit, and gets only dirty victims of L2. With ADCA, a device's new line enters the LLC only while the
 * set has fewer device lines than the ways that the cores leave (adaptive.c). Once the monitors find that cores read
 * device lines once, a device's line is replaced first after a read, and devices write through to memory.
 *
 * Not modelled: evictions of lines in L2 alone when the directory is full; other clean victims that bypass the LLC.
 * Read-sharing is also not modelled: a line that two cores read moves between the two L2s.
 */

/* Fetch a line from the other socket's LLC; return the line's dirty bit, -1 if absent. A read leaves the line there,
 * written back; a write takes the line away. */
static int take_from_afar(Caches *c, i64 index, i32 line, int write) {
    Set set = far_at(c, index);
    int way = find(set, line);
    if (way < 0) return -1;
    i32 entry = set.entries[way];
    if (write) {
        drop(set, way);
        c->far_totals->moved++;
        return entry & DIRTY;
    }
    set.entries[way] = (entry | SHARED) & ~(UNREAD | DIRTY);
    set.others[way] = -1;
    c->totals->cleaned += entry & DIRTY;
    if (entry & DIRTY && entry & (UNREAD | SHARED)) charge(c, line);
    return 0;
}

/* Bring L2's victim into a set of the LLC, out of the inclusive ways if a copy is there. */
INLINE void spill(Caches *c, i64 core, i32 entry, i64 index, int options) {
    if (options && c->registers->fills && !(entry & DIRTY)) return;
    if (UNLIKELY((entry & (AHEAD | DIRTY)) == AHEAD)) {
        c->totals->useless++;
        return;
    }
    i32 line = entry >> LINE_SHIFT, dirty = entry & DIRTY;
    Set set = llc_at(c, index, options);
    int way = entry & COPY ? find(set, line) : -1;
    if (way >= 0 && !c->registers->migrates) {
        set.entries[way] |= dirty;
        hit(set, way, RETURNED);
        if (options) put_up(c, set, way);
        c->totals->victims_merged++;
        return;
    }
    if (way >= 0) {
        dirty |= set.entries[way] & DIRTY;
        drop(set, way);
        c->totals->moved++;
    }
    place_line(c, set, line << LINE_SHIFT | dirty, MASKS + core, entry & SERVED ? REUSED : RETURNED, options);
    c->totals->victims_placed++;
}

/* Tell whether a device's line may stay in the LLC beside a copy in an L2: a line in the inclusive ways, or another line
 * if the line that would be evicted from the inclusive ways is in no L2 of this socket. */
INLINE int may_stay(Caches *c, Set set, int way) {
    const i32 *inclusive = mask_row(c, set, INCLUSIVE);
    if (!inclusive[way]) return 1;
    int next = victim(set, inclusive);
    i32 held = set.entries[next];
    return held < 0 || !(held & SHARED) || set.others[next] < 0;
}

/* Serve an L2's miss from the LLC; return the bits of the line's entry in L2. */
INLINE int take_from_llc(Caches *c, i64 core, Set set, int way, int write, int options) {
    i32 entry = set.entries[way];
    if (LIKELY(!(entry & (UNREAD | SHARED)))) {
        if (options && c->registers->fills) {
            hit(set, way, READ);
            return COPY;
        }
        drop(set, way);
        c->totals->moved++;
        return (entry & DIRTY) | SERVED;
    }
    /* The new owner has the only copy, or the inclusive ways have no room for a second copy. */
    if (c->registers->migrates && (write || !may_stay(c, set, way))) {
        drop(set, way);
        c->totals->moved++;
        return entry & DIRTY;
    }
    i32 kept = (entry & ~UNREAD) | SHARED;
    if (c->registers->migrates && mask_row(c, set, INCLUSIVE)[way]) {
        /* First placed, as the CPU would wait with the search for a victim until a drop is in its cache. */
        int before = way;
        way = place_line(c, set, kept, INCLUSIVE, MIGRATED, options);
        drop(set, before);
        c->totals->migrated++;
    } else {
        set.entries[way] = kept;
        hit(set, way, READ);
    }
    set.others[way] = (i32)core;
    if (options) put_up(c, set, way);
    return COPY;
}

/* Bring a missing line into a core's L2; return the level that served the line. */
INLINE int serve_miss(Caches *c, i64 core, i32 line, int write, i64 sharers, int options) {
    const Registers *r = c->registers;
    int level = MEMORY, bits = write;
    i64 others = sharers & ~((i64)1 << core);
    if (others) {
        int dirty = take_from_l2(c, line, others & r->cores, options);
        if (dirty >= 0) {
            level = PEER;
            bits |= dirty;
        } else if (options && r->linked) {
            dirty = take_from_l2(c, line, others & ~r->cores, options);
            if (dirty >= 0) {
                level = REMOTE;
                bits |= dirty;
            }
        }
    }
    i64 index = llc_set(c, line);
    Set set = llc_at(c, index, options);
    int way = find(set, line);
    if (options && r->adapts) core_used(c->adaptive, index, line);
    if (way >= 0) {
        level = LLC;
        bits |= take_from_llc(c, core, set, way, write, options);
    } else if (options) {
        if (r->linked && sharers && level != PEER) {
            int dirty = take_from_afar(c, index, line, write);
            if (dirty >= 0) {
                level = REMOTE;
                bits |= dirty;
            }
        }
        if (r->fills) {
            place_line(c, set, line << LINE_SHIFT, MASKS + core, MISS, options);
            c->totals->filled++;
            bits |= COPY;
        }
    }
    c->served[core * LEVELS + level]++;
    Set own = l2_at(c, core, line, options);
    way = victim(own, 0);
    i32 old = own.entries[way], home = own.others[way];
    own.entries[way] = line << LINE_SHIFT | bits;
    own.others[way] = (i32)index;
    fill(own, 0, way, MISS);
    if (LIKELY(old >= 0)) spill(c, core, old, home, options);
    return level;
}

/* Drop the LLC's copy of a line that a core is about to write in L2. */
INLINE void own_line(Caches *c, Set own, int way, i32 line, int options) {
    own.entries[way] &= ~COPY;
    Set set = llc_at(c, llc_set(c, line), options);
    int copy = find(set, line);
    if (copy >= 0) {
        drop(set, copy);
        c->totals->moved++;
    }
}

INLINE int access_line(Caches *c, i64 core, i32 line, int write, i64 sharers, int options) {
    Set own = l2_at(c, core, line, options);
    int way = find(own, line);
    if (way < 0) return serve_miss(c, core, line, write, sharers, options);
    i32 entry = own.entries[way];
    if (UNLIKELY((entry & AHEAD) == AHEAD)) own.entries[way] = entry &= ~AHEAD;
    /* Only the first write changes the entry. CPUs would often predict a branch on each write wrongly. */
    if (UNLIKELY(write & (~entry | entry >> 1))) {
        if (entry & COPY && c->registers->migrates) own_line(c, own, way, line, options);
        own.entries[way] |= DIRTY;
    }
    hit(own, way, READ);
    c->served[core * LEVELS + L2]++;
    return L2;
}

static __attribute__((noinline)) int access_with_options(Caches *c, i64 core, i32 line, int write, i64 sharers) {
    return access_line(c, core, line, write, sharers, 1);
}

/* Let a core read (`write` 0) or write (1) a line; return the level that served the line. */
INLINE int core_access(Caches *c, i64 core, i32 line, int write, i64 sharers) {
    if (UNLIKELY(c->registers->options)) return access_with_options(c, core, line, write, sharers);
    return access_line(c, core, line, write, sharers, 0);
}

/* Let a core's L2 prefetch a line; return the level that served, L2 if the line is there. */
static int prefetch(Caches *c, i64 core, i32 line, i64 sharers) {
    Set own = l2_at(c, core, line, 1);
    if (find(own, line) >= 0) return L2;
    int level = core_access(c, core, line, 0, sharers);
    c->served[core * LEVELS + level]--;
    c->prefetched[core * LEVELS + level]++;
    if (level == MEMORY && !c->registers->fills) own.entries[find(own, line)] |= AHEAD;
    return level;
}

/* Return the number of device lines in an LLC set, without lines that are replaced next. */
static i64 lines_of_devices(Caches *c, Set set) {
    i64 count = 0;
    for (int way = 0; way < c->llc_ways; way++)
        count += set.entries[way] >= 0 && set.entries[way] & (UNREAD | SHARED) && set.stamps[way] > LAST_WAY;
    return count;
}

/* Take a device's line into the LLC, in place (`way`) or into its ways (`way` -1).
 *
 * A line that only an L2 had is also placed in these ways, and counts as a hit. The count of real CHAs for this case is
 * unknown. The choice is calibrated on claim iat-8-small: all packets of one flow at 64 B lie in buffers that Open
 * vSwitch has just written, and few are said to miss. */
INLINE void allocate_line(Caches *c, i64 index, int way, i32 entry, int was_in_l2, i64 row, int options) {
    Set set = llc_at(c, index, options);
    SliceCounts *cha = c->ddio + (index >> c->registers->set_bits);
    if (way >= 0) {
        set.entries[way] = entry;
        hit(set, way, DEVICE);
        c->totals->ddio_hits++;
        cha->hits++;
        return;
    }
    i64 before = c->totals->write_backs;
    place_line(c, set, entry, row, DEVICE, options);
    c->totals->dma_write_backs += c->totals->write_backs - before;
    c->totals->ddio_placed++;
    c->totals->ddio_hits += was_in_l2;
    c->totals->ddio_misses += !was_in_l2;
    cha->hits += was_in_l2;
    cha->misses += !was_in_l2;
}

/* Write a device's line to memory. */
INLINE void write_to_memory(Caches *c, Set set, int way) {
    c->totals->flushed += way >= 0;
    c->totals->dma_memory_writes++;
    if (way >= 0) drop(set, way);
}

/* Take a device's line into the LLC or write to memory, as ADCA decides. */
static void write_adaptively(Caches *c, i64 index, int way, i32 line, int was_in_l2) {
    device_wrote(c->adaptive, index, line);
    Set set = llc_at(c, index, 1);
    if (way < 0 && lines_of_devices(c, set) >= c->adaptive->numbers->left) {
        write_to_memory(c, set, way);
        return;
    }
    int through = prioritised(c->adaptive);
    c->totals->written_through += through;
    allocate_line(c, index, way, line << LINE_SHIFT | UNREAD | (through ? 0 : DIRTY), was_in_l2, DDIO, 1);
}

/* Drop the other socket's copy of a line that a device has written. */
static void drop_afar(Caches *c, i64 index, i32 line) {
    Set set = far_at(c, index);
    int way = find(set, line);
    if (way < 0) return;
    drop(set, way);
    c->far_totals->flushed++;
}

INLINE void write_line(Caches *c, i32 line, i64 sharers, i64 dca, int options) {
    int was_in_l2 = sharers && take_from_l2(c, line, sharers, options) >= 0;
    i64 index = llc_set(c, line);
    Set set = llc_at(c, index, options);
    int way = find(set, line);
    if (options && c->registers->linked) drop_afar(c, index, line);
    if (UNLIKELY(dca == 0)) write_to_memory(c, set, way);
    else if (options && c->registers->adapts) write_adaptively(c, index, way, line, was_in_l2);
    else allocate_line(c, index, way, line << LINE_SHIFT | UNREAD | DIRTY, was_in_l2, dca - 1, options);
}

/* Let a device write a whole line: to memory (`dca` 0), or into the LLC. Other values of `dca` are 1 + the row of
 * `forbidden` with the device's ways: 1 for DDIO's ways. */
static void dma_write(Caches *c, i32 line, i64 sharers, i64 dca) {
    if (UNLIKELY(c->registers->options)) write_line(c, line, sharers, dca, 1);
    else write_line(c, line, sharers, dca, 0);
}

INLINE void read_line(Caches *c, i32 line, i64 sharers, int options) {
    i64 index = llc_set(c, line);
    Set set = llc_at(c, index, options);
    int way = find(set, line);
    if (way >= 0) {
        hit(set, way, READ);
        c->totals->dma_read_hits++;
        return;
    }
    int hits = sharers && in_l2(c, line, sharers, options);
    if (options && !hits && c->registers->linked) hits = find(far_at(c, index), line) >= 0;
    c->totals->dma_read_hits += hits;
    c->totals->dma_read_misses += !hits;
    if (options && !hits) charge(c, line);
}

/* Let a device read a line: from an LLC, a core's L2 or memory; nothing is placed. */
static void dma_read(Caches *c, i32 line, i64 sharers) {
    if (UNLIKELY(c->registers->options)) read_line(c, line, sharers, 1);
    else read_line(c, line, sharers, 0);
}

/* Restart the LRU clock before stamps overflow, keeping the order of each set. */
static void renumber(Caches *c) {
    if (c->registers->clock < CLOCK_LIMIT) return;
    if (c->registers->policy == LRU)
        for (i64 index = 0; index < c->llc_sets; index++) rank_stamps(llc_at(c, index, 1));
    for (i64 set = 0; set < c->cores * c->l2_sets; set++) rank_stamps(set_of(c->l2, set, c->l2_ways, LRU, 0));
    c->registers->clock = max_i64(c->llc_ways, c->l2_ways);
}
