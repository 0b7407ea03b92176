# SPDX-License-Identifier: Apache-2.0
"""Check that the hardware can take a layout, whichever strategy made the layout.

Masks of different groups may overlap one another and DDIO's ways: overlaps are the strategy's
choice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from iat_nova.model import CacheDomain, DomainInventory, Layout, TenantKind, WayMask


class InvalidLayout(ValueError):
    """The layout breaks a rule of the hardware, or places other tenants than the inventory has."""


def check(inventory: DomainInventory, layout: Layout) -> None:
    """Raise `InvalidLayout` unless the hardware can take `layout`. The text names every fault."""
    domain = inventory.domain
    broken = [*_tenants(inventory, layout), *_masks(domain, layout), *_ports(domain, layout)]
    if broken:
        raise InvalidLayout(f"invalid layout: {'; '.join(broken)}")


def _tenants(inventory: DomainInventory, layout: Layout) -> Iterator[str]:
    """Yield tenants without exactly one mask, and a lack of classes of service."""
    placed = Counter(tenant for group in layout.groups for tenant in group.tenants)
    known = {tenant.id: tenant for tenant in inventory.tenants}
    for tenant in (*known, *(name for name in placed if name not in known)):
        expected = int(tenant in known)
        if placed[tenant] != expected:
            yield f"{tenant} has {placed[tenant]} masks, expected {expected}"
    hosts = {t for t, tenant in known.items() if tenant.kind is TenantKind.HOST}
    free = inventory.domain.classes - int(not hosts)  # the default class always exists
    if len(layout.groups) + len(layout.ports) > free:
        also = f" and {len(layout.ports)} of ports" if layout.ports else ""
        yield f"{len(layout.groups)} groups{also}, there are {free} classes of service"


def _masks(domain: CacheDomain, layout: Layout) -> Iterator[str]:
    for group in layout.groups:
        for fault in _faults(domain, group.mask):
            yield f"{', '.join(group.tenants)}: mask {group.mask} {fault}"
    if layout.ddio != domain.ddio_found and (layout.ddio >> domain.ways or not layout.ddio):
        yield f"DDIO's mask {layout.ddio} is empty or beyond the {domain.ways} ways"
    known = {port.address for port in domain.dca_ports}
    for port in layout.dca_off:
        if port not in known:
            yield f"root port {port} is none whose DDIO may be switched (dca_ports)"


def _ports(domain: CacheDomain, layout: Layout) -> Iterator[str]:
    """Yield complaints about unknown ports, ports with two masks, and invalid masks."""
    known = {port.id for port in domain.device_ports}
    placed = Counter(port for group in layout.ports for port in group.ports)
    for port, times in placed.items():
        if port not in known:
            yield f"port {port} is none that may have ways of its own (device_ports)"
        if times > 1:
            yield f"port {port} has {times} masks, expected 1"
    if 0 < domain.shared_port_classes < len(layout.ports):
        shared = domain.shared_port_classes
        yield f"{len(layout.ports)} groups of ports, but cache domains share {shared} for ports"
    for group in layout.ports:
        if not group.ports:
            yield f"mask {group.mask} is of no port"
        for fault in _faults(domain, group.mask):
            yield f"port {', '.join(group.ports)}: mask {group.mask} {fault}"


def _faults(domain: CacheDomain, mask: WayMask) -> Iterator[str]:
    """Yield each hardware rule that `mask` breaks."""
    if mask >> domain.ways:  # also of a negative one
        yield f"is beyond the {domain.ways} ways"
    if mask.count < domain.min_ways:
        yield f"has fewer than {domain.min_ways} ways"
    if not (mask.is_contiguous or domain.sparse_masks):
        yield "is not contiguous"
    if mask & domain.reserved_ways:
        yield f"has reserved ways ({domain.reserved_ways})"
    if mask & domain.coerced_ways not in (0, domain.coerced_ways):
        yield f"divides ways that come together ({domain.coerced_ways})"
