# SPDX-License-Identifier: Apache-2.0
"""Registers in memory behind `Msr`, with what a CPU does when they are written."""

import errno
import struct

from iat_nova.hardware.api import HardwareError
from iat_nova.hardware.kernel.msr import Msr
from iat_nova.hardware.kernel.physical_memory import PhysicalMemory


class FakeMsr(Msr):
    """Two packages of Skylake-SP: `cpus` maps a CPU to its package.

    `off` are offline CPUs, `absent` registers do not exist, `refuse` is an errno for writes, to
    `refusing` alone where CPUs are in it; `stuck` registers take writes and keep their value.
    """

    def __init__(self, cpus, **options):
        super().__init__(**options)
        self.cpus = cpus
        self.values = {}
        self.writes = []
        self.off = set()
        self.refuse = None
        self.refusing = set()
        self.stuck = set()
        self.absent = set()
        self.reads = 0

    def owner(self, cpu, register):
        """Uncore registers belong to a package, the others to a CPU."""
        uncore = register in (0xC83, 0xC8B) or 0xC90 <= register < 0xD90
        return ("package", self.cpus[cpu]) if uncore else ("cpu", cpu)

    def set(self, cpu, register, value):
        self.values[self.owner(cpu, register), register] = value

    def get(self, cpu, register):
        default = {0xC8B: 0x600}.get(register, 0)
        return self.values.get((self.owner(cpu, register), register), default)

    def pread(self, cpu, register):
        self.reads += 1
        self._reachable(cpu, register)
        return struct.pack("<Q", self.get(cpu, register))

    def pwrite(self, cpu, register, data):
        self._reachable(cpu, register)
        if self.refuse and (not self.refusing or cpu in self.refusing):
            raise OSError(self.refuse, "refused")
        (value,) = struct.unpack("<Q", data)
        self.writes.append((cpu, register, value))
        if register not in self.stuck:
            self.set(cpu, register, value)

    def _reachable(self, cpu, register):
        if cpu not in self.cpus or cpu in self.off:
            raise OSError(errno.ENXIO, "no such device")
        if register in self.absent:
            raise OSError(errno.EIO, "no such register")


class FakeMemory(PhysicalMemory):
    """Registers in memory: `values` by address, all of one width each; others do not exist.

    `refuse` is the error of each access, `stuck` registers keep their values, and `shows_ram` is a
    kernel without CONFIG_STRICT_DEVMEM. `before_write` is called before each write.
    """

    def __init__(self, table):
        super().__init__()
        self.widths = {}
        for link in table.links:
            for start in (link.class_address, link.rmid_address):
                for n in range(link.channels if start is not None else 0):
                    self.widths[start + n * link.register_bytes] = link.register_bytes
        self.values = dict.fromkeys(self.widths, 0)
        self.writes = []
        self.refuse = None
        self.stuck = set()
        self.shows_ram = False
        self.before_write = lambda: None

    def load(self, address, width_bytes, count=1):
        if self.refuse is not None:
            raise self.refuse
        places = range(address, address + count * width_bytes, width_bytes)
        assert all(self.widths[place] == width_bytes for place in places)
        return tuple(self.values[place] for place in places)

    def store(self, address, width_bytes, value):
        if self.refuse is not None:
            raise self.refuse
        self.before_write()
        assert self.widths[address] == width_bytes
        assert 0 <= value < 1 << 8 * width_bytes
        self.writes.append((address, value))
        if address not in self.stuck:
            self.values[address] = value

    def check(self):
        if self.shows_ram:
            raise HardwareError("it shows RAM")
