# SPDX-License-Identifier: Apache-2.0
"""State of the caches: entries, masks, counts, and the choice of simulated lines.

Only 1 line in `sampling` is simulated: one of each aligned group of `sampling` lines (see
`sampled_offset`), in 1 of `sampling` sets of L2 and LLC. The number of a sampled line is the number
of the group, so neighbouring sampled lines have neighbouring numbers. A core's contiguous buffer
fills L2's sets evenly, as with huge pages; the LLC's slices hash (see `slice_of`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from iat_nova.experiments.sim import adaptive
from iat_nova.experiments.sim._compile import inlined
from iat_nova.experiments.sim.machine import GIB, LINE_BYTES, Machine, WriteTarget
from iat_nova.experiments.sim.ways import LAST_WAY, NEVER, padded

# The level that served an access: columns of `Caches.served`.
L2, LLC, PEER, MEMORY, REMOTE = range(5)  # REMOTE: a cache of the other socket
LEVELS = 5

# `Caches.registers`: a clock for LRU; whether the machine has inclusive ways; the number of slices
# of the LLC, and the number of bits of a line that choose the set in a slice (see llc_set); whether
# the LLC fills; whether the LLC has ADCA; a bit for each of this socket's cores; whether a second
# socket exists; whether any of these options is set; the lead of L2's streamer in lines; the
# reciprocal of the number of slices if the slice hash is even, else 0; the bits of a line's number
# that are its place in a page (see frame_of); the lines after which L2's streamer begins; whether
# traffic is counted by port (an option, too).
(
    CLOCK, MIGRATES, SLICES, SET_BITS, FILLS, ADAPTS, CORES, LINKED, OPTIONS, STREAMER, EVEN_SLICES,
    PAGE_BITS, STREAM_LINES, PORTS,
) = range(14)  # fmt: skip
# A row of lines is divided by the number of slices with a reciprocal of so many bits.
RECIPROCAL_BITS = 36
# Numbers of sampled lines from here on, as many again, belong to pages in drawn frames.
DRAWN_LINES = 1 << 27
# L2 sets of every sampled machine; the number of LLC sets is a multiple.
COMMON_SETS = 1024
# Rows of `Caches.forbidden`: DDIO's ways, the inclusive ways, then each core's mask, then the ways
# of each port (see `ports`).
DDIO, INCLUSIVE, MASKS = range(3)

# `Caches.totals`: running counts of the whole cache, in sampled lines.
(
    DDIO_HITS,
    DDIO_MISSES,
    DMA_READ_HITS,
    DMA_READ_MISSES,
    DMA_MEMORY_WRITES,  # DCA off, or refused by ADCA
    FLUSHED,  # LLC copies dropped because DCA is off, or by a device of the other socket
    FILLED,
    VICTIMS_PLACED,
    VICTIMS_MERGED,
    MIGRATED,
    MOVED,  # from the LLC into an L2, or with L2's victim from the inclusive ways to the core's
    EVICTED,
    WRITE_BACKS,
    CLEANED,  # written back from the other socket's LLC when a core of this socket read the line
    LEAKED,  # DMA-written lines evicted before a core's first access
    WRITTEN_THROUGH,  # DMA-written lines that also went to memory
    DMA_WRITE_BACKS,  # the part of WRITE_BACKS for which a device's write had to wait
    RECALLED,  # copies in an L2 removed because the LLC's copy was evicted
    DDIO_PLACED,  # DDIO_MISSES, and the DDIO_HITS on a line that only an L2 had
    USELESS,  # lines that the streamer fetched from memory and L2 dropped unused
) = range(20)
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
    "cleaned",
    "leaked",
    "written_through",
    "dma_write_backs",
    "recalled",
    "ddio_placed",
    "useless",
)
TOTALS = len(TOTAL_NAMES)

# An LLC entry is line << 3 and these bits; -1 is empty.
DIRTY, UNREAD, SHARED = 1, 2, 4
# An L2 entry is line << 3, DIRTY and these bits. COPY: the LLC had a copy when the line came.
# SERVED: the line moved here from the LLC. Both bits: the streamer fetched the line from memory,
# and no instruction has used the line yet.
COPY, SERVED = 2, 4
AHEAD = COPY | SERVED
Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]


class Caches(NamedTuple):
    """All state of the caches of one socket. A line is the number of a sampled line of memory.

    Two sockets have common arrays `l2`, `served`, `prefetched`, `owned` and `moved` with rows for
    all cores and ports, but separate clocks and totals. `far` and `far_totals` belong to the other
    socket; with one socket `far` has no sets.
    """

    # [core, set, 0, way]: line << 3 and its bits, -1 is empty; [core, set, 1, way]: `stamp_of`;
    # [core, set, 2, way]: the line's set of the LLC
    l2: Int32
    # [set, 0, way]: entry; [set, 1, way]: `age_stamp`, or `stamp_of` where the LLC fills; [set, 2,
    # way]: of a SHARED entry the core of this socket that last took a copy, or -1
    llc: Int32
    forbidden: Int32  # [see DDIO ..., way]: 0 in the mask, NEVER outside (see victim_way)
    registers: Int64  # see CLOCK ...
    served: Int64  # [core, level]: accesses that reached a tag array
    prefetched: Int64  # [core, level]: lines that L2's prefetchers fetched, by the serving level
    totals: Int64  # see DDIO_HITS ...
    ddio: Int64  # [slice, 0 hits | 1 misses]: the CHAs' counters
    adaptive: adaptive.Adaptive
    far: Int32
    far_totals: Int64
    # [stretch]: first line, end, and port of the lines that a port's device writes, in order
    owned: Int64
    # [port]: lines that moved between memory and caches for the port's device
    moved: Int64


def make(machine: Machine, sampling: int) -> Caches:
    """Return the empty caches of a machine's first socket, see `make_sockets`."""
    return make_sockets(machine, sampling)[0]


def make_sockets(
    machine: Machine, sampling: int, ports: int = 0, owned: Int64 | None = None
) -> tuple[Caches, ...]:
    """Return the empty caches of each socket, with 1 set in `sampling`, and rows for `ports`.

    `owned`: as of `Caches`; None: the traffic of ports is not counted. Raises `ValueError` unless
    `sampling` is a power of two up to the number of L2 sets.
    """
    if sampling & (sampling - 1) or not 1 <= sampling <= machine.l2_sets:
        raise ValueError(
            f"sampling {sampling}: must be a power of two between 1 and {machine.l2_sets}"
        )
    sockets, cores = machine.sockets, machine.cpu_count
    l2 = _empty((cores, machine.l2_sets // sampling), machine.l2_ways, 3)
    llcs = [_empty((machine.llc_sets // sampling,), machine.llc_ways, 3) for _ in range(sockets)]
    totals = [np.zeros(TOTALS, np.int64) for _ in range(sockets)]
    served = np.zeros((cores, LEVELS), np.int64)
    prefetched = np.zeros((cores, LEVELS), np.int64)
    if owned is None:
        owned = np.zeros((0, 3), np.int64)
    moved = np.zeros(ports, np.int64)
    adaptive_sets = machine.llc_sets // sampling if machine.io is WriteTarget.ADCA else 0
    found = []
    for socket, llc in enumerate(llcs):
        made = Caches(
            l2,
            llc,
            _aligned((MASKS + cores + ports, llc.shape[2])),
            _registers(machine, llc.shape[0], socket, len(owned)),
            served,
            prefetched,
            totals[socket],
            np.zeros((machine.slices, 2), np.int64),
            adaptive.make(machine.adca, adaptive_sets, machine.llc_ways, sampling),
            llcs[1 - socket] if sockets > 1 else llc[:0],
            totals[1 - socket] if sockets > 1 else np.zeros(TOTALS, np.int64),
            owned,
            moved,
        )
        for row in (DDIO, *range(MASKS + cores, MASKS + cores + ports)):
            set_mask(made, row, machine.ddio_ways)
        set_mask(made, INCLUSIVE, machine.inclusive_ways)
        found.append(made)
    return tuple(found)


def _aligned(shape: tuple[int, ...]) -> Int32:
    """Return an array of zeros whose rows of `LANES` do not straddle the real CPU's lines."""
    size = int(np.prod(shape)) * 4
    room = np.zeros(size + LINE_BYTES, np.uint8)
    start = -room.ctypes.data % LINE_BYTES
    return room[start : start + size].view(np.int32).reshape(shape)


def _empty(shape: tuple[int, ...], ways: int, rows: int) -> Int32:
    """Return empty sets."""
    made = _aligned((*shape, rows, padded(ways)))
    made[...] = -1
    made[..., 1, :] = NEVER
    made[..., 1, :ways] = LAST_WAY - np.arange(ways)
    return made


def _registers(machine: Machine, sets: int, socket: int, owned: int) -> Int64:
    made = np.zeros(14, np.int64)
    made[PORTS] = owned > 0
    made[MIGRATES] = machine.inclusive_ways != 0
    made[SLICES] = machine.slices
    made[SET_BITS] = (sets // machine.slices).bit_length() - 1
    made[FILLS] = machine.llc_fills
    made[ADAPTS] = machine.io is WriteTarget.ADCA
    made[CORES] = ((1 << machine.cores) - 1) << socket * machine.cores
    made[LINKED] = machine.sockets > 1
    made[OPTIONS] = made[[FILLS, ADAPTS, LINKED, PORTS]].any()
    made[STREAMER] = machine.streamer_lines
    made[STREAM_LINES] = machine.stream_lines
    if machine.even_slices:
        made[EVEN_SLICES] = -(-(1 << RECIPROCAL_BITS) // machine.slices)
    made[PAGE_BITS] = _page_bits(machine.page_bytes, machine.llc_sets // sets)
    return made


def _page_bits(page_bytes: int, sampling: int) -> int:
    """Return the bits of a sampled line in a page, or -1 for pages so large that none is drawn."""
    if page_bytes >= GIB:
        return -1
    return max(1, page_bytes // LINE_BYTES // sampling).bit_length() - 1


def set_mask(c: Caches, row: int, mask: int) -> None:
    """Set the ways in which DDIO, migrating lines or a core (row MASKS + core) may place lines."""
    for way in range(c.forbidden.shape[1]):
        c.forbidden[row, way] = 0 if mask >> way & 1 else NEVER


def mask_of(c: Caches, row: int) -> int:
    """Return the mask of a row, as `set_mask` set the row."""
    return sum(1 << way for way, forbidden in enumerate(c.forbidden[row]) if not forbidden)


def sampled_offset(group: Int64, sampling: int) -> Int64:
    """Return the position of each group's sampled line: 0 .. sampling-1.

    All groups of an L2 set, and so all groups of an LLC set, have the same position: a simulated
    set has the lines of exactly one set of the full simulation.
    """
    share = group % max(1, COMMON_SETS // sampling)
    return np.asarray((share * 13 + share // sampling) % sampling, np.int64)


@inlined
def slice_of(c: Caches, line: int) -> int:
    """Return the LLC slice to which a line is hashed; the slice's CHA counts the line.

    CPUs hash all bits of the address: a base sequence of slices, in which each slice has its share,
    is repeated over consecutive blocks of memory, permuted in each by a hash of the upper bits (J.
    McCalpin, "Mapping Addresses to L3/CHA Slices in Intel Processors", TR-2021-03, 2021). So any
    stride fills the slices evenly, and the lines of a block fill the sets evenly. `EVEN_SLICES`: a
    block has one line for each set of the LLC, and which slice comes first is hashed for each block
    and set in a slice; a rotation stands for the binary permutations. Else the slice of each line
    is random, and so is the number of used lines in a set. The hash is the finaliser of
    MurmurHash3, not the CPUs' own.
    """
    slices = c.registers[SLICES]
    if slices == 1:
        return 0
    mixed, place = line, 0
    if c.registers[EVEN_SLICES]:
        bits = c.registers[SET_BITS]
        row = line >> bits
        block = row * c.registers[EVEN_SLICES] >> RECIPROCAL_BITS
        place = row - block * slices
        mixed = block << bits | line & (1 << bits) - 1
    mixed = (mixed ^ mixed >> 16) * 0x85EBCA6B & 0xFFFFFFFF
    mixed = (mixed ^ mixed >> 13) * 0xC2B2AE35 & 0xFFFFFFFF
    mixed ^= mixed >> 16
    found: int = (mixed * slices >> 32) + place
    return found - slices if found >= slices else found


@inlined
def frame_of(c: Caches, line: int) -> int:
    """Return where a line of a thread's own memory lies: its page's frame is drawn by a hash.

    An operating system hands out any free frames, so that which lines share a set of L2 or the LLC
    is random from page to page. The hash is a bijection, onto numbers that no other memory has.
    """
    bits = c.registers[PAGE_BITS]
    if bits < 0:
        return line
    mask = (DRAWN_LINES >> bits) - 1
    page = (line >> bits) * 0x9E3779B1 & mask
    page = (page ^ page >> 11) * 0x85EBCA6B & mask
    page ^= page >> 11
    placed: int = DRAWN_LINES | page << bits | line & (1 << bits) - 1
    return placed


@inlined
def llc_set(c: Caches, line: int) -> int:
    """Return the LLC set of a line: in the line's slice, the set given by the line's low bits."""
    bits = c.registers[SET_BITS]
    index: int = slice_of(c, line) << bits | line & (1 << bits) - 1
    return index
