# SPDX-License-Identifier: Apache-2.0
"""The shared file of a lab's guest: masks the guest wrote, counters it will read.

64-bit words, little-endian; ``rdt_lab.h`` in tools/rdt-lab's patch is their definition. Read and
written with pread and pwrite, so the same code serves beside the guest and, through 9p, inside it.
"""

import os
import struct

SOCKETS, CLASSES, SLICES, ROOTS = 16, 16, 18, 8
LINE, RMID_UNIT = 64, 65536  # bytes: of an inbound line, of a monitoring count
_IORDT, _IORDT_BYTES = (4096 + SOCKETS * 4096) * 8, 4 * 4096
_BYTES = _IORDT + _IORDT_BYTES
_CPU, _CPU_WORDS = 128, 16
_FABRIC, _FABRIC_WORDS = 2304, 64
_SOCKET, _SOCKET_WORDS = 4096, 4096
_DDIO, _WRITES, _QOS_CFG, _EXT_CFG, _IO_QOS_CFG, _CBM, _MBA, _L3, _CHA, _CHA_WORDS = (
    16,
    17,
    18,
    19,
    20,
    32,
    64,
    96,
    128,
    16,
)
_RMID, _RMID_WORDS = 1024, 4
_ABMC, _COUNTING = 512, 1 << 62


class Registers:
    """The file at a path; made where missing, so that it may be opened before the guest starts.

    `socket` counts from 0, as do CPUs and classes: Intel's sockets, AMD's L3 caches.
    """

    def __init__(self, path):
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        if os.fstat(self._fd).st_size < _BYTES:
            os.ftruncate(self._fd, _BYTES)

    def close(self):
        """Give the descriptor back."""
        os.close(self._fd)

    def ddio_ways(self, socket=0):
        """Return IIO_LLC_WAYS, 0xC8B."""
        return self._get(_at(socket, _DDIO))

    def cdp(self, socket=0):
        """Tell whether code and data prioritisation is on: class n has registers 2n, 2n + 1."""
        return bool(self._get(_at(socket, _QOS_CFG)) & 1)

    def io_alloc(self, socket=0):
        """Return the mask of devices, that of the highest class; None while io_alloc is off."""
        on = self._get(_at(socket, _EXT_CFG)) & 2
        return self.cbm(CLASSES - 1, socket) if on else None

    def io_rdt(self, socket=0):
        """Return whether (classes, monitoring ids) of devices are on: L3_IO_QOS_CFG, 0xC83."""
        word = self._get(_at(socket, _IO_QOS_CFG))
        return bool(word & 1), bool(word & 2)

    def channel(self, offset, size):
        """Return a register of I/O RDT of `size` bytes, `offset` bytes into the lab's memory."""
        return int.from_bytes(os.pread(self._fd, size, _IORDT + offset), "little")

    def set_channel(self, offset, size, value):
        """Write a register of I/O RDT, as `channel` reads it."""
        os.pwrite(self._fd, value.to_bytes(size, "little"), _IORDT + offset)

    def mba(self, number, socket=0):
        """Return the word of a class that limits memory bandwidth."""
        return self._get(_at(socket, _MBA + number))

    def mask_writes(self, socket=0):
        """Return how often the guest wrote a mask of CAT or DDIO."""
        return self._get(_at(socket, _WRITES))

    def cbm(self, number, socket=0):
        """Return the L3 mask of a class."""
        return self._get(_at(socket, _CBM + number))

    def pqr_assoc(self, cpu):
        """Return (class, RMID) of a CPU."""
        word = self._get(_CPU + cpu * _CPU_WORDS)
        return word >> 32, word & 0x3FF

    def add_core(self, cpu, *counts):
        """Add to a CPU's instructions, cycles, LLC references and LLC misses."""
        for place, count in enumerate(counts, start=1):
            self._add(_CPU + cpu * _CPU_WORDS + place, count)

    def add_pcie(self, write_hits=0, write_misses=0, read_hits=0, read_misses=0, *, socket=0):
        """Add a socket's PCIe transactions, the same share to each slice, rounded down."""
        for cha in range(SLICES):
            for place, count in enumerate((write_hits, write_misses, read_hits, read_misses)):
                self._add(_at(socket, _CHA + cha * _CHA_WORDS + place), count // SLICES)

    def add_dma(self, write_lines=0, read_lines=0, *, package=0, root=0):
        """Add an IO root complex's DMA; AMD only. `package` counts sockets."""
        for place, count in enumerate((write_lines, read_lines)):
            self._add(_FABRIC + package * _FABRIC_WORDS + root * 4 + place, count)

    def add_l3(self, accesses=0, misses=0, *, socket=0):
        """Add to what an L3 cache's own counters count; AMD only."""
        self._add(_at(socket, _L3), accesses)
        self._add(_at(socket, _L3 + 1), misses)

    def set_rmid(self, rmid, occupancy=0, total=0, local=0, *, socket=0):
        """Set what a monitoring id has counted, in units of 64 KiB."""
        for place, count in enumerate((occupancy, total, local), start=1):
            self._put(_at(socket, _RMID + rmid * _RMID_WORDS + place), count)

    def add_rmid(self, rmid, total=0, local=0, *, socket=0):
        """Add to the traffic that a monitoring id has counted, in units of 64 KiB."""
        for place, count in enumerate((total, local), start=2):
            self._add(_at(socket, _RMID + rmid * _RMID_WORDS + place), count)

    def assigned(self, counter, socket=0):
        """Return (RMID, types of traffic) of a counter of ABMC, None while it counts nothing."""
        word = self._get(_at(socket, _ABMC + counter))
        return (word >> 32 & 0xFFF, word & 0xFFFFFFFF) if word & _COUNTING else None

    def _get(self, word):
        return struct.unpack("<Q", os.pread(self._fd, 8, word * 8))[0]

    def _add(self, word, count):
        if count:
            self._put(word, (self._get(word) + count) % (1 << 64))

    def _put(self, word, value):
        os.pwrite(self._fd, struct.pack("<Q", value), word * 8)


def _at(socket, word):
    return _SOCKET + socket * _SOCKET_WORDS + word
