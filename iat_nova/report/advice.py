# SPDX-License-Identifier: Apache-2.0
"""DDIO ways needed by in-flight packet buffers, and settings with which buffers fit. Pure.

A device writes each packet into the next buffer of its ring. If all buffers in circulation fit in
the DDIO ways, a buffer's lines stay in the LLC until the ring reaches the buffer again. Otherwise
lines are evicted to memory, often before a CPU has read them ("leaky DMA", ISCA 2021, section III).
The buffers posted in the receive rings circulate, and as many sent buffers. The reason is that a
DPDK driver reclaims sent buffers only when its send ring is nearly full (``tx_free_thresh``). If
some CPUs fill a ring mempool (first in, first out) and other CPUs empty it, all buffers of the pool
circulate.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence

from iat_nova.model import AttachmentKind, CacheDomain, Facts, Mempool, VirtualSwitch

LINE_BYTES = 64
# Ethernet header with a VLAN tag, in addition to the MTU; the card strips the checksum.
HEADER_BYTES = 18
# Descriptor that the card writes back for each packet (i40e, ice, mlx5: 16 to 64).
DESCRIPTOR_BYTES = 32
# Defaults of Open vSwitch (vswitchd.conf.db(5)): descriptors, queues, MTU.
OVS_DESCRIPTORS, OVS_QUEUES, OVS_MTU = 2048, 1, 1500
SMALLEST_RING = 64
# Definition of fitting: at most this share of the lines has in its set as many other lines as there
# are DDIO ways, and may evict one of them.
CROWDED = 0.1

_POLLED = ("dpdk", "afxdp")  # types of ports whose packets PMD threads take from a card
OWNING = (AttachmentKind.VF, AttachmentKind.PF, AttachmentKind.VDPA)


@dataclasses.dataclass(frozen=True, slots=True)
class Assumed:
    """Assumptions about the rings of a guest on its VF; rings are not visible from outside."""

    queues: int = 1
    descriptors: int = 1024
    mtu: int = 1500


@dataclasses.dataclass(frozen=True, slots=True)
class DeviceRings:
    """The rings of one device, receive and send rings alike.

    `assumed`: the values come from `Assumed`.
    """

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
        """Cache size of a full-sized packet with its descriptor, in bytes."""
        lines = math.ceil((self.mtu + HEADER_BYTES) / LINE_BYTES)
        return lines * LINE_BYTES + DESCRIPTOR_BYTES

    @property
    def footprint_bytes(self) -> int:
        """Cache size of all posted and sent buffers with full-sized packets, in bytes."""
        return 2 * self.queues * self.descriptors * self.buffer_bytes


@dataclasses.dataclass(frozen=True, slots=True)
class Advice:
    """The advice for one cache domain: present rings, needed ways, and sizes that fit.

    `ring_that_fits`: the largest ring size, a power of two, with which everything fits in the
    present DDIO ways; None if not even the smallest fits. `ddio_ways_max`: the policy's maximum of
    DDIO ways. `ways_that_fit`: the least number of these ways that holds everything; None if all
    are too few. `pool_bytes`: size of all buffers in mempools that are used in turn; None without
    such a pool.
    """

    domain: int
    ways: int
    way_bytes: int
    ddio_ways: int
    ddio_ways_max: int
    ddio_resizable: bool
    rings: tuple[DeviceRings, ...]
    pools: tuple[Mempool, ...]
    ring_that_fits: int | None
    ways_that_fit: int | None
    pool_bytes: int | None

    @property
    def capacity_bytes(self) -> int:
        """Size of the DDIO ways in bytes."""
        return self.ddio_ways * self.way_bytes

    @property
    def footprint_bytes(self) -> int:
        """Size of the posted and sent buffers of all rings, in bytes."""
        return sum(one.footprint_bytes for one in self.rings)

    @property
    def fits(self) -> bool:
        """Whether the DDIO ways hold all circulating buffers."""
        return self.holds(max(self.footprint_bytes, self.pool_bytes or 0))

    def holds(self, size_bytes: int) -> bool:
        """Tell whether the DDIO ways hold this size."""
        return _holds(size_bytes, self.ddio_ways, self.way_bytes)


def advise(
    facts: Facts,
    domain: CacheDomain,
    ddio_ways: int,
    ddio_ways_max: int,
    assumed: Assumed,
    pools: Sequence[Mempool] = (),
) -> Advice | None:
    """Return the advice for a cache domain; None where the size of its ways is unknown.

    `pools` are Open vSwitch's mempools, shared by all its ports. Pools count if a port of the
    switch is on this domain. A device whose NUMA node is unknown counts for every domain.
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


def with_ring(rings: Iterable[DeviceRings], size: int) -> tuple[DeviceRings, ...]:
    """Return the rings, each with at most `size` descriptors."""
    return tuple(dataclasses.replace(one, descriptors=min(one.descriptors, size)) for one in rings)


def _stack(facts: Facts, domain: CacheDomain) -> Iterable[DeviceRings]:
    """Yield the rings of the switch's ports with a card on this domain, or an unknown card."""
    switch: VirtualSwitch | None = facts.switch
    cards = {nic.address: nic for nic in facts.host.nics}
    for port in switch.ports if switch is not None else ():
        if port.type not in _POLLED or port.cards == ():
            continue
        known = [cards[one] for one in port.cards or () if one in cards]
        here = [card for card in known if _is_here(card.numa_node, domain)]
        if here or not known:
            card = here[0] if here else None
            yield DeviceRings(
                owner="Open vSwitch",
                device=port.name,
                queues=port.rx_queues or OVS_QUEUES,
                descriptors=port.rx_descriptors or OVS_DESCRIPTORS,
                mtu=port.mtu or OVS_MTU,
                card=card.address if card is not None else None,
                speed_gbps=card.speed_gbps if card is not None else None,
                assumed=False,
            )


def _guests(facts: Facts, domain: CacheDomain, assumed: Assumed) -> Iterable[DeviceRings]:
    """Yield the assumed rings of guests on devices of this domain."""
    cards = {nic.address: nic for nic in facts.host.nics}
    for guest in facts.guests:
        for one in guest.attachments:
            if one.kind not in OWNING or not _is_here(one.numa_node, domain):
                continue
            card = cards.get(one.pf or "")
            yield DeviceRings(
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


def _pool_bytes(stack: Sequence[DeviceRings], pools: Sequence[Mempool]) -> int | None:
    if not stack:
        return None
    buffer_bytes = max(one.buffer_bytes for one in stack)
    walked = sum(pool.buffers for pool in pools if pool.in_turn)
    return walked * buffer_bytes or None


def _holds(size_bytes: int, ways: int, way_bytes: int) -> bool:
    """Tell whether these ways hold this size, except for a share of at most `CROWDED`.

    The LLC's slices hash addresses, so the number of used lines in a set is random. The number has
    a Poisson distribution; its mean is the number of lines divided by the number of sets.
    """
    mean = size_bytes / way_bytes
    fewer = sum(mean**others / math.factorial(others) for others in range(ways))
    return 1 - math.exp(-mean) * fewer <= CROWDED


def _ring_that_fits(rings: Sequence[DeviceRings], ways: int, way_bytes: int) -> int | None:
    size = max((one.descriptors for one in rings), default=SMALLEST_RING)
    size = 1 << (size.bit_length() - 1)
    while size >= SMALLEST_RING:
        needed = sum(one.footprint_bytes for one in with_ring(rings, size))
        if _holds(needed, ways, way_bytes):
            return size
        size //= 2
    return None
