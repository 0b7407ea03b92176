# SPDX-License-Identifier: Apache-2.0
"""Ways that a person holds for single tenants, as bounds of these tenants; pure.

A hold comes after the policy: least and most are the ways that are held. It is applied where every
other tenant can still have its least, and what its own flavor promises it; else not at all. On a
host whose tenants have to share anyway, for want of ways, the others keep what they are promised or
held at, and as many ways to share as the one of them that asks for most at least.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping

from iat_nova.model import (
    DomainInventory,
    Hold,
    Layout,
    Message,
    Tenant,
    WayRequest,
    message,
    verbatim,
)


def apply(
    domains: Mapping[int, DomainInventory], holds: Iterable[Hold]
) -> tuple[dict[int, DomainInventory], dict[Hold, Message]]:
    """Return the tenants with their holds, and why those that are not applied are not.

    A hold of somebody who is not here is neither. One of earlier comes first.
    """
    held, refused = dict(domains), dict[Hold, Message]()
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


def why_not(hold: Hold, found: Iterable[tuple[DomainInventory, Tenant]]) -> Message | None:
    """Tell why a tenant cannot be held at so many ways; None when it can."""
    if not hold.ways:
        return verbatim(hold.reason)
    faults = (_fault(inventory, tenant, hold.ways) for inventory, tenant in found)
    return next((fault for fault in faults if fault is not None), None)


def _fault(inventory: DomainInventory, tenant: Tenant, ways: int) -> Message | None:
    domain = inventory.domain
    usable = domain.ways - domain.reserved_ways.count
    if ways < tenant.ways.promised:
        return message("hold-below-guarantee", ways=tenant.ways.promised)
    if ways < domain.min_ways:
        return message("hold-below-least", domain=domain.id, ways=domain.min_ways)
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
    names = inventory.names
    keep = [message("hold-keeps", name=names[one], ways=count) for one, count in least.items()]
    keep += [message("hold-keeps-shared", ways=shared)] if shared else []
    code = "hold-no-room" if left > 0 else "hold-no-room-at-all"
    return message(code, domain=domain.id, usable=usable, keep=tuple(keep), left=left)


def kept(tenant: Tenant, layout: Layout) -> Message | None:
    """Tell what a held tenant has instead of its ways; None when it has them for itself."""
    mask = layout.mask_of(tenant.id)
    if mask is None or mask.count != tenant.ways.min:
        return message("hold-given", ways=mask.count if mask is not None else 0)
    shares = any(
        mask.overlaps(group.mask) and group.tenants != (tenant.id,) for group in layout.groups
    )
    return message("hold-shared") if shares else None


def begun(hold: Hold) -> Message:
    """Return that a tenant is held, until when, by whom and why."""
    if math.isinf(hold.until_s):
        terms = message("hold-until-release")
    else:
        terms = message("hold-until", until_s=hold.until_s)
    if hold.by:
        terms = message("hold-by", terms=terms, by=hold.by)
    if hold.reason:
        terms = message("hold-because", terms=terms, reason=hold.reason)
    return message("hold-begun", name=hold.name, ways=hold.ways, terms=terms)
