# SPDX-License-Identifier: Apache-2.0
"""Descriptions of processors: what the emulated server is built after."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping

from iat_nova.model import CacheDomain, WayMask

LINE_BYTES = 64
# The caches keep who shares a line as bits of a signed 64-bit number.
PROCESSORS_MAX = 63


class Io(enum.StrEnum):
    """What becomes of a device's write: to memory, into the cache, or as ADCA decides."""

    DMA = "dma"
    DCA = "dca"
    ADCA = "adca"


class Choice(enum.StrEnum):
    """Which of its monitors' shares ADCA takes: the largest, their mean, the smallest."""

    AGGRESSIVE = "aggressive"
    NORMAL = "normal"
    CONSERVATIVE = "conservative"


@dataclasses.dataclass(frozen=True, slots=True)
class Machine:
    """A processor: its cores, caches, memory and what its RDT can do; `sockets` have one each.

    Latencies are load-to-use times; memory's is the one without load. `inclusive_ways` are the
    LLC ways tied to the shared part of the directory (facts of A4, section 1): 0 where a machine
    has none. `llc_fills`: the LLC takes in what a core misses; else it takes L2's victims only.
    `l1_bytes`: what of a working set is taken to hit before L2.

    Sources: Intel's optimisation manual for cycles of L2 (14) and LLC (about 60); memory's
    latency is a published measurement of Skylake-SP, rounded. `memory_bytes_per_s` is the DIMMs'
    peak; see `iat_nova.sim.memory` for what can be had of it. `link_ns` is what the link between
    two sockets adds: Intel's Memory Latency Checker on two sockets of Cascade Lake-SP has 81 ns to
    a socket's own memory and 140 to the other's.
    """

    name: str
    title: str
    cores: int
    frequency_hz: float
    l2_bytes: int
    l2_ways: int
    slices: int
    llc_ways: int
    ddio_ways: WayMask
    inclusive_ways: WayMask
    coerced_ways: WayMask
    memory_bytes_per_s: float
    l2_cycles: float = 14.0
    llc_cycles: float = 60.0
    peer_cycles: float = 110.0  # another core's L2, a snoop through the directory; chosen
    memory_ns: float = 85.0
    link_ns: float = 60.0
    llc_sets_per_slice: int = 2048
    classes: int = 16
    sockets: int = 1
    llc_fills: bool = False
    l1_bytes: int = 32 << 10
    io: Io = Io.DCA
    adca: Choice = Choice.NORMAL

    @property
    def l2_sets(self) -> int:
        """Sets of one core's L2."""
        return self.l2_bytes // (LINE_BYTES * self.l2_ways)

    @property
    def llc_sets(self) -> int:
        """Sets of the whole LLC."""
        return self.slices * self.llc_sets_per_slice

    @property
    def llc_bytes(self) -> int:
        """Bytes of the whole LLC."""
        return self.llc_sets * self.llc_ways * LINE_BYTES

    @property
    def way_bytes(self) -> int:
        """Bytes of one LLC way."""
        return self.llc_sets * LINE_BYTES

    @property
    def processors(self) -> int:
        """Cores of all sockets; the first socket has the lowest numbers."""
        return self.cores * self.sockets

    def socket_of(self, cpu: int) -> int:
        """Return the socket a processor is on."""
        return cpu // self.cores

    @property
    def domains(self) -> tuple[CacheDomain, ...]:
        """Each socket's LLC as the model knows it."""
        return tuple(self._domain(socket) for socket in range(self.sockets))

    def _domain(self, socket: int) -> CacheDomain:
        first = socket * self.cores
        return CacheDomain(
            id=socket,
            numa_nodes=(socket,),
            cpus=tuple(range(first, first + self.cores)),
            ways=self.llc_ways,
            classes=self.classes,
            coerced_ways=self.coerced_ways,
            ddio_found=self.ddio_ways,
            way_bytes=self.way_bytes,
        )


# The paper's testbed: 6 channels of DDR4-2666, 128 GB/s at its peak.
GOLD_6140 = Machine(
    name="gold-6140",
    title="Xeon Gold 6140 (Skylake-SP, 18 cores, 24.75 MB LLC)",
    cores=18,
    frequency_hz=2.3e9,
    l2_bytes=1 << 20,
    l2_ways=16,
    slices=18,
    llc_ways=11,
    ddio_ways=WayMask(0x600),
    inclusive_ways=WayMask(0x003),
    coerced_ways=WayMask(0x600),
    memory_bytes_per_s=128e9,
)
GOLD_6148 = dataclasses.replace(
    GOLD_6140,
    name="gold-6148",
    title="Xeon Gold 6148 (Skylake-SP, 20 cores, 27.5 MB LLC)",
    cores=20,
    slices=20,
    frequency_hz=2.4e9,
)
# 8 channels of DDR4-3200, 205 GB/s at its peak. Ice Lake's LLC is non-inclusive as well; that its
# two lowest ways are the shared ones is assumed from Skylake.
GOLD_6338 = Machine(
    name="gold-6338",
    title="Xeon Gold 6338 (Ice Lake-SP, 32 cores, 48 MB LLC)",
    cores=32,
    frequency_hz=2.0e9,
    l2_bytes=20 * 64 * 1024,
    l2_ways=20,
    slices=32,
    llc_ways=12,
    ddio_ways=WayMask(0xC00),
    inclusive_ways=WayMask(0x003),
    coerced_ways=WayMask(0),
    memory_bytes_per_s=205e9,
)

# ADCA's platform: its L1 stands in the place of the private L2, its shared L2 in that of the LLC,
# which takes in what cores miss and has neither CAT nor a mask for devices. Cycles of L2 and
# the memory's latency are chosen: 20 cycles are usual at 800 MHz, and 150 ns for a controller of
# that time. A channel of DDR3-533 peaks at 4.3 GB/s; that its controller reaches 1.6 of them is
# calibrated on claim adca-7-dca.
LOONGSON_2K1000 = Machine(
    name="loongson-2k1000",
    title="Loongson 2K1000 (2 cores, 1 MB shared L2)",
    cores=2,
    frequency_hz=0.8e9,
    l2_bytes=32 << 10,
    l2_ways=4,
    slices=1,
    llc_ways=16,
    llc_sets_per_slice=1024,
    llc_fills=True,
    ddio_ways=WayMask(0xFFFF),
    inclusive_ways=WayMask(0),
    coerced_ways=WayMask(0),
    memory_bytes_per_s=1.6e9,
    l2_cycles=0.0,  # what an L1 hit takes is in the workloads' own cycles
    llc_cycles=20.0,
    peer_cycles=30.0,
    memory_ns=150.0,
    l1_bytes=0,
    classes=1,
)

MACHINES: Mapping[str, Machine] = {
    machine.name: machine for machine in (GOLD_6140, GOLD_6148, GOLD_6338, LOONGSON_2K1000)
}
