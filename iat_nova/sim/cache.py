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

from iat_nova.sim._compile import inlined, kernel
from iat_nova.sim.machine import Machine

# The level that served an access: columns of `Caches.served`.
L2, LLC, PEER, MEMORY = range(4)
LEVELS = 4

# `Caches.registers`: a clock for LRU; whether the machine has inclusive ways; the factor and the
# shift that divide by the number of LLC sets (see llc_set).
CLOCK, MIGRATES, FACTOR, SHIFT = range(4)
# Rows of `Caches.forbidden`: DDIO's ways, the inclusive ones, then each core's mask.
DDIO, INCLUSIVE, MASKS = range(3)

# `Caches.totals`: running counts of the whole cache, in sampled lines.
(
    DDIO_HITS,
    DDIO_MISSES,
    DMA_READ_HITS,
    DMA_READ_MISSES,
    DMA_MEMORY_WRITES,  # DCA off
    FLUSHED,  # LLC copies dropped because DCA is off
    VICTIMS_PLACED,
    VICTIMS_MERGED,
    MIGRATED,
    MOVED,  # from the LLC into an L2
    EVICTED,
    WRITE_BACKS,
    LEAKED,  # DMA-written lines evicted before a core had touched them
) = range(13)
TOTAL_NAMES = (
    "ddio_hits",
    "ddio_misses",
    "dma_read_hits",
    "dma_read_misses",
    "dma_memory_writes",
    "flushed",
    "victims_placed",
    "victims_merged",
    "migrated",
    "moved",
    "evicted",
    "write_backs",
    "leaked",
)
TOTALS = len(TOTAL_NAMES)

# An LLC entry is line << 3 and these; -1 is empty.
DIRTY, UNREAD, SHARED = 1, 2, 4
# An L2 entry is line << 2, DIRTY and this: the LLC had a copy when the line came; else it has none.
COPY = 2
# A stamp is a clock and, in its low bits, the way; 2^26 ticks fit beside them.
_WAY_BITS = 5
_LAST_WAY = (1 << _WAY_BITS) - 1
_CLOCK_LIMIT = 1 << 25
_NEVER = np.int32((1 << 31) - 1)
# Ways are padded to a multiple of this, so that vector instructions need no remainder; the ways
# that do not exist are empty and never replaced.
LANES = 8

Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]


class Caches(NamedTuple):
    """All state of the caches of one socket. Lines are numbers of sampled lines."""

    # [core, set, 0, way]: line << 2 | COPY | DIRTY, -1 is empty; [core, set, 1, way]: `stamp_of`
    l2: Int32
    llc: Int32  # [set, 0, way]: entry; [set, 1, way]: stamp of the last use
    forbidden: Int32  # [see DDIO ..., way]: 0 in the mask, _NEVER outside (see victim_way)
    registers: Int64  # see CLOCK ...
    served: Int64  # [core, level]: accesses that reached a tag array
    totals: Int64  # see DDIO_HITS ...
    ddio: Int64  # [slice, 0 hits | 1 misses]: the CHAs' counters


def _padded(ways: int) -> int:
    return -(-ways // LANES) * LANES


def make(machine: Machine, sampling: int) -> Caches:
    """Return empty caches of `machine`, of which 1 set in `sampling` (a power of two) exists."""
    if sampling & (sampling - 1) or not 1 <= sampling <= machine.l2_sets:
        raise ValueError(
            f"sampling {sampling}: must be a power of two between 1 and {machine.l2_sets}"
        )
    sets = machine.llc_sets // sampling
    l2 = np.empty(
        (machine.cores, machine.l2_sets // sampling, 2, _padded(machine.l2_ways)), np.int32
    )
    llc = np.empty((sets, 2, _padded(machine.llc_ways)), np.int32)
    for sets_of, ways in ((l2, machine.l2_ways), (llc, machine.llc_ways)):
        sets_of[..., 0, :] = -1
        sets_of[..., 1, :] = _NEVER
        sets_of[..., 1, :ways] = _LAST_WAY - np.arange(ways)
    registers = np.zeros(4, np.int64)
    registers[MIGRATES] = machine.inclusive_ways != 0
    registers[SHIFT] = 32 + sets.bit_length()
    registers[FACTOR] = (1 << int(registers[SHIFT])) // sets + 1
    made = Caches(
        l2,
        llc,
        np.zeros((MASKS + machine.cores, llc.shape[2]), np.int32),
        registers,
        np.zeros((machine.cores, LEVELS), np.int64),
        np.zeros(TOTALS, np.int64),
        np.zeros((machine.slices, 2), np.int64),
    )
    set_mask(made, DDIO, machine.ddio_ways)
    set_mask(made, INCLUSIVE, machine.inclusive_ways)
    return made


def set_mask(c: Caches, row: int, mask: int) -> None:
    """Set the ways into which DDIO, migrating lines or a core (row MASKS + core) may place."""
    for way in range(c.forbidden.shape[1]):
        c.forbidden[row, way] = 0 if mask >> way & 1 else _NEVER


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
def find(entries: Int32, shift: int, line: int) -> int:
    """Return the way of a set that holds a line, -1 when none does.

    Without an early exit, and in 32 bits, so that LANES ways are compared at once.
    """
    wanted = np.int32(line << shift)
    low = np.int32((1 << shift) - 1)
    found = np.int32(-1)
    for way in range(entries.size):
        held = np.int32(entries[way] & ~low)
        found = np.int32(way) if held == wanted else found
    return int(found)


@inlined
def victim_way(stamps: Int32, forbidden: Int32) -> int:
    """Return the way to replace among those that are not forbidden: empty or least recently used.

    Replacement is here and in `touch`. A stamp ends in its way, see `stamp_of`, so the smallest
    stamp names it; a forbidden way's reads as the largest number.
    """
    oldest = _NEVER
    for way in range(stamps.size):
        oldest = min(oldest, np.int32(stamps[way] | forbidden[way]))
    return _LAST_WAY - int(oldest & _LAST_WAY)


@inlined
def _oldest_way(stamps: Int32) -> int:
    """Return the way of an L2 to replace: `victim_way` without a mask."""
    oldest = _NEVER
    for way in range(stamps.size):
        oldest = min(oldest, stamps[way])
    return _LAST_WAY - int(oldest & _LAST_WAY)


@inlined
def stamp_of(clock: int, way: int) -> int:
    """Return the stamp of a way last used at `clock`, 0 when it is empty.

    Of ways with the same clock, which are the empty ones, the highest has the smallest stamp.
    """
    return clock << _WAY_BITS | (_LAST_WAY - way)


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
def place(c: Caches, index: int, entry: int, row: int) -> None:
    """Put an entry into a way that a row of `forbidden` allows, evicting what is there."""
    way = victim_way(c.llc[index, 1], c.forbidden[row])
    old = c.llc[index, 0, way]
    if old >= 0:
        c.totals[EVICTED] += 1
        c.totals[WRITE_BACKS] += old & DIRTY
        c.totals[LEAKED] += (old & UNREAD) >> 1
    c.llc[index, 0, way] = entry
    touch(c, c.llc[index, 1], way)


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
def spill(c: Caches, core: int, entry: int) -> None:
    """Bring L2's victim into the LLC."""
    line = entry >> 2
    index = llc_set(c, line)
    way = find(c.llc[index, 0], 3, line) if entry & COPY else -1
    if way >= 0:
        c.llc[index, 0, way] |= entry & DIRTY
        touch(c, c.llc[index, 1], way)
        c.totals[VICTIMS_MERGED] += 1
    else:
        place(c, index, line << 3 | (entry & DIRTY), MASKS + core)
        c.totals[VICTIMS_PLACED] += 1


@inlined
def _take_from_llc(c: Caches, index: int, way: int) -> int:
    """Serve an L2's miss from the LLC; return the bits that go to L2 with the line."""
    entry: int = c.llc[index, 0, way]
    if entry & (UNREAD | SHARED) == 0:
        drop(c, index, way)
        c.totals[MOVED] += 1
        return entry & DIRTY
    kept = (entry & ~UNREAD) | SHARED
    if c.registers[MIGRATES] and c.forbidden[INCLUSIVE, way]:
        drop(c, index, way)
        place(c, index, kept, INCLUSIVE)
        c.totals[MIGRATED] += 1
    else:
        c.llc[index, 0, way] = kept
        touch(c, c.llc[index, 1], way)
    return COPY


@inlined
def core_access(c: Caches, core: int, line: int, write: int, sharers: int) -> int:
    """Let a core read (`write` 0) or write (1) a line; return the level that served it."""
    index = line & (c.l2.shape[1] - 1)
    entries = c.l2[core, index, 0]
    stamps = c.l2[core, index, 1]
    place_in_l2 = find(entries, 2, line)
    if place_in_l2 >= 0:
        entries[place_in_l2] |= write
        touch(c, stamps, place_in_l2)
        c.served[core, L2] += 1
        return L2
    level = MEMORY
    bits = write
    others = sharers & ~(1 << core)
    if others:
        found = take_from_l2(c, line, others)
        if found >= 0:
            level = PEER
            bits |= found
    shared_index = llc_set(c, line)
    way = find(c.llc[shared_index, 0], 3, line)
    if way >= 0:
        level = LLC
        bits |= _take_from_llc(c, shared_index, way)
    c.served[core, level] += 1
    place_in_l2 = _oldest_way(stamps)
    victim = entries[place_in_l2]
    entries[place_in_l2] = line << 2 | bits
    touch(c, stamps, place_in_l2)
    if victim >= 0:
        spill(c, core, victim)
    return level


@inlined
def dma_write(c: Caches, line: int, sharers: int, dca: int) -> None:
    """Let a device write a whole line, through DDIO when `dca` is 1."""
    if sharers:
        take_from_l2(c, line, sharers)
    index = llc_set(c, line)
    way = find(c.llc[index, 0], 3, line)
    if dca == 0:
        if way >= 0:
            drop(c, index, way)
            c.totals[FLUSHED] += 1
        c.totals[DMA_MEMORY_WRITES] += 1
        return
    cha = slice_of(line, c.ddio.shape[0])
    if way >= 0:
        c.llc[index, 0, way] = line << 3 | DIRTY | UNREAD
        touch(c, c.llc[index, 1], way)
        c.totals[DDIO_HITS] += 1
        c.ddio[cha, 0] += 1
    else:
        place(c, index, line << 3 | DIRTY | UNREAD, DDIO)
        c.totals[DDIO_MISSES] += 1
        c.ddio[cha, 1] += 1


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
def _rank(stamps: Int32) -> None:
    """Replace the clocks in the stamps of a set by their ranks, from 1; empty ways keep 0."""
    # The way with the lowest old stamp left gets the next new one; new ones are negative until
    # all have theirs.
    for rank in range(1, stamps.size + 1):
        lowest = -1
        for way in range(stamps.size):
            used = stamps[way] > _LAST_WAY and stamps[way] != _NEVER
            if used and (lowest < 0 or stamps[way] < stamps[lowest]):
                lowest = way
        if lowest >= 0:
            stamps[lowest] = -stamp_of(rank, lowest)
    for way in range(stamps.size):
        if stamps[way] < 0:
            stamps[way] = -stamps[way]


@kernel
def renumber(c: Caches) -> None:
    """Start the LRU clock afresh, keeping the order of each set, before stamps overflow."""
    if c.registers[CLOCK] < _CLOCK_LIMIT:
        return
    for index in range(c.llc.shape[0]):
        _rank(c.llc[index, 1])
    for core in range(c.l2.shape[0]):
        for index in range(c.l2.shape[1]):
            _rank(c.l2[core, index, 1])
    c.registers[CLOCK] = max(c.llc.shape[2], c.l2.shape[3])


@kernel
def memory_writes(c: Caches) -> int:
    """Return the sampled lines that have been written to memory."""
    total: int = c.totals[WRITE_BACKS] + c.totals[DMA_MEMORY_WRITES]
    return total


@kernel
def memory_lines(c: Caches) -> int:
    """Return the sampled lines that have crossed the memory bus, both ways."""
    total: int = memory_writes(c) + c.totals[DMA_READ_MISSES]
    for core in range(c.served.shape[0]):
        total += c.served[core, MEMORY]
    return total
