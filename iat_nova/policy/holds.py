# SPDX-License-Identifier: Apache-2.0
"""Ways that a person holds for single tenants, as bounds of these tenants; pure.

A hold comes after the policy: least and most are the ways that are held. It is applied where every
other tenant can still have its least, and what its own flavor promises it; else not at all. On a
host whose tenants have to share anyway, for want of ways, the others keep what they are promised or
held at, and as many ways to share as the one of them that asks for most at least.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

from iat_nova.model import DomainInventory, Hold, Layout, Tenant, WayRequest


def apply(
    domains: Mapping[int, DomainInventory], holds: Iterable[Hold]
) -> tuple[dict[int, DomainInventory], dict[Hold, str]]:
    """Return the tenants with their holds, and why those that are not applied are not.

    A hold of somebody who is not here is neither. One of earlier comes first.
    """
    held, refused = dict(domains), {}
    for hold in sorted(holds, key=lambda one: (one.since_s, one.tenant)):
        found = of_tenant(held, hold.tenant)
        problem = why_not(hold, found)
        if problem is not None:
            refused[hold] = problem
            continue
        for inventory, tenant in found:
            ways = WayRequest(hold.ways, hold.ways, hold.ways, tenant.ways.promised, held=True)
            changed = dataclasses.replace(tenant, ways=ways)
            tenants = tuple(changed if one is tenant else one for one in inventory.tenants)
            held[inventory.domain.id] = dataclasses.replace(inventory, tenants=tenants)
    return held, refused


def of_tenant(
    domains: Mapping[int, DomainInventory], key: str
) -> list[tuple[DomainInventory, Tenant]]:
    """Return a tenant in every cache domain it is in, by its key."""
    return [
        (inventory, tenant)
        for inventory in domains.values()
        for tenant in inventory.tenants
        if tenant.key == key
    ]


def why_not(hold: Hold, found: Iterable[tuple[DomainInventory, Tenant]]) -> str | None:
    """Tell why a tenant cannot be held at so many ways; None when it can."""
    if not hold.ways:
        return hold.reason
    faults = (_fault(inventory, tenant, hold.ways) for inventory, tenant in found)
    return next((fault for fault in faults if fault is not None), None)


def _fault(inventory: DomainInventory, tenant: Tenant, ways: int) -> str | None:
    domain = inventory.domain
    usable = domain.ways - domain.reserved_ways.count
    if ways < tenant.ways.promised:
        return f"its flavor promises it {tenant.ways.promised} (iat:llc_ways)"
    if ways < domain.min_ways:
        return f"cache domain {domain.id} wants masks of {domain.min_ways} ways at least"
    others = [one for one in inventory.tenants if one.id != tenant.id]
    least = {one.id: max(one.ways.min, domain.min_ways) for one in others}
    shared = 0
    if sum(least.values()) + max(tenant.ways.min, domain.min_ways) > usable:  # they share anyway
        own = {one.id for one in others if one.ways.kept}
        shared = max((count for one, count in least.items() if one not in own), default=0)
        least = {one: count for one, count in least.items() if one in own}
    left = usable - sum(least.values()) - shared
    if ways <= left:
        return None
    keep = [f"{inventory.names[one]} {count}" for one, count in least.items()]
    keep += [f"{shared} to share"] if shared else []
    can = f"{left} can be held" if left > 0 else "none can be held before a hold or guest ends"
    return (
        f"cache domain {domain.id} has {usable} ways for tenants; the others keep "
        f"{', '.join(keep)}: {can}"
    )


def kept(tenant: Tenant, layout: Layout) -> str | None:
    """Tell what a held tenant has instead of its ways; None when it has them for itself."""
    mask = layout.mask_of(tenant.id)
    if mask is None or mask.count != tenant.ways.min:
        return f"the strategy gives it {mask.count if mask is not None else 0}"
    shares = any(
        mask.overlaps(group.mask) and group.tenants != (tenant.id,) for group in layout.groups
    )
    return "the strategy lets others fill them" if shares else None
