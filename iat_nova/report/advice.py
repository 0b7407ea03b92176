# SPDX-License-Identifier: Apache-2.0
"""Whether packet buffers fit in DDIO's ways, whether they leak, and changes that help.

A device writes each packet into the next buffer of its ring. If all buffers in circulation fit in
the DDIO ways, a buffer's lines stay in the LLC until the ring reaches the buffer again. Otherwise
lines are evicted to memory, often before a CPU has read them ("leaky DMA", ISCA 2021, section III).
The buffers posted in the receive rings circulate, and as many sent buffers: a DPDK driver reclaims
sent buffers only when its send ring is nearly full (``tx_free_thresh``). If some CPUs fill a ring
mempool (first in, first out) and other CPUs empty it, all buffers of the pool circulate.
"""

from __future__ import annotations

import dataclasses
import enum
import math
import shlex
from collections.abc import Iterable, Iterator, Sequence

from iat_nova.model import AttachmentKind, CacheDomain, Facts, Parameters, Sample
from iat_nova.report import times
from iat_nova.store.reader import HistoryReader

LINE_BYTES = 64
HEADER_BYTES = 18  # of Ethernet with a VLAN tag, beside the MTU; the card strips the checksum
DESCRIPTOR_BYTES = 32  # that the card writes back for each packet (i40e, ice, mlx5: 16 to 64)
OVS_QUEUES, OVS_DESCRIPTORS, OVS_MTU = 1, 2048, 1500  # defaults: vswitchd.conf.db(5)
SMALLEST_RING = 64
# Definition of fitting: at most this share of the lines has in its set as many other lines as there
# are DDIO ways, and may evict one of them.
CROWDED = 0.1
WINDOW_S, MOST_SAMPLES = 60.0, 120
# A sample with this many times the mean is high. Samples are means of a second, so that packets
# come still faster within a burst.
BURSTY = 1.5
FEW_DROPS_PER_S = 1.0  # ports drop a packet now and then for other reasons than a full ring

_POLLED = ("dpdk", "afxdp")  # types of ports whose packets PMD threads take from a card
_OWNING = (AttachmentKind.VF, AttachmentKind.PF, AttachmentKind.VDPA)
# A mempool handler that returns the buffer freed last, as an argument of DPDK.
_STACK = "ovs-vsctl set Open_vSwitch . other_config:dpdk-extra=--mbuf-pool-ops-name=stack"


class Verdict(enum.StrEnum):
    """The advice on the rings' size."""

    FIT = "fit"
    NOT_COUNTED = "not-counted"
    FEW_MISSES = "few-misses"
    LEAK = "leak"
    LEAK_IN_BURSTS = "leak-in-bursts"
    LEAK_WITH_DROPS = "leak-with-drops"


@dataclasses.dataclass(frozen=True, slots=True)
class Rings:
    """Receive and send rings of a device; `assumed`: not visible from outside, as a guest's."""

    owner: str = ""
    device: str = ""
    queues: int = 1
    descriptors: int = 1024  # of each queue
    mtu: int = 1500
    assumed: bool = True
    drops: int | None = None  # of a port, since the start

    @property
    def buffer_bytes(self) -> int:
        """Cache size of a full-sized packet with its descriptor."""
        return math.ceil((self.mtu + HEADER_BYTES) / LINE_BYTES) * LINE_BYTES + DESCRIPTOR_BYTES

    def footprint_bytes(self, most: float = math.inf) -> int:
        """Return the size of posted and sent buffers, with at most this number of descriptors."""
        return 2 * self.queues * int(min(self.descriptors, most)) * self.buffer_bytes


GUESTS = Rings()


@dataclasses.dataclass(frozen=True, slots=True)
class Choice:
    """A change that would help, with commands to copy; `partial`: it still does not fit."""

    what: str
    commands: tuple[str, ...]
    note: str
    partial: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Advice:
    """The rings on one cache domain, the largest first, beside DDIO's ways, and what was counted.

    `ddio_ways_max`: by the policy, if DDIO can be resized. `footprint_bytes`: of all rings.
    `pool_bytes`: of all mempools that are used in turn. `ring_that_fits`: the largest ring size, a
    power of two, with which all rings fit in the present DDIO ways. `ways_that_fit`: the least
    number of ways that holds all rings. These are None if none is sufficient. `drops_per_s`: of
    Open vSwitch, if ports with these rings drop. Lines, and the share that missed DDIO's ways, are
    means of `over_s`, disks included; None if not counted, or not needed.
    """

    domain: int
    ways: int
    ddio_ways: int
    ddio_ways_max: int
    capacity_bytes: int
    rings: tuple[Rings, ...]
    footprint_bytes: int
    pool_bytes: int
    fits: bool
    ring_that_fits: int | None
    ways_that_fit: int | None
    drops_per_s: float | None
    verdict: Verdict = Verdict.FIT
    over_s: float = 0.0
    inbound_lines_per_s: float | None = None
    missed: float | None = None
    choices: tuple[Choice, ...] = ()

    @property
    def counted(self) -> str:
        """The share of lines that missed, in words."""
        if self.missed is None:
            return "Misses of devices are not counted here, so a leak is not visible"
        written = f"the lines that devices wrote in the last {times.duration(self.over_s)}"
        return f"{self.missed:.0%} of {written} missed"


def samples(reader: HistoryReader, domain: int) -> Iterator[Sample]:
    """Yield a domain's samples of the last `WINDOW_S` of its records, at least ten intervals."""
    if (latest := reader.latest(domain)) is not None:
        end_s = latest.iteration.wall_s
        begin_s = end_s - max(WINDOW_S, 10 * latest.iteration.sample.interval_s)
        for row in reader.between(begin_s, end_s, domain, at_most=MOST_SAMPLES):
            yield row.iteration.sample


def advise(
    facts: Facts,
    domain: CacheDomain,
    ddio_ways: int,
    limits: Parameters,
    recent: Iterable[Sample] = (),
    guests: Rings = GUESTS,
    pool_buffers: int = 0,
) -> Advice | None:
    """Return the advice for a cache domain; None where the size of its ways is unknown.

    `recent`: samples, oldest first, read only if the buffers do not fit. `guests`: assumptions.
    `pool_buffers`: in Open vSwitch's mempools used in turn; they count beside a port on the domain.
    """
    way_bytes = domain.way_bytes
    if way_bytes is None:
        return None
    devices = _rings(facts, domain, guests)
    rings = tuple(sorted(devices, key=Rings.footprint_bytes, reverse=True))
    buffer_bytes = max((ring.buffer_bytes for ring in rings if not ring.assumed), default=0)
    pool_bytes = pool_buffers * buffer_bytes
    needed = sum(ring.footprint_bytes() for ring in rings)
    most = min(limits.ddio_ways_max, domain.ways) if domain.ddio_resizable else ddio_ways
    enough = (n for n in range(1, max(most, ddio_ways) + 1) if _holds(needed, n, way_bytes))
    largest = max((ring.descriptors for ring in rings), default=0)
    small = (
        size
        for size in (SMALLEST_RING << n for n in range((largest // SMALLEST_RING).bit_length()))
        if _holds(sum(ring.footprint_bytes(size) for ring in rings), ddio_ways, way_bytes)
    )
    fits = _holds(max(needed, pool_bytes), ddio_ways, way_bytes)
    drops = any(ring.drops for ring in rings)  # counts show the ports, the rate is of all together
    advice = Advice(
        *(domain.id, domain.ways, ddio_ways, most, ddio_ways * way_bytes, rings, needed),
        *(pool_bytes, fits, max(small, default=None), next(enough, None)),
        facts.switch.drops_per_s if facts.switch is not None and drops else None,
    )
    if not fits:
        advice = _counted(advice, recent, limits.threshold_miss_low_per_s)
    return dataclasses.replace(advice, choices=tuple(_choices(advice)))


def _choices(advice: Advice) -> Iterator[Choice]:
    """Yield changes that help, the least intrusive first; the smallest rings as a last resort.

    Smaller rings are not offered if bursts or dropped packets need the present rings.
    """
    size, ways = advice.ring_that_fits, advice.ways_that_fit
    rings_fit = ways is not None and ways <= advice.ddio_ways
    if advice.pool_bytes > advice.footprint_bytes and not advice.fits:
        yield Choice("a stack mempool", (_STACK,), "restart ovs-vswitchd", not rings_fit)
    if advice.ddio_ways_max > advice.ddio_ways and not rings_fit:
        note = "strategy iat sets them while misses are many, the default one if guests gain"
        if ways is None:
            note += "; the policy's ddio_ways_max allows no more"
        yield Choice(f"{ways or advice.ddio_ways_max} DDIO ways", (), note, ways is None)
    partial, size = size is None, size or SMALLEST_RING
    may_shrink = advice.verdict in (Verdict.LEAK, Verdict.NOT_COUNTED) and not (partial and ways)
    if may_shrink and any(ring.descriptors > size for ring in advice.rings) and not rings_fit:
        ports = [shlex.quote(ring.device) for ring in advice.rings if not ring.assumed]
        options = f"options:n_rxq_desc={size} options:n_txq_desc={size}"
        note = "short bursts may then be dropped"
        if len(ports) < len(advice.rings):
            note += "; in guests: ethtool -G (rx, tx), or the application's own options"
        commands = (f"ovs-vsctl set Interface {port} {options}" for port in ports)
        yield Choice(f"rings of {size}", tuple(commands), note, partial)


def _rings(facts: Facts, domain: CacheDomain, guests: Rings) -> Iterator[Rings]:
    """Yield the rings of the switch's ports and of guests; an unknown NUMA node may be any."""

    def is_here(numa_node: int | None) -> bool:  # DDIO acts on the device's own socket
        return numa_node is None or not domain.numa_nodes or numa_node in domain.numa_nodes

    nodes = {nic.address: nic.numa_node for nic in facts.host.nics}
    for port in facts.switch.ports if facts.switch is not None else ():
        known = [nodes[card] for card in port.cards or () if card in nodes]
        if port.type in _POLLED and port.cards != () and any(map(is_here, known or [None])):
            queues, size = port.rx_queues or OVS_QUEUES, port.rx_descriptors or OVS_DESCRIPTORS
            sizes = (queues, size, port.mtu or OVS_MTU)
            yield Rings("Open vSwitch", port.name, *sizes, assumed=False, drops=port.drops)
    for guest in facts.guests:
        for device in guest.attachments:
            if device.kind in _OWNING and is_here(device.numa_node):
                yield dataclasses.replace(guests, owner=guest.display_name, device=device.device)


def _holds(size_bytes: int, ways: int, way_bytes: int) -> bool:
    """Tell whether these ways hold this size, except for a share of at most `CROWDED`.

    The LLC's slices hash addresses, so the used lines of a set have a Poisson distribution.
    """
    mean = size_bytes / way_bytes
    fewer = sum(mean**others / math.factorial(others) for others in range(ways))
    return 1 - math.exp(-mean) * fewer <= CROWDED


def _counted(advice: Advice, recent: Iterable[Sample], few_per_s: float) -> Advice:
    """Return the advice with its verdict; up to `few_per_s` misses are no leak."""
    rates = [
        (sample.interval_s, inbound, misses)
        for sample in recent
        if (inbound := sample.inbound_lines_per_s) is not None
        and (misses := sample.ddio_misses_per_s) is not None
    ]
    over_s = sum(interval_s for interval_s, _, _ in rates)
    if not over_s:
        return dataclasses.replace(advice, verdict=Verdict.NOT_COUNTED)
    lines = sum(interval_s * inbound for interval_s, inbound, _ in rates)
    share = sum(interval_s * misses for interval_s, _, misses in rates) / max(lines, 1.0)
    verdict = Verdict.LEAK
    if max(misses for _, _, misses in rates) < few_per_s:
        verdict = Verdict.FEW_MISSES
    elif (advice.drops_per_s or 0.0) >= FEW_DROPS_PER_S:
        verdict = Verdict.LEAK_WITH_DROPS
    elif _bursts([inbound for _, inbound, _ in rates]):
        verdict = Verdict.LEAK_IN_BURSTS
    lines /= over_s
    return dataclasses.replace(
        advice, verdict=verdict, over_s=over_s, inbound_lines_per_s=lines, missed=share
    )


def _bursts(rates: Sequence[float]) -> bool:
    """Return whether a high sample has low samples before and after it, unlike a load's begin."""
    mean = sum(rates) / len(rates)
    low = [place for place, rate in enumerate(rates) if rate < mean]
    return bool(low) and max(rates[low[0] : low[-1] + 1]) > BURSTY * mean
