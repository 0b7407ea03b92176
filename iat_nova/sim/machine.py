# SPDX-License-Identifier: Apache-2.0
"""CPU models: what the emulated server is built after."""

from __future__ import annotations

import dataclasses
import enum
import pathlib
from collections.abc import Mapping
from typing import Any

import cattrs
import yaml

from iat_nova.model import BandwidthControl, CacheDomain, WayMask

LINE_BYTES = 64
# Ten steps of a tenth: what resctrl shows on Skylake-SP and Cascade Lake-SP (its info/MB).
MBA = BandwidthControl(least=10, step=10, most=100, percent=True)
# The caches keep who shares a line as bits of a signed 64-bit number.
CPUS_MAX = 63


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
    """A CPU model: its cores, caches, memory and what its RDT can do; `sockets` have one each.

    Latencies are load-to-use times; memory's is the one without load. `inclusive_ways` are the
    LLC ways tied to the shared part of the directory (facts of A4, section 1): 0 where a machine
    has none. `llc_fills`: the LLC takes in what a core misses; else it takes L2's victims only.
    `l1_bytes`: what of a working set is taken to hit before L2. `mba`: bandwidth of a class can
    be limited; off unless a scenario asks for it, so that the others' figures stay as recorded.
    `streamer_lines`: how many lines at most L2's streamer runs ahead of a stream, 0 without one.

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
    mba: bool = False
    streamer_lines: int = 0

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
        """Return the socket a CPU is on."""
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
            bandwidth=MBA if self.mba else None,
        )


def _read() -> Mapping[str, Machine]:
    source = pathlib.Path(__file__).with_name("machines.yaml").read_text(encoding="utf-8")
    given: dict[str, dict[str, Any]] = yaml.safe_load(source)
    converter = cattrs.Converter(forbid_extra_keys=True)
    converter.register_structure_hook(WayMask, lambda ways, _: WayMask(ways))
    found = {}
    for name, own in given.items():
        model = {**given.get(own.pop("like", ""), {}), **own, "name": name}
        found[name] = converter.structure(model, Machine)
    return found


MACHINES: Mapping[str, Machine] = _read()
"""All machines by name, as ``machines.yaml`` has them."""

GOLD_6140 = MACHINES["gold-6140"]
"""The paper's testbed."""
