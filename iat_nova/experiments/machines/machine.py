# SPDX-License-Identifier: Apache-2.0
"""The CPU models of the emulated server."""

from __future__ import annotations

import dataclasses
import enum
import pathlib
from collections.abc import Mapping
from typing import Any

import cattrs

from iat_nova.common import own_yaml
from iat_nova.model import BandwidthControl, CacheDomain, WayMask

LINE_BYTES = 64
GIB = 1 << 30
# Ten steps of 10 %, as resctrl shows on Skylake-SP and Cascade Lake-SP (info/MB).
MBA = BandwidthControl(least=10, step=10, most=100, percent=True)
# The caches store the sharers of a line as bits of a signed 64-bit number.
CPUS_MAX = 63


class WriteTarget(enum.StrEnum):
    """The destination of a device's write: memory, the cache, or as ADCA decides."""

    DMA = "dma"
    DCA = "dca"
    ADCA = "adca"


class AdcaChoice(enum.StrEnum):
    """The number of ways that ADCA takes from its monitors.

    The largest number of all monitors, the mean of the largest and the smallest, or the smallest.
    """

    AGGRESSIVE = "aggressive"
    NORMAL = "normal"
    CONSERVATIVE = "conservative"


@dataclasses.dataclass(frozen=True, slots=True)
class Machine:
    """A CPU model: cores, caches, memory and RDT features; each of `sockets` has one such CPU.

    Latencies are load-to-use times; memory's latency is without load. `inclusive_ways` are the LLC
    ways tied to the shared part of the directory (A4, ISCA 2025): 0 on a machine without such ways.
    `llc_fills`: the LLC takes in each line that a core misses; else L2's victims only. `l1_bytes`:
    the part of a working set that is assumed to hit before L2. `mba`: the bandwidth of a class can
    be limited; off unless a scenario requests MBA, so that recorded figures of other scenarios stay
    valid. `streamer_lines`: maximum lead of L2's streamer in lines, 0 without a streamer.
    `even_slices`: the slice hash spreads the lines of a block evenly over the sets, see
    ``llc.c``. `page_bytes`: size of the pages of threads' own memory, 4 KiB, 2 MiB or 1
    GiB; the frames of the first two are random. Mempools (DPDK has them in huge pages) and blocks
    of disks are contiguous. `device_classes`: each card and disk may have own ways (I/O RDT).
    `port_dca`: DDIO can be switched off at the root port of a disk (Skylake and Cascade Lake).

    The last fields have no source, and are the same for all machines. `off_every_cycles`: mean time
    between two losses of the core by a thread with jitter (4 ms at 2.3 GHz: the tick of a kernel
    with HZ=250). `running_weight`: weight of one sampled access in the running means of stall
    cycles (about 1 ms at 100,000 accesses/s). `credible_lines`: sampled lines for which a burst's
    own mean counts as much as the running mean. With one line in 32, a burst of 32 packets of 1,500
    B has so many. Chosen so that the sampled simulation approaches the simulation of all lines,
    where a burst has its own cost. `stream_lines`: consecutive lines that L2's streamer needs to
    detect a stream and its direction. `memory_smoothing`: weight of each new measurement (every 50
    us) in the running utilisation of the memory.

    Sources: Intel's optimisation manual for cycles of L2 (14) and LLC (about 60); memory's latency
    is a published measurement of Skylake-SP, rounded. `memory_bytes_per_s` is the DIMMs' peak; see
    `iat_nova.experiments.engine.memory` for the usable part. `link_ns` is the additional latency of
    the link between two sockets: Intel's Memory Latency Checker on two sockets of Cascade Lake-SP
    has 81 ns to a socket's own memory and 140 to the other's.
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
    replacement: str = "QLRU"  # in the LLC, see ``replacement.h``
    l1_bytes: int = 32 << 10
    io: WriteTarget = WriteTarget.DCA
    adca: AdcaChoice = AdcaChoice.NORMAL
    mba: bool = False
    streamer_lines: int = 0
    even_slices: bool = False
    page_bytes: int = GIB
    device_classes: bool = False
    port_dca: bool = False
    off_every_cycles: float = 9.2e6
    running_weight: float = 1.0 / 128.0
    credible_lines: float = 24.0
    stream_lines: int = 2
    memory_smoothing: float = 0.2

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
    def cpu_count(self) -> int:
        """Cores of all sockets; the first socket has the lowest numbers."""
        return self.cores * self.sockets

    def socket_of(self, cpu: int) -> int:
        """Return the socket of a CPU."""
        return cpu // self.cores

    @property
    def domains(self) -> tuple[CacheDomain, ...]:
        """The cache domain of each socket's LLC."""
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
            bandwidth=MBA if self.mba else None,
        )


def _read() -> Mapping[str, Machine]:
    source = pathlib.Path(__file__).with_name("machines.yaml").read_text(encoding="utf-8")
    given: dict[str, dict[str, Any]] = own_yaml.load(source)
    converter = cattrs.Converter(forbid_extra_keys=True)
    converter.register_structure_hook(WayMask, lambda ways, _: WayMask(ways))
    found = {}
    for name, own in given.items():
        model = {**given.get(own.pop("like", ""), {}), **own, "name": name}
        found[name] = converter.structure(model, Machine)
    return found


MACHINES: Mapping[str, Machine] = _read()
"""All machines of ``machines.yaml`` by name."""

GOLD_6140 = MACHINES["gold-6140"]
"""The paper's testbed."""
