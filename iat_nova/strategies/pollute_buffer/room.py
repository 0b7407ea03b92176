# SPDX-License-Identifier: Apache-2.0
"""Positions of guaranteed ways and of shared ways.

A mask is an unbroken run of ways. Of the tenants with ways of their own, only two can therefore
reach the shared ways as well, from below and from above::

    way 0   | own of C | own of A |        shared        | own of B | DDIO |   the highest
              C: own     A: own and shared                 B: shared, own, and DDIO's

With a single such tenant, DDIO's ways are shared like all others. Masks are unbroken even if the
hardware takes other masks (AMD), to have the same arrangement on all hosts.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from iat_nova.model import CacheDomain, DomainInventory, Priority, Tenant, TenantKind, WayMask
from iat_nova.strategies.layout.open_ways import open_ways

BUFFER_WAYS = 2  # ways: least buffer at first, step of its growth, least shared ways besides DDIO's
CLASSES_SHARED = 2  # classes of service for the shared ways and the pollute buffer


@dataclasses.dataclass(frozen=True, slots=True)
class Own:
    """Ways that no other tenant may fill."""

    tenant: str
    ways: int


def promised(
    inventory: DomainInventory, ddio: int, stalled: Mapping[str, float]
) -> tuple[Own, ...]:
    """Return guaranteed and held ways, as far as there is room, critical tenants first.

    The first two owners reach the shared ways. Among equal priorities the most stalled tenants come
    first.
    """
    ranked = sorted(
        (tenant for tenant in inventory.tenants if tenant.ways.kept),
        key=lambda t: (t.priority is Priority.BE, -stalled.get(t.id, 0.0), t.id),
    )
    asked = [Own(t.id, max(t.ways.kept, inventory.domain.min_ways)) for t in ranked]
    classes = _classes(inventory)
    left = _free(inventory.domain, ddio)
    everybody = len(asked) == len(inventory.tenants) <= classes
    if everybody and sum(one.ways for one in asked) <= left:
        return tuple(asked)
    left -= shared_least(inventory.domain)
    found: list[Own] = []
    for one in asked:
        if one.ways <= left and len(found) < classes:
            found.append(one)
            left -= one.ways
    return tuple(found)


def _free(domain: CacheDomain, ddio: int) -> int:
    return _clean(domain, ddio) - open_ways(domain).lowest


def shared_least(domain: CacheDomain) -> int:
    """Return the number of shared ways besides DDIO's that always remain."""
    return max(BUFFER_WAYS, domain.min_ways)


def fits(domain: CacheDomain, own: Sequence[Own], ddio: int) -> bool:
    """Return whether there is room for `own` besides DDIO's ways."""
    owned = sum(one.ways for one in own)
    return not own or owned <= _free(domain, ddio) - shared_least(domain)


def reaching(domain: CacheDomain, own: Sequence[Own]) -> frozenset[str]:
    """Return the owners that may also fill shared ways."""
    return frozenset(one.tenant for one in own[:2])


def shared(domain: CacheDomain, own: Sequence[Own], ddio: int) -> WayMask:
    """Return the ways open to all tenants without ways of their own."""
    everything = open_ways(domain)
    lowest = everything.lowest + sum(one.ways for one in _below(own))
    top = everything.highest + 1
    if len(own) > 1:
        top = _clean(domain, ddio) - own[1].ways
    return WayMask.span(lowest, max(0, top - lowest))


def aside(domain: CacheDomain, own: Sequence[Own], ddio: int) -> WayMask:
    """Return the ways of ports aside: the topmost shared ways below DDIO's; empty without room.

    A buffer below DDIO's ways has these ways, too, and the ways lie between those
    that critical tenants keep clear of and all others.
    """
    everything, least = shared(domain, own, ddio), max(1, domain.min_ways)
    top = min(everything.highest + 1, _clean(domain, ddio))
    if not ddio or top - least <= everything.lowest:
        return WayMask(0)
    return WayMask.span(top - least, least)


def mask(
    domain: CacheDomain, own: Sequence[Own], ddio: int, tenant: Tenant, *, reach: bool
) -> WayMask:
    """Return the mask of a tenant with own ways; with `reach`, shared ways are included.

    The mask never exceeds the maximum of the tenant's flavor or class.
    """
    mine = _own_mask(domain, own, ddio, tenant.id)
    if not reach:
        return mine
    open_to_all = shared(domain, own, ddio)
    most = max(tenant.ways.max, mine.count)
    if own[0].tenant == tenant.id:
        return WayMask.span(mine.lowest, min(most, mine.count + open_to_all.count))
    if own[1].tenant == tenant.id:
        below = max(mine.lowest - open_to_all.count, mine.highest + 1 - most)
        top = min(open_ways(domain).highest + 1, below + most)
        return WayMask.span(below, top - below)
    return mine


def _own_mask(domain: CacheDomain, own: Sequence[Own], ddio: int, tenant: str) -> WayMask:
    """Return a tenant's own ways: the first owner's below the shared ways, the second's above."""
    if len(own) > 1 and own[1].tenant == tenant:
        return WayMask.span(_clean(domain, ddio) - own[1].ways, own[1].ways)
    at = open_ways(domain).lowest
    for one in reversed(_below(own)):
        if one.tenant == tenant:
            return WayMask.span(at, one.ways)
        at += one.ways
    raise KeyError(tenant)


def _below(own: Sequence[Own]) -> Sequence[Own]:
    return [one for number, one in enumerate(own) if number != 1]


def _clean(domain: CacheDomain, ddio: int) -> int:
    """Return the first position above the ways that only tenants fill."""
    top = min(open_ways(domain).highest + 1, domain.ways - ddio)
    return min(top, domain.coerced_ways.lowest) if domain.coerced_ways else top


def _classes(inventory: DomainInventory) -> int:
    """Return the number of tenants that may have masks of their own."""
    host = any(tenant.kind is TenantKind.HOST for tenant in inventory.tenants)
    return inventory.domain.classes - int(not host) - CLASSES_SHARED
