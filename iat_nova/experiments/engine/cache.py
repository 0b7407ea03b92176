# SPDX-License-Identifier: Apache-2.0
"""State of the caches: entries, masks, counts, and the choice of simulated lines.

``cache.c`` and ``llc.c`` have the rules.

Only 1 line in `sampling` is simulated: one of each aligned group of `sampling` lines (see
`sampled_offset`), in 1 of `sampling` sets of L2 and LLC. The number of a sampled line is the number
of the group, so neighbouring sampled lines have neighbouring numbers. A core's contiguous buffer
fills L2's sets evenly, as with huge pages; the LLC's slices hash.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import numpy.typing as npt

from iat_nova.experiments.engine import adaptive
from iat_nova.experiments.engine.layout import Block, columns, number, numbers
from iat_nova.experiments.engine.library import FUNCTIONS
from iat_nova.experiments.machines.machine import GIB, LINE_BYTES, Machine, WriteTarget

# The level that served an access: columns of `Caches.served`.
L2, LLC, PEER, MEMORY, REMOTE, LEVELS = map(
    number, ("L2", "LLC", "PEER", "MEMORY", "REMOTE", "LEVELS")
)
# Rows of `Caches.forbidden`.
DDIO, INCLUSIVE, MASKS = map(number, ("DDIO", "INCLUSIVE", "MASKS"))
UNREAD, SHARED = number("UNREAD"), number("SHARED")
DRAWN_LINES = number("DRAWN_LINES")
REGISTERS, TOTALS = columns("Registers"), columns("Totals")
TOTAL_NAMES = TOTALS.names
# L2 sets of every sampled machine; the number of LLC sets is a multiple.
COMMON_SETS = 1024
Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]


@dataclasses.dataclass(frozen=True, eq=False)
class Caches(Block):
    """All state of the caches of one socket. A line is the number of a sampled line of memory."""

    l2: Int32
    llc: Int32
    forbidden: Int32
    registers: Int64
    served: Int64
    prefetched: Int64
    totals: Int64
    ddio: Int64
    adaptive: adaptive.Adaptive
    far: Int32
    far_totals: Int64
    owned: Int64
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
    totals = [np.zeros(len(TOTALS), np.int64) for _ in range(sockets)]
    served = np.zeros((cores, LEVELS), np.int64)
    prefetched = np.zeros((cores, LEVELS), np.int64)
    if owned is None:
        owned = np.zeros((0, len(columns("Owned"))), np.int64)
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
            totals[1 - socket] if sockets > 1 else np.zeros(len(TOTALS), np.int64),
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
    """Return empty sets, with the ways padded to a multiple of `LANES`."""
    lanes = number("LANES")
    made = _aligned((*shape, rows, -(-ways // lanes) * lanes))
    made[...] = -1
    made[..., 1, :] = number("NEVER")
    made[..., 1, :ways] = number("LAST_WAY") - np.arange(ways)
    return made


def _registers(machine: Machine, sets: int, socket: int, owned: int) -> Int64:
    made = np.zeros(len(REGISTERS), np.int64)
    made[REGISTERS.ports] = owned > 0
    made[REGISTERS.migrates] = machine.inclusive_ways != 0
    made[REGISTERS.slices] = machine.slices
    made[REGISTERS.set_bits] = (sets // machine.slices).bit_length() - 1
    made[REGISTERS.fills] = machine.llc_fills
    made[REGISTERS.policy] = numbers("replacement.h")[machine.replacement]
    made[REGISTERS.adapts] = machine.io is WriteTarget.ADCA
    made[REGISTERS.cores] = ((1 << machine.cores) - 1) << socket * machine.cores
    made[REGISTERS.linked] = machine.sockets > 1
    r, wide = REGISTERS, max(machine.l2_ways, machine.llc_ways) > number("LANES")
    made[r.options] = wide or made[[r.fills, r.policy, r.adapts, r.linked, r.ports]].any()
    made[REGISTERS.streamer] = machine.streamer_lines
    made[REGISTERS.stream_lines] = machine.stream_lines
    if machine.even_slices:
        reciprocal = -(-(1 << number("RECIPROCAL_BITS")) // machine.slices)
        made[REGISTERS.even_slices] = reciprocal
    made[REGISTERS.page_bits] = _page_bits(machine.page_bytes, machine.llc_sets // sets)
    return made


def _page_bits(page_bytes: int, sampling: int) -> int:
    """Return the bits of a sampled line in a page, or -1 for pages so large that none is drawn."""
    if page_bytes >= GIB:
        return -1
    return max(1, page_bytes // LINE_BYTES // sampling).bit_length() - 1


def set_mask(c: Caches, row: int, mask: int) -> None:
    """Set the ways in which DDIO, migrating lines or a core (row MASKS + core) may place lines."""
    for way in range(c.forbidden.shape[1]):
        c.forbidden[row, way] = 0 if mask >> way & 1 else number("NEVER")


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


def llc_set(c: Caches, line: int) -> int:
    """Return the LLC set of a line."""
    return int(FUNCTIONS["llc_set"](c.address, line))


def frame_of(c: Caches, line: int) -> int:
    """Return where a line of a thread's own memory lies."""
    return int(FUNCTIONS["frame_of"](c.address, line))


def core_access(c: Caches, core: int, line: int, write: int, sharers: int) -> int:
    """Let a core read (`write` 0) or write (1) a line; return the level that served the line."""
    return int(FUNCTIONS["core_access"](c.address, core, line, write, sharers))


def prefetch(c: Caches, core: int, line: int, sharers: int) -> int:
    """Let a core's L2 prefetch a line; return the level that served, `L2` if the line is there."""
    return int(FUNCTIONS["prefetch"](c.address, core, line, sharers))


def dma_write(c: Caches, line: int, sharers: int, dca: int) -> None:
    """Let a device write a whole line: to memory (`dca` 0), or into the LLC.

    Other values of `dca` are 1 + the row of `forbidden` with the device's ways: 1 for DDIO's ways.
    """
    FUNCTIONS["dma_write"](c.address, line, sharers, dca)


def dma_read(c: Caches, line: int, sharers: int) -> None:
    """Let a device read a line: from an LLC, a core's L2 or memory; nothing is placed."""
    FUNCTIONS["dma_read"](c.address, line, sharers)


def renumber(c: Caches) -> None:
    """Restart the LRU clock before stamps overflow, keeping the order of each set."""
    FUNCTIONS["renumber"](c.address)


def replay(c: Caches, kinds: npt.NDArray[np.int8], lines: Int32) -> None:
    """Run a trace on core 0; kinds of access: 0 read, 1 write, 2 a device's write, 3 its read."""
    FUNCTIONS["replay"](c.address, kinds.ctypes.data, lines.ctypes.data, kinds.size)
