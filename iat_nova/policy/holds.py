# SPDX-License-Identifier: Apache-2.0
"""Operators' holds of single tenants, applied as bounds of the tenants' ways; pure.

A hold overrides the policy: minimum and maximum become the held number of ways. A hold is applied
only if every other tenant keeps its minimum, and the tenant keeps the guaranteed ways of its
flavor. If the minimums of all tenants do not fit anyway, tenants share ways. Then tenants with
guaranteed or held ways keep their minimum. The shared partition keeps at least the largest minimum
among its members.
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
    Pause,
    Tenant,
    WayRequest,
    message,
    verbatim,
)


def apply(
    domains: Mapping[int, DomainInventory], holds: Iterable[Hold]
) -> tuple[dict[int, DomainInventory], dict[Hold, Message]]:
    """Return the tenants with their holds, and the reason of each refused hold.

    Earlier holds come first. A hold of an absent tenant has no effect and is not refused.
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
    """Return the tenant with this key, with its inventory, in each of its cache domains."""
    return [
        (inventory, tenant)
        for inventory in domains.values()
        for tenant in inventory.tenants
        if tenant.key == key
    ]


def why_not(hold: Hold, found: Iterable[tuple[DomainInventory, Tenant]]) -> Message | None:
    """Return why a tenant cannot be held at this number of ways; None if possible."""
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
    if sum(least.values()) + max(tenant.ways.min, domain.min_ways) > usable:  # sharing anyway
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
    """Return how a held tenant's ways differ from the hold; None for held ways of its own."""
    mask = layout.mask_of(tenant.id)
    if mask is None or mask.count != tenant.ways.min:
        return message("hold-given", ways=mask.count if mask is not None else 0)
    shares = any(
        mask.overlaps(group.mask) and group.tenants != (tenant.id,) for group in layout.groups
    )
    return message("hold-shared") if shares else None


def begun(hold: Hold) -> Message:
    """Return the message of a hold: tenant, ways, end, operator and reason."""
    terms = _terms(hold, message("hold-until-release"))
    return message("hold-begun", name=hold.name, ways=hold.ways, terms=terms)


def paused(pause: Pause) -> Message:
    """Return the message of a pause: end, operator and reason."""
    return message("decisions-paused", terms=_terms(pause, message("pause-until-resume")))


def _terms(one: Hold | Pause, open_end: Message) -> Message:
    """Return end, operator and reason of a request; `open_end` for a request without an end."""
    terms = open_end if math.isinf(one.until_s) else message("hold-until", until_s=one.until_s)
    if one.by:
        terms = message("hold-by", terms=terms, by=one.by)
    if one.reason:
        terms = message("hold-because", terms=terms, reason=one.reason)
    return terms
