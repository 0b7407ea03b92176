# SPDX-License-Identifier: Apache-2.0
"""What in-flight packet buffers need of DDIO's ways, and what would make them fit. Pure.

A device writes each packet into the buffer that is next in its ring. A buffer's lines stay in the
LLC until the ring comes round to it again if all buffers in circulation fit in DDIO's ways; else
they are evicted to memory, often before a core has read them ("leaky DMA", ISCA 2021, section
III). In circulation are the buffers posted in the receive rings, and as many that were sent: a
driver of DPDK's takes them back only when its send ring is nearly full (``tx_free_thresh``). Where
a ring mempool (first in, first out) is filled by other cores than those that empty it, all buffers
of the pool circulate.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Sequence

from iat_nova.model import AttachmentKind, CacheDomain, Facts, Mempool, VirtualSwitch

LINE_BYTES = 64
# Ethernet header with a VLAN tag, beside the MTU; the card strips the check sum.
HEADER_BYTES = 18
# What the card writes back for each packet (a descriptor of i40e, ice, mlx5: 16 to 64).
DESCRIPTOR_BYTES = 32
# What Open vSwitch has when nothing is set (vswitchd.conf.db(5)): descriptors, queues, MTU.
OVS_DESCRIPTORS, OVS_QUEUES, OVS_MTU = 2048, 1, 1500
SMALLEST_RING = 64
# What is called fitting: no more than this share of the lines meets as many others in its set as
# DDIO has ways, and may push one out.
CROWDED = 0.1

OWNING = (AttachmentKind.VF, AttachmentKind.PF, AttachmentKind.VDPA)


@dataclasses.dataclass(frozen=True, slots=True)
class Assumed:
    """What nobody outside a guest can know of the rings it has on its VF."""

    queues: int = 1
    descriptors: int = 1024
    mtu: int = 1500


@dataclasses.dataclass(frozen=True, slots=True)
class Rings:
    """The rings of one device, receive and send rings alike. `assumed`: by `Assumed`."""

    owner: str
    device: str
    queues: int
    descriptors: int  # of each queue
    mtu: int
    card: str | None  # PCI address of the physical function, if it is known
    speed_gbps: float | None  # of the card
    assumed: bool

    @property
    def buffer_bytes(self) -> int:
        """What a full-sized packet takes in the cache."""
        lines = math.ceil((self.mtu + HEADER_BYTES) / LINE_BYTES)
        return lines * LINE_BYTES + DESCRIPTOR_BYTES

    @property
    def footprint_bytes(self) -> int:
        """What all posted and sent buffers take when packets are full-sized."""
        return 2 * self.queues * self.descriptors * self.buffer_bytes


@dataclasses.dataclass(frozen=True, slots=True)
class Advice:
    """For one cache domain: what there is, what is needed, and what would fit.

    `ring_that_fits`: the largest ring size, a power of two, with which everything fits in the
    ways DDIO has; None: not even the smallest does. `ddio_ways_max`: how many ways the policy lets
    DDIO have; `ways_that_fit`: how many of them hold everything; None: more. `pool_bytes`: what a
    mempool used in turn can put into circulation; None: there is none, or it is not known.
    """

    domain: int
    ways: int
    way_bytes: int
    ddio_ways: int
    ddio_ways_max: int
    ddio_resizable: bool
    rings: tuple[Rings, ...]
    pools: tuple[Mempool, ...]
    ring_that_fits: int | None
    ways_that_fit: int | None
    pool_bytes: int | None

    @property
    def capacity_bytes(self) -> int:
        """What DDIO's ways hold."""
        return self.ddio_ways * self.way_bytes

    @property
    def footprint_bytes(self) -> int:
        """What the posted and sent buffers of all rings take."""
        return sum(one.footprint_bytes for one in self.rings)

    @property
    def fits(self) -> bool:
        """Whether DDIO's ways hold all that circulates."""
        return self.holds(max(self.footprint_bytes, self.pool_bytes or 0))

    def holds(self, size_bytes: int) -> bool:
        """Tell whether DDIO's ways hold so much."""
        return _holds(size_bytes, self.ddio_ways, self.way_bytes)


@dataclasses.dataclass(frozen=True, slots=True)
class Estimate:
    """What devices under load would do to the cache and to memory.

    `ddio_miss_ratio`: of the lines they write, 0..1; `memory_bytes_per_s`: both directions.
    `offered_gbps`: what they were sent, together; `queues_left_out`: for want of CPUs.
    """

    ddio_miss_ratio: float
    memory_bytes_per_s: float
    offered_gbps: float
    queues: int
    queues_left_out: int


Estimator = Callable[[Advice, tuple[Rings, ...], int, bool], Estimate]
"""Tries other rings, DDIO ways, and a mempool that is used in turn or is not."""


def advise(
    facts: Facts,
    domain: CacheDomain,
    ddio_ways: int,
    ddio_ways_max: int,
    assumed: Assumed,
    pools: Sequence[Mempool] = (),
) -> Advice | None:
    """Return the advice for a cache domain; None where the size of its ways is unknown.

    `pools` are Open vSwitch's mempools, which all its ports share; they count where a port of
    its is on this domain. A device whose NUMA node is unknown counts for every domain.
    """
    if domain.way_bytes is None:
        return None
    stack = tuple(_stack(facts, domain))
    rings = (*stack, *_guests(facts, domain, assumed))
    needed = sum(one.footprint_bytes for one in rings)
    pool_bytes = _pool_bytes(stack, pools)
    most = min(ddio_ways_max, domain.ways)
    enough = (ways for ways in range(1, most + 1) if _holds(needed, ways, domain.way_bytes))
    return Advice(
        domain=domain.id,
        ways=domain.ways,
        way_bytes=domain.way_bytes,
        ddio_ways=ddio_ways,
        ddio_ways_max=most,
        ddio_resizable=domain.ddio_resizable,
        rings=rings,
        pools=tuple(pools) if stack else (),
        ring_that_fits=_ring_that_fits(rings, ddio_ways, domain.way_bytes),
        ways_that_fit=next(enough, None),
        pool_bytes=pool_bytes,
    )


def with_ring(rings: Iterable[Rings], size: int) -> tuple[Rings, ...]:
    """Return the rings with none larger than `size`."""
    return tuple(dataclasses.replace(one, descriptors=min(one.descriptors, size)) for one in rings)


def _stack(facts: Facts, domain: CacheDomain) -> Iterable[Rings]:
    """Yield the rings of the switch's physical ports whose card is on this domain."""
    switch: VirtualSwitch | None = facts.switch
    cards = {nic.address: nic for nic in facts.host.nics}
    for port in switch.ports if switch is not None else ():
        if port.type != "dpdk":
            continue
        card = cards.get((port.dpdk_device or "").split(",")[0])
        if card is None or _is_here(card.numa_node, domain):
            yield Rings(
                owner="Open vSwitch",
                device=port.name,
                queues=port.rx_queues or OVS_QUEUES,
                descriptors=port.rx_descriptors or OVS_DESCRIPTORS,
                mtu=port.mtu or OVS_MTU,
                card=card.address if card is not None else None,
                speed_gbps=card.speed_gbps if card is not None else None,
                assumed=False,
            )


def _guests(facts: Facts, domain: CacheDomain, assumed: Assumed) -> Iterable[Rings]:
    """Yield the rings that guests are taken to have on devices of this domain."""
    cards = {nic.address: nic for nic in facts.host.nics}
    for guest in facts.guests:
        for one in guest.attachments:
            if one.kind not in OWNING or not _is_here(one.numa_node, domain):
                continue
            card = cards.get(one.pf or "")
            yield Rings(
                owner=guest.display_name,
                device=one.device,
                queues=assumed.queues,
                descriptors=assumed.descriptors,
                mtu=assumed.mtu,
                card=one.pf,
                speed_gbps=card.speed_gbps if card is not None else None,
                assumed=True,
            )


def _is_here(numa_node: int | None, domain: CacheDomain) -> bool:
    """Tell whether a device's writes go to this domain's LLC: DDIO acts on its own socket."""
    return numa_node is None or not domain.numa_nodes or numa_node in domain.numa_nodes


def _pool_bytes(stack: Sequence[Rings], pools: Sequence[Mempool]) -> int | None:
    if not stack:
        return None
    buffer_bytes = max(one.buffer_bytes for one in stack)
    walked = sum(pool.buffers for pool in pools if pool.in_turn)
    return walked * buffer_bytes or None


def _holds(size_bytes: int, ways: int, way_bytes: int) -> bool:
    """Tell whether so many ways hold so much, all but `CROWDED` of it.

    The LLC's slices hash addresses, so how many of the lines in use meet in a set is a matter of
    chance: a Poisson distribution about their number over that of the sets.
    """
    mean = size_bytes / way_bytes
    fewer = sum(mean**others / math.factorial(others) for others in range(ways))
    return 1 - math.exp(-mean) * fewer <= CROWDED


def _ring_that_fits(rings: Sequence[Rings], ways: int, way_bytes: int) -> int | None:
    size = max((one.descriptors for one in rings), default=SMALLEST_RING)
    size = 1 << (size.bit_length() - 1)
    while size >= SMALLEST_RING:
        needed = sum(one.footprint_bytes for one in with_ring(rings, size))
        if _holds(needed, ways, way_bytes):
            return size
        size //= 2
    return None
