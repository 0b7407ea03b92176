# SPDX-License-Identifier: Apache-2.0
"""Masks of A4's zones: the paper's positions on 11 ways, generalised to any number of ways."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from iat_nova.experiments.rivals.a4.state import DeviceKind, Label, Zones
from iat_nova.experiments.rivals.a4.thresholds import LEAST_WAYS
from iat_nova.model import CacheDomain, DomainInventory, Group, Layout, WayMask

INCLUSIVE_WAYS = 2  # the lowest ways: only these can hold lines that private caches hold, too
DDIO_DEFAULT = 2  # ways, if DDIO's mask cannot be read


def room(domain: CacheDomain) -> WayMask:
    """Return the ways between the inclusive ways and DDIO's: 0x1fc of 11 ways.

    If fewer than two ways lie between, return all ways below DDIO's. If these are too few, return
    all ways.
    """
    least = max(LEAST_WAYS, domain.min_ways)
    below = _below_ddio(domain)
    ordinary = WayMask(below >> INCLUSIVE_WAYS << INCLUSIVE_WAYS)
    return next((ways for ways in (ordinary, below) if ways.count >= least), domain.open_ways)


def low_max(domain: CacheDomain) -> int:
    """Return the most ways that the low-priority zone can have: 7 of 11."""
    return room(domain).count


def layout(
    inventory: DomainInventory, labels: Iterable[Label], zones: Zones, antagonists: Iterable[str]
) -> Layout:
    """Return the masks. Tenants of a zone share a mask; DDIO's ways are left as found."""
    domain, labels, trash = inventory.domain, tuple(labels), frozenset(antagonists)
    guarded = any(label.high and label.io for label in labels)
    members: dict[WayMask, list[str]] = {}
    for label in labels:
        if label.id in trash:
            mask = _zone(domain, zones.trash)
        else:
            mask = _high(domain, label, guarded) if label.high else _zone(domain, zones.low)
        members.setdefault(_legal(domain, mask), []).append(label.id)
    groups = tuple(Group(tuple(ids), mask) for mask, ids in sorted(members.items()))
    return Layout(
        _ddio(domain),
        groups,
        grouped=any(len(one.tenants) > 1 for one in groups),
        dca_off=_dca_off(inventory, labels, trash),
    )


def _dca_off(
    inventory: DomainInventory, labels: Iterable[Label], trash: Collection[str]
) -> tuple[str, ...]:
    """Return the root ports above devices of storage antagonists."""
    storage = {one.id for one in labels if one.kind is DeviceKind.STORAGE and one.id in trash}
    ports = (p for p in inventory.domain.dca_ports if inventory.owns_all(p.devices))
    return tuple(p.address for p in ports if any(t.id in storage for t in inventory.below(p)))


def _high(domain: CacheDomain, label: Label, guarded: bool) -> WayMask:
    """Return a high-priority mask: all ways, without DDIO's ways for tenants without a device.

    `guarded`: a high-priority tenant has a device; otherwise DDIO's ways are open to all of high
    priority.
    """
    below = _below_ddio(domain)
    if label.io or not guarded or below.count < domain.min_ways:
        return domain.open_ways
    return below


def _zone(domain: CacheDomain, ways: int) -> WayMask:
    """Return a mask of `ways` ways, upwards from the lowest way for low priority."""
    inside = room(domain)
    count = min(max(ways, LEAST_WAYS, domain.min_ways), inside.count)
    return WayMask.span(inside.lowest, count)


def _below_ddio(domain: CacheDomain) -> WayMask:
    """Return the open ways below DDIO's ways, and below ways coerced together with DDIO's."""
    ddio = _ddio(domain)
    if not ddio:  # devices may fill any way
        return domain.open_ways
    if ddio.overlaps(domain.coerced_ways):
        ddio = WayMask(ddio | domain.coerced_ways)
    return WayMask(domain.open_ways & ((1 << max(0, ddio.lowest)) - 1))


def _legal(domain: CacheDomain, mask: WayMask) -> WayMask:
    """Return the mask, with all coerced ways if the mask has any of them."""
    return WayMask(mask | domain.coerced_ways) if mask & domain.coerced_ways else mask


def _ddio(domain: CacheDomain) -> WayMask:
    """Return DDIO's ways, which A4 never changes."""
    if domain.ddio_found is not None:
        return domain.ddio_found
    return WayMask.span(domain.ways - DDIO_DEFAULT, DDIO_DEFAULT)
