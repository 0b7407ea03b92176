# SPDX-License-Identifier: Apache-2.0
"""The caches: a private L2 per core and a shared, non-inclusive LLC with CAT and DDIO.

The rules, in the order of an access:

* A core's access that misses in L2 is served by the LLC, or by the L2 of another core. `sharers`
  has a bit for each core that may hold the line. A line is in at most one L2. The access fills L2
  only.
* An ordinary line that hits in the LLC *moves* to L2. A line that a device wrote stays in the LLC
  when a core reads the line, but migrates to the *inclusive* ways. Only the inclusive ways can hold
  a line that is also in an L2 (A4, ISCA 2025). If the migration would evict another such line, the
  line moves to L2 instead. An eviction from the inclusive ways also removes the L2's copy, because
  the entry in the directory is gone (Yan et al., "Attack Directories, Not Caches", S&P 2019). A
  core that writes a line removes the LLC's copy and owns the line.
* L2's victim is placed in the ways of the core's mask: the LLC is a victim cache. A copy in the
  inclusive ways is removed; on a machine without inclusive ways the victim merges into the copy.
  Masks limit placement, never hits.
* A victim that L2's prefetchers fetched from memory is dropped if no instruction has used the line.
  The counters of Skylake-SP show this: IDI_MISC.WB_DOWNGRADE counts "cache lines that are dropped
  and not written back to L3 as they are deemed to be less likely to be reused shortly".
  L2_LINES_OUT.USELESS_HWPF counts lines that were "hardware prefetched but not used and now
  evicted" (Intel, perfmon events of Skylake-SP). The link between the two counters is inferred.
* A device's write updates a line of the LLC in place (write update, a DDIO hit). A line absent from
  the LLC is placed in DDIO's ways (write allocate: a DDIO miss, or a hit if an L2 had the line). A
  copy in an L2 is dropped. With DCA off, the write goes to memory and the LLC's copy is dropped.
  On a machine with I/O RDT each port may have ways of its own instead of DDIO's (`ports`), and its
  traffic to and from memory is counted.
* A device's read hits or goes to memory, and places no line.

With two sockets, each socket has an LLC. DDIO acts on the LLC of the device's socket, wherever the
buffer's memory is: a core of the other socket finds the line across the link. A core's read leaves
the line there, clean; a core's write takes the line away. A device's write drops the line from the
other socket's LLC. Only lines that devices write are searched across the link, and a core's memory
belongs to the core's socket.

`llc` describes replacement.

Two more properties differ by machine. An LLC that *fills* is the ordinary kind. Such an LLC also
takes lines that miss, keeps lines that hit, and gets only dirty victims of L2. With ADCA, a
device's new line enters the LLC only while the set has fewer device lines than the ways that the
cores leave (`adaptive`). Once the monitors find that cores read device lines once, a device's line
is replaced first after a read, and devices write through to memory.

Not modelled: evictions of lines in L2 alone when the directory is full; other clean victims that
bypass the LLC. Read-sharing is also not modelled: a line that two cores read moves between the two
L2s.
"""

from __future__ import annotations

from iat_nova.experiments.sim import adaptive
from iat_nova.experiments.sim._compile import inlined, kernel
from iat_nova.experiments.sim.cachestate import (
    ADAPTS,
    AHEAD,
    CLEANED,
    CLOCK,
    COPY,
    CORES,
    DDIO,
    DDIO_HITS,
    DDIO_MISSES,
    DDIO_PLACED,
    DIRTY,
    DMA_MEMORY_WRITES,
    DMA_READ_HITS,
    DMA_READ_MISSES,
    DMA_WRITE_BACKS,
    FILLED,
    FILLS,
    FLUSHED,
    INCLUSIVE,
    L2,
    LEVELS,
    LINKED,
    LLC,
    MASKS,
    MEMORY,
    MIGRATED,
    MIGRATES,
    MOVED,
    OPTIONS,
    PEER,
    REMOTE,
    SERVED,
    SET_BITS,
    SHARED,
    STREAM_LINES,
    STREAMER,
    TOTAL_NAMES,
    UNREAD,
    USELESS,
    VICTIMS_MERGED,
    VICTIMS_PLACED,
    WRITE_BACKS,
    WRITTEN_THROUGH,
    Caches,
    frame_of,
    llc_set,
    make,
    make_sockets,
    mask_of,
    sampled_offset,
    set_mask,
)
from iat_nova.experiments.sim.llc import (
    FRESH,
    REUSED,
    USED_ONCE,
    charge,
    drop,
    give_age,
    hit,
    in_l2,
    place,
    place_for_port,
    put_up,
    take_from_l2,
    touch,
)
from iat_nova.experiments.sim.ways import (
    CLOCK_LIMIT,
    LAST_WAY,
    find,
    oldest_way,
    rank,
    stamp_of,
    victim_way,
)

# The names that other modules need, so that these import this module only.
__all__ = [
    "CLOCK", "CORES", "DDIO", "DDIO_HITS", "DDIO_MISSES", "DMA_MEMORY_WRITES",
    "L2", "LEVELS", "LINKED", "LLC", "MASKS", "MEMORY", "STREAMER", "STREAM_LINES", "TOTAL_NAMES",
    "WRITE_BACKS", "WRITTEN_THROUGH", "Caches",
    "core_access", "dma_read", "dma_write", "frame_of", "llc_set", "make", "make_sockets",
    "mask_of", "prefetch", "renumber", "sampled_offset", "set_mask",
]  # fmt: skip


@kernel
def _take_from_afar(c: Caches, index: int, line: int, write: int) -> int:
    """Fetch a line from the other socket's LLC; return the line's dirty bit, -1 if absent.

    A read leaves the line there, written back; a write takes the line away.
    """
    way = find(c.far[index, 0], 3, line)
    if way < 0:
        return -1
    entry: int = c.far[index, 0, way]
    if write:
        c.far[index, 0, way] = -1
        c.far[index, 1, way] = stamp_of(0, way)
        c.far_totals[MOVED] += 1
        return entry & DIRTY
    c.far[index, 0, way] = (entry | SHARED) & ~(UNREAD | DIRTY)
    c.far[index, 2, way] = -1
    c.totals[CLEANED] += entry & DIRTY
    if entry & DIRTY and entry & (UNREAD | SHARED):
        charge(c, line)
    return 0


@inlined
def _spill(c: Caches, core: int, entry: int, index: int, options: bool) -> None:
    """Bring L2's victim into LLC set `index`, out of the inclusive ways if a copy is there."""
    if options and c.registers[FILLS] and not entry & DIRTY:
        return
    if entry & (AHEAD | DIRTY) == AHEAD:
        c.totals[USELESS] += 1
        return
    line = entry >> 3
    dirty = entry & DIRTY
    way = find(c.llc[index, 0], 3, line) if entry & COPY else -1
    if way >= 0 and not c.registers[MIGRATES]:
        c.llc[index, 0, way] |= dirty
        give_age(c, index, way, USED_ONCE)
        if options:
            put_up(c, index, way)
        c.totals[VICTIMS_MERGED] += 1
        return
    if way >= 0:
        dirty |= c.llc[index, 0, way] & DIRTY
        drop(c, index, way)
        c.totals[MOVED] += 1
    age = REUSED if entry & SERVED else USED_ONCE
    place(c, index, line << 3 | dirty, MASKS + core, age, options)
    c.totals[VICTIMS_PLACED] += 1


@inlined
def _may_stay(c: Caches, index: int, way: int) -> bool:
    """Tell whether a device's line may stay in the LLC beside a copy in an L2.

    A line in the inclusive ways may stay. Another line may stay if the line that would be evicted
    from the inclusive ways is in no L2 of this socket.
    """
    if not c.forbidden[INCLUSIVE, way]:
        return True
    there = victim_way(c.llc[index, 1], c.forbidden[INCLUSIVE])
    held = c.llc[index, 0, there]
    return bool(held < 0 or held & SHARED == 0 or c.llc[index, 2, there] < 0)


@inlined
def _take_from_llc(c: Caches, core: int, index: int, way: int, write: int, options: bool) -> int:
    """Serve an L2's miss from the LLC; return the bits of the line's entry in L2."""
    entry: int = c.llc[index, 0, way]
    if entry & (UNREAD | SHARED) == 0:
        if options and c.registers[FILLS]:
            hit(c, index, way)
            return COPY
        drop(c, index, way)
        c.totals[MOVED] += 1
        return entry & DIRTY | SERVED
    # The new owner has the only copy, or the inclusive ways have no room for a second copy.
    if c.registers[MIGRATES] and (write or not _may_stay(c, index, way)):
        drop(c, index, way)
        c.totals[MOVED] += 1
        return entry & DIRTY
    kept = (entry & ~UNREAD) | SHARED
    if c.registers[MIGRATES] and c.forbidden[INCLUSIVE, way]:
        drop(c, index, way)
        way = place(c, index, kept, INCLUSIVE, USED_ONCE, options)
        c.totals[MIGRATED] += 1
    else:
        c.llc[index, 0, way] = kept
        hit(c, index, way)
    c.llc[index, 2, way] = core
    if options:
        put_up(c, index, way)
    return COPY


@inlined
def _serve_miss(c: Caches, core: int, line: int, write: int, sharers: int, options: bool) -> int:
    """Bring a missing line into a core's L2; return the level that served the line.

    `options`: whether the machine has any optional property. Each caller passes a constant, so that
    the code for the usual machine has no cost of the options.
    """
    level = MEMORY
    bits = write
    others = sharers & ~(1 << core)
    if others:
        found = take_from_l2(c, line, others & c.registers[CORES])
        if found >= 0:
            level = PEER
            bits |= found
        elif options and c.registers[LINKED]:
            found = take_from_l2(c, line, others & ~c.registers[CORES])
            if found >= 0:
                level = REMOTE
                bits |= found
    index = llc_set(c, line)
    way = find(c.llc[index, 0], 3, line)
    if options and c.registers[ADAPTS]:
        adaptive.core_used(c.adaptive, index, line)
    if way >= 0:
        level = LLC
        bits |= _take_from_llc(c, core, index, way, write, options)
    elif options:
        if c.registers[LINKED] and sharers and level != PEER:
            found = _take_from_afar(c, index, line, write)
            if found >= 0:
                level = REMOTE
                bits |= found
        if c.registers[FILLS]:
            place(c, index, line << 3, MASKS + core, FRESH, options)
            c.totals[FILLED] += 1
            bits |= COPY
    c.served[core, level] += 1
    own = line & (c.l2.shape[1] - 1)
    stamps = c.l2[core, own, 1]
    way = oldest_way(stamps)
    victim, its_set = c.l2[core, own, 0, way], int(c.l2[core, own, 2, way])
    c.l2[core, own, 0, way] = line << 3 | bits
    c.l2[core, own, 2, way] = index
    touch(c, stamps, way)
    if victim >= 0:
        _spill(c, core, victim, its_set, options)
    return level


@kernel
def _serve_optional_miss(c: Caches, core: int, line: int, write: int, sharers: int) -> int:
    """Serve a miss on a machine with any option: see `cachestate.OPTIONS`."""
    return _serve_miss(c, core, line, write, sharers, True)


@kernel
def _own(c: Caches, core: int, index: int, way: int, line: int) -> None:
    """Drop the LLC's copy of a line that a core is about to write in L2."""
    c.l2[core, index, 0, way] &= ~COPY
    there = llc_set(c, line)
    found = find(c.llc[there, 0], 3, line)
    if found >= 0:
        drop(c, there, found)
        c.totals[MOVED] += 1


@inlined
def core_access(c: Caches, core: int, line: int, write: int, sharers: int) -> int:
    """Let a core read (`write` 0) or write (1) a line; return the level that served the line."""
    index = line & (c.l2.shape[1] - 1)
    way = find(c.l2[core, index, 0], 3, line)
    if way >= 0:
        if c.l2[core, index, 0, way] & AHEAD == AHEAD:
            c.l2[core, index, 0, way] &= ~AHEAD
        if write:
            if c.l2[core, index, 0, way] & COPY and c.registers[MIGRATES]:
                _own(c, core, index, way, line)
            c.l2[core, index, 0, way] |= DIRTY
        touch(c, c.l2[core, index, 1], way)
        c.served[core, L2] += 1
        return L2
    if c.registers[OPTIONS]:
        return _serve_optional_miss(c, core, line, write, sharers)
    return _serve_miss(c, core, line, write, sharers, False)


@kernel
def prefetch(c: Caches, core: int, line: int, sharers: int) -> int:
    """Let a core's L2 prefetch a line; return the level that served, `L2` if the line is there."""
    index = line & (c.l2.shape[1] - 1)
    if find(c.l2[core, index, 0], 3, line) >= 0:
        return L2
    level: int = core_access(c, core, line, 0, sharers)
    c.served[core, level] -= 1
    c.prefetched[core, level] += 1
    if level == MEMORY and not c.registers[FILLS]:
        c.l2[core, index, 0, find(c.l2[core, index, 0], 3, line)] |= AHEAD
    return level


@kernel
def _of_devices(c: Caches, index: int) -> int:
    """Return the number of device lines in an LLC set, without lines that are replaced next."""
    count = 0
    for way in range(c.llc.shape[2]):
        entry = c.llc[index, 0, way]
        if entry >= 0 and entry & (UNREAD | SHARED) and c.llc[index, 1, way] > LAST_WAY:
            count += 1
    return count


@inlined
def _allocate(c: Caches, index: int, way: int, entry: int, in_l2: bool, row: int) -> None:
    """Take a device's line into the LLC, in place (`way`) or into its ways (`way` -1, see `place`).

    A line that only an L2 had is also placed in these ways, and counts as a hit. The count of real
    CHAs for this case is unknown. The choice is calibrated on claim iat-8-small: all packets of one
    flow at 64 B lie in buffers that Open vSwitch has just written, and few are said to miss.
    """
    cha = index >> c.registers[SET_BITS]
    if way >= 0:
        c.llc[index, 0, way] = entry
        give_age(c, index, way, FRESH)
        c.totals[DDIO_HITS] += 1
        c.ddio[cha, 0] += 1
    else:
        before = c.totals[WRITE_BACKS]
        if row == DDIO:
            place(c, index, entry, row, FRESH, False)
        else:
            place_for_port(c, index, entry, row, FRESH)
        c.totals[DMA_WRITE_BACKS] += c.totals[WRITE_BACKS] - before
        c.totals[DDIO_PLACED] += 1
        c.totals[DDIO_HITS if in_l2 else DDIO_MISSES] += 1
        c.ddio[cha, 0 if in_l2 else 1] += 1


@kernel
def _write_adaptively(c: Caches, index: int, way: int, line: int, in_l2: bool) -> None:
    """Take a device's line into the LLC or write to memory, as ADCA decides."""
    adaptive.device_wrote(c.adaptive, index, line)
    if way < 0 and _of_devices(c, index) >= adaptive.left(c.adaptive):
        c.totals[DMA_MEMORY_WRITES] += 1
    elif adaptive.prioritised(c.adaptive):
        c.totals[WRITTEN_THROUGH] += 1
        _allocate(c, index, way, line << 3 | UNREAD, in_l2, DDIO)
    else:
        _allocate(c, index, way, line << 3 | UNREAD | DIRTY, in_l2, DDIO)


@kernel
def _drop_afar(c: Caches, index: int, line: int) -> None:
    """Drop the other socket's copy of a line that a device has written."""
    way = find(c.far[index, 0], 3, line)
    if way >= 0:
        c.far[index, 0, way] = -1
        c.far[index, 1, way] = stamp_of(0, way)
        c.far_totals[FLUSHED] += 1


@inlined
def dma_write(c: Caches, line: int, sharers: int, dca: int) -> None:
    """Let a device write a whole line: to memory (`dca` 0), or into the LLC.

    Other values of `dca` are 1 + the row of `forbidden` with the device's ways: 1 for DDIO's ways.
    """
    in_l2 = False
    if sharers:
        in_l2 = take_from_l2(c, line, sharers) >= 0
    index = llc_set(c, line)
    way = find(c.llc[index, 0], 3, line)
    if c.registers[LINKED]:
        _drop_afar(c, index, line)
    if dca == 0:
        if way >= 0:
            drop(c, index, way)
            c.totals[FLUSHED] += 1
        c.totals[DMA_MEMORY_WRITES] += 1
    elif c.registers[ADAPTS]:
        _write_adaptively(c, index, way, line, in_l2)
    else:
        _allocate(c, index, way, line << 3 | UNREAD | DIRTY, in_l2, dca - 1)


@inlined
def dma_read(c: Caches, line: int, sharers: int) -> None:
    """Let a device read a line: from an LLC, a core's L2 or memory; nothing is placed."""
    index = llc_set(c, line)
    way = find(c.llc[index, 0], 3, line)
    if way >= 0:
        hit(c, index, way)
        c.totals[DMA_READ_HITS] += 1
    elif (sharers and in_l2(c, line, sharers)) or (
        c.registers[LINKED] and find(c.far[index, 0], 3, line) >= 0
    ):
        c.totals[DMA_READ_HITS] += 1
    else:
        c.totals[DMA_READ_MISSES] += 1
        charge(c, line)


@kernel
def renumber(c: Caches) -> None:
    """Restart the LRU clock before stamps overflow, keeping the order of each set."""
    if c.registers[CLOCK] < CLOCK_LIMIT:
        return
    if c.registers[FILLS]:
        for index in range(c.llc.shape[0]):
            rank(c.llc[index, 1])
    for core in range(c.l2.shape[0]):
        for index in range(c.l2.shape[1]):
            rank(c.l2[core, index, 1])
    c.registers[CLOCK] = max(c.llc.shape[2], c.l2.shape[3])
