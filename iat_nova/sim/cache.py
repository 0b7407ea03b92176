# SPDX-License-Identifier: Apache-2.0
"""The caches: a private L2 a core and a shared, non-inclusive LLC with CAT and DDIO.

The rules, in the order in which an access meets them:

* A core's access that misses its L2 looks in the LLC and then in the L2s of the other cores that
  may hold the line (`sharers`, a bit a core); the line is in at most one L2. It fills L2 only.
* An ordinary line that hits in the LLC *moves* to L2. A line that a device wrote stays in the
  LLC, in one of the *inclusive* ways, to which it migrates when a core first touches it, because
  only these can hold a line that is in an L2 as well (A4, ISCA 2025).
* L2's victim merges into its copy in the LLC if there is one, else it is placed in the ways of
  the core's mask: the LLC is a victim cache. Masks say where lines are placed, never where they
  hit.
* A device's write updates a line that is in the LLC where it is (write update, a DDIO hit), else
  it is placed in DDIO's ways (write allocate, a DDIO miss). A copy in an L2 is dropped. With DCA
  off it goes to memory and the LLC's copy is dropped too.
* A device's read hits or goes to memory, and places nothing.

Two things differ by machine. An LLC that *fills* is the ordinary kind: what a core misses is placed
in it as well, a line that hits stays, and only dirty victims of L2 come back. With ADCA a device's
write is let in, if it is not a hit, only while its set holds fewer device lines than the ways that
the cores leave (`adaptive`); once it has learnt that cores read them once, a device's line that
was read goes next, and devices write through to memory.

Not modelled: what invalidates L2 when the directory is full; the dead-block predictor that lets
some clean victims bypass the LLC; read-sharing (a line that two cores read moves between them).

Only 1 line in `sampling` is simulated: of each aligned group of that many lines the one that a
hash of the group's number points at (`sampled_offset`), in 1 of as many sets of L2 and LLC. A
sampled line is known by its group's number, so neighbouring sampled lines have neighbouring
numbers and a core's contiguous buffer fills sets evenly, as with huge pages.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from iat_nova.sim import adaptive
from iat_nova.sim._compile import inlined, kernel
from iat_nova.sim.machine import Io, Machine
from iat_nova.sim.ways import (
    CLOCK_LIMIT,
    LAST_WAY,
    NEVER,
    find,
    oldest_way,
    padded,
    rank,
    stamp_of,
    victim_way,
)

# The level that served an access: columns of `Caches.served`.
L2, LLC, PEER, MEMORY = range(4)
LEVELS = 4

# `Caches.registers`: a clock for LRU; whether the machine has inclusive ways; the factor and the
# shift that divide by the number of LLC sets (see llc_set); whether the LLC fills, whether it has
# ADCA, and whether either.
CLOCK, MIGRATES, FACTOR, SHIFT, FILLS, ADAPTS, OPTIONS = range(7)
# Rows of `Caches.forbidden`: DDIO's ways, the inclusive ones, then each core's mask.
DDIO, INCLUSIVE, MASKS = range(3)

# `Caches.totals`: running counts of the whole cache, in sampled lines.
(
    DDIO_HITS,
    DDIO_MISSES,
    DMA_READ_HITS,
    DMA_READ_MISSES,
    DMA_MEMORY_WRITES,  # DCA off, or not let in
    FLUSHED,  # LLC copies dropped because DCA is off
    FILLED,
    VICTIMS_PLACED,
    VICTIMS_MERGED,
    MIGRATED,
    MOVED,  # from the LLC into an L2
    EVICTED,
    WRITE_BACKS,
    LEAKED,  # DMA-written lines evicted before a core had touched them
    WRITTEN_THROUGH,  # DMA-written lines that went to memory as well
    DMA_WRITE_BACKS,  # of WRITE_BACKS, those that a device's write had to wait for
) = range(16)
TOTAL_NAMES = (
    "ddio_hits",
    "ddio_misses",
    "dma_read_hits",
    "dma_read_misses",
    "dma_memory_writes",
    "flushed",
    "filled",
    "victims_placed",
    "victims_merged",
    "migrated",
    "moved",
    "evicted",
    "write_backs",
    "leaked",
    "written_through",
    "dma_write_backs",
)
TOTALS = len(TOTAL_NAMES)

# An LLC entry is line << 3 and these; -1 is empty.
DIRTY, UNREAD, SHARED = 1, 2, 4
# An L2 entry is line << 2, DIRTY and this: the LLC had a copy when the line came; else it has none.
COPY = 2
Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]


class Caches(NamedTuple):
    """All state of the caches of one socket. Lines are numbers of sampled lines."""

    # [core, set, 0, way]: line << 2 | COPY | DIRTY, -1 is empty; [core, set, 1, way]: `stamp_of`
    l2: Int32
    llc: Int32  # [set, 0, way]: entry; [set, 1, way]: stamp of the last use
    forbidden: Int32  # [see DDIO ..., way]: 0 in the mask, NEVER outside (see victim_way)
    registers: Int64  # see CLOCK ...
    served: Int64  # [core, level]: accesses that reached a tag array
    totals: Int64  # see DDIO_HITS ...
    ddio: Int64  # [slice, 0 hits | 1 misses]: the CHAs' counters
    adaptive: adaptive.Adaptive


def make(machine: Machine, sampling: int) -> Caches:
    """Return empty caches of `machine`, of which 1 set in `sampling` (a power of two) exists."""
    if sampling & (sampling - 1) or not 1 <= sampling <= machine.l2_sets:
        raise ValueError(
            f"sampling {sampling}: must be a power of two between 1 and {machine.l2_sets}"
        )
    sets = machine.llc_sets // sampling
    l2 = np.empty(
        (machine.cores, machine.l2_sets // sampling, 2, padded(machine.l2_ways)), np.int32
    )
    llc = np.empty((sets, 2, padded(machine.llc_ways)), np.int32)
    for sets_of, ways in ((l2, machine.l2_ways), (llc, machine.llc_ways)):
        sets_of[..., 0, :] = -1
        sets_of[..., 1, :] = NEVER
        sets_of[..., 1, :ways] = LAST_WAY - np.arange(ways)
    registers = np.zeros(7, np.int64)
    registers[MIGRATES] = machine.inclusive_ways != 0
    registers[SHIFT] = 32 + sets.bit_length()
    registers[FACTOR] = (1 << int(registers[SHIFT])) // sets + 1
    adapts = machine.io is Io.ADCA
    registers[FILLS] = machine.llc_fills
    registers[ADAPTS] = adapts
    registers[OPTIONS] = machine.llc_fills or adapts
    made = Caches(
        l2,
        llc,
        np.zeros((MASKS + machine.cores, llc.shape[2]), np.int32),
        registers,
        np.zeros((machine.cores, LEVELS), np.int64),
        np.zeros(TOTALS, np.int64),
        np.zeros((machine.slices, 2), np.int64),
        adaptive.make(machine.adca, sets if adapts else 0, machine.llc_ways, sampling),
    )
    set_mask(made, DDIO, machine.ddio_ways)
    set_mask(made, INCLUSIVE, machine.inclusive_ways)
    return made


def set_mask(c: Caches, row: int, mask: int) -> None:
    """Set the ways into which DDIO, migrating lines or a core (row MASKS + core) may place."""
    for way in range(c.forbidden.shape[1]):
        c.forbidden[row, way] = 0 if mask >> way & 1 else NEVER


def mask_of(c: Caches, row: int) -> int:
    """Return what `set_mask` set."""
    return sum(1 << way for way, forbidden in enumerate(c.forbidden[row]) if not forbidden)


def sampled_offset(group: Int64, sampling: int) -> Int64:
    """Return which of its `sampling` lines represents each group: 0 .. sampling-1."""
    mixed = (group.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(40)
    return (mixed % np.uint64(sampling)).astype(np.int64)


@inlined
def llc_set(c: Caches, line: int) -> int:
    """Return the LLC set of a line: the remainder, so that neighbours fill all sets evenly.

    Dividing by multiplying (Granlund and Montgomery, PLDI 1994) is exact for lines below 2^28.
    """
    quotient = (line * c.registers[FACTOR]) >> c.registers[SHIFT]
    index: int = line - quotient * c.llc.shape[0]
    return index


@inlined
def slice_of(line: int, slices: int) -> int:
    """Return the slice whose CHA counts a line: Fibonacci hashing spreads them evenly."""
    return (((line * 2654435769) & 0xFFFFFFFF) * slices) >> 32


@inlined
def touch(c: Caches, stamps: Int32, way: int) -> None:
    """Make a way the most recently used one of its set."""
    c.registers[CLOCK] += 1
    stamps[way] = stamp_of(c.registers[CLOCK], way)


@inlined
def drop(c: Caches, index: int, way: int) -> None:
    """Empty a way of the LLC without a write-back."""
    c.llc[index, 0, way] = -1
    c.llc[index, 1, way] = stamp_of(0, way)


@inlined
def place(c: Caches, index: int, entry: int, row: int) -> int:
    """Put an entry into a way that a row of `forbidden` allows, evicting what is there."""
    way = victim_way(c.llc[index, 1], c.forbidden[row])
    old = c.llc[index, 0, way]
    if old >= 0:
        c.totals[EVICTED] += 1
        c.totals[WRITE_BACKS] += old & DIRTY
        c.totals[LEAKED] += (old & UNREAD) >> 1
    c.llc[index, 0, way] = entry
    touch(c, c.llc[index, 1], way)
    return way


@inlined
def _put_up(c: Caches, index: int, way: int) -> None:
    """Have a line of the LLC replaced next, if it is a device's and ADCA says that it is done."""
    if c.registers[ADAPTS] and c.llc[index, 0, way] & SHARED and adaptive.prioritised(c.adaptive):
        c.llc[index, 1, way] = stamp_of(0, way)


@kernel
def take_from_l2(c: Caches, line: int, cores: int) -> int:
    """Take a line out of the L2 that has it: its dirty bit, or -1 when none of `cores` has it."""
    index = line & (c.l2.shape[1] - 1)
    core = 0
    while cores:
        if cores & 1:
            way = find(c.l2[core, index, 0], 2, line)
            if way >= 0:
                entry: int = c.l2[core, index, 0, way]
                c.l2[core, index, 0, way] = -1
                c.l2[core, index, 1, way] = stamp_of(0, way)
                return entry & DIRTY
        cores >>= 1
        core += 1
    return -1


@inlined
def _spill(c: Caches, core: int, entry: int, options: bool) -> None:
    """Bring L2's victim into the LLC."""
    if options and c.registers[FILLS] and not entry & DIRTY:
        return
    line = entry >> 2
    index = llc_set(c, line)
    way = find(c.llc[index, 0], 3, line) if entry & COPY else -1
    if way >= 0:
        c.llc[index, 0, way] |= entry & DIRTY
        touch(c, c.llc[index, 1], way)
        if options:
            _put_up(c, index, way)
        c.totals[VICTIMS_MERGED] += 1
    else:
        place(c, index, line << 3 | (entry & DIRTY), MASKS + core)
        c.totals[VICTIMS_PLACED] += 1


@inlined
def _take_from_llc(c: Caches, index: int, way: int, options: bool) -> int:
    """Serve an L2's miss from the LLC; return the bits that go to L2 with the line."""
    entry: int = c.llc[index, 0, way]
    if entry & (UNREAD | SHARED) == 0:
        if options and c.registers[FILLS]:
            touch(c, c.llc[index, 1], way)
            return COPY
        drop(c, index, way)
        c.totals[MOVED] += 1
        return entry & DIRTY
    kept = (entry & ~UNREAD) | SHARED
    if c.registers[MIGRATES] and c.forbidden[INCLUSIVE, way]:
        drop(c, index, way)
        way = place(c, index, kept, INCLUSIVE)
        c.totals[MIGRATED] += 1
    else:
        c.llc[index, 0, way] = kept
        touch(c, c.llc[index, 1], way)
    if options:
        _put_up(c, index, way)
    return COPY


@inlined
def _serve_miss(c: Caches, core: int, line: int, write: int, sharers: int, options: bool) -> int:
    """Bring a line that a core's L2 lacks into it; return the level that served it.

    `options`: whether to look at what differs by machine. It is a constant wherever this is
    compiled in, so that the usual machine does not pay for what it lacks.
    """
    level = MEMORY
    bits = write
    others = sharers & ~(1 << core)
    if others:
        found = take_from_l2(c, line, others)
        if found >= 0:
            level = PEER
            bits |= found
    index = llc_set(c, line)
    way = find(c.llc[index, 0], 3, line)
    if options and c.registers[ADAPTS]:
        adaptive.core_used(c.adaptive, index, line)
    if way >= 0:
        level = LLC
        bits |= _take_from_llc(c, index, way, options)
    elif options and c.registers[FILLS]:
        place(c, index, line << 3, MASKS + core)
        c.totals[FILLED] += 1
        bits |= COPY
    c.served[core, level] += 1
    own = line & (c.l2.shape[1] - 1)
    stamps = c.l2[core, own, 1]
    way = oldest_way(stamps)
    victim = c.l2[core, own, 0, way]
    c.l2[core, own, 0, way] = line << 2 | bits
    touch(c, stamps, way)
    if victim >= 0:
        _spill(c, core, victim, options)
    return level


@kernel
def _serve_optional_miss(c: Caches, core: int, line: int, write: int, sharers: int) -> int:
    """Serve a miss on a machine whose LLC fills, or has ADCA."""
    return _serve_miss(c, core, line, write, sharers, True)


@inlined
def core_access(c: Caches, core: int, line: int, write: int, sharers: int) -> int:
    """Let a core read (`write` 0) or write (1) a line; return the level that served it."""
    index = line & (c.l2.shape[1] - 1)
    way = find(c.l2[core, index, 0], 2, line)
    if way >= 0:
        c.l2[core, index, 0, way] |= write
        touch(c, c.l2[core, index, 1], way)
        c.served[core, L2] += 1
        return L2
    if c.registers[OPTIONS]:
        return _serve_optional_miss(c, core, line, write, sharers)
    return _serve_miss(c, core, line, write, sharers, False)


@kernel
def _of_devices(c: Caches, index: int) -> int:
    """Return how many lines of an LLC set devices wrote, those not counted that are to go next."""
    count = 0
    for way in range(c.llc.shape[2]):
        entry = c.llc[index, 0, way]
        if entry >= 0 and entry & (UNREAD | SHARED) and c.llc[index, 1, way] > LAST_WAY:
            count += 1
    return count


@inlined
def _allocate(c: Caches, index: int, way: int, entry: int) -> None:
    """Take a device's line into the LLC, where it is (`way`) or into DDIO's ways (-1)."""
    cha = slice_of(entry >> 3, c.ddio.shape[0])
    if way >= 0:
        c.llc[index, 0, way] = entry
        touch(c, c.llc[index, 1], way)
        c.totals[DDIO_HITS] += 1
        c.ddio[cha, 0] += 1
    else:
        before = c.totals[WRITE_BACKS]
        place(c, index, entry, DDIO)
        c.totals[DMA_WRITE_BACKS] += c.totals[WRITE_BACKS] - before
        c.totals[DDIO_MISSES] += 1
        c.ddio[cha, 1] += 1


@kernel
def _write_adaptively(c: Caches, index: int, way: int, line: int) -> None:
    """Take a device's line in as ADCA decides."""
    adaptive.device_wrote(c.adaptive, index, line)
    if way < 0 and _of_devices(c, index) >= adaptive.left(c.adaptive):
        c.totals[DMA_MEMORY_WRITES] += 1
    elif adaptive.prioritised(c.adaptive):
        c.totals[WRITTEN_THROUGH] += 1
        _allocate(c, index, way, line << 3 | UNREAD)
    else:
        _allocate(c, index, way, line << 3 | UNREAD | DIRTY)


@inlined
def dma_write(c: Caches, line: int, sharers: int, dca: int) -> None:
    """Let a device write a whole line, into the LLC when `dca` is 1."""
    if sharers:
        take_from_l2(c, line, sharers)
    index = llc_set(c, line)
    way = find(c.llc[index, 0], 3, line)
    if dca == 0:
        if way >= 0:
            drop(c, index, way)
            c.totals[FLUSHED] += 1
        c.totals[DMA_MEMORY_WRITES] += 1
    elif c.registers[ADAPTS]:
        _write_adaptively(c, index, way, line)
    else:
        _allocate(c, index, way, line << 3 | UNREAD | DIRTY)


@kernel
def _in_l2(c: Caches, line: int, cores: int) -> bool:
    """Tell whether an L2 of `cores` has the line."""
    index = line & (c.l2.shape[1] - 1)
    core = 0
    while cores:
        if cores & 1 and find(c.l2[core, index, 0], 2, line) >= 0:
            return True
        cores >>= 1
        core += 1
    return False


@inlined
def dma_read(c: Caches, line: int, sharers: int) -> None:
    """Let a device read a line: from the LLC, a core's L2 or memory; nothing is placed."""
    index = llc_set(c, line)
    way = find(c.llc[index, 0], 3, line)
    if way >= 0:
        touch(c, c.llc[index, 1], way)
        c.totals[DMA_READ_HITS] += 1
    elif sharers and _in_l2(c, line, sharers):
        c.totals[DMA_READ_HITS] += 1
    else:
        c.totals[DMA_READ_MISSES] += 1


@kernel
def renumber(c: Caches) -> None:
    """Start the LRU clock afresh, keeping the order of each set, before stamps overflow."""
    if c.registers[CLOCK] < CLOCK_LIMIT:
        return
    for index in range(c.llc.shape[0]):
        rank(c.llc[index, 1])
    for core in range(c.l2.shape[0]):
        for index in range(c.l2.shape[1]):
            rank(c.l2[core, index, 1])
    c.registers[CLOCK] = max(c.llc.shape[2], c.l2.shape[3])


@kernel
def memory_writes(c: Caches) -> int:
    """Return the sampled lines that have been written to memory."""
    total: int = c.totals[WRITE_BACKS] + c.totals[DMA_MEMORY_WRITES] + c.totals[WRITTEN_THROUGH]
    return total


@kernel
def memory_lines(c: Caches) -> int:
    """Return the sampled lines that have crossed the memory bus, both ways."""
    total: int = memory_writes(c) + c.totals[DMA_READ_MISSES]
    for core in range(c.served.shape[0]):
        total += c.served[core, MEMORY]
    return total
