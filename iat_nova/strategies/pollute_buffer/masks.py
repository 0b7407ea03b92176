# SPDX-License-Identifier: Apache-2.0
"""Positions of a plan's ways.

A mask is an unbroken run of ways. Of the tenants with ways of their own, only two can therefore
reach the shared ways as well, from below and from above::

    way 0   | own of C | own of A |        shared        | own of B | DDIO |   the highest
              C: own     A: own and shared                 B: shared, own, and DDIO's

With a single such tenant, DDIO's ways are shared like all others. Masks are unbroken even if the
hardware takes other masks (AMD), to have the same arrangement on all hosts.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from iat_nova.model import (
    CacheDomain,
    DomainInventory,
    Group,
    Layout,
    PortGroup,
    Priority,
    Tenant,
    TenantKind,
    WayMask,
)
from iat_nova.strategies.pollute_buffer.plan import BUFFER_WAYS, Own, Plan
from iat_nova.strategies.readings import Looks

CLASSES_SHARED = 2  # classes of service for the shared ways and the pollute buffer


def layout(inventory: DomainInventory, plan: Plan) -> Layout:
    """Return the masks of a plan.

    Tenants with the same mask and limit share a class of service. If the classes do not suffice, no
    tenant has a maximum of ways.
    """
    members = _members(inventory, plan)
    if not _suffice(inventory, plan, members):
        members = _members(inventory, plan, maxima=False)
    groups = tuple(Group(tuple(ids), *key) for key, ids in sorted(members.items()))
    return Layout(
        _ddio(inventory.domain, plan.ddio),
        groups,
        grouped=any(len(g.tenants) > 1 for g in groups),
        dca_off=plan.dca_off,
        ports=_ports(inventory.domain, plan),
    )


def has_classes(inventory: DomainInventory, plan: Plan) -> bool:
    """Return whether the hardware has enough classes of service for a plan with all maxima."""
    return _suffice(inventory, plan, _members(inventory, plan))


_Members = dict[tuple[WayMask, int], list[str]]
"""Tenants by mask and limit of memory bandwidth in percent: each key needs a class."""


def _members(inventory: DomainInventory, plan: Plan, *, maxima: bool = True) -> _Members:
    members: _Members = {}
    masks: dict[Hashable, WayMask] = {}
    for tenant in inventory.tenants:
        # A mask depends on these facts alone; combinations are far fewer than tenants.
        own = tenant.id if tenant.id in plan.owners else None
        confined = tenant.id in plan.confined
        alike = own, confined, tenant.priority, tenant.io, tenant.ways.max
        if alike not in masks:
            masks[alike] = _mask(inventory, plan, tenant, maxima=maxima)
        key = masks[alike], plan.bandwidth_of(tenant.id)
        members.setdefault(key, []).append(tenant.id)
    return members


def _suffice(inventory: DomainInventory, plan: Plan, members: _Members) -> bool:
    """Return whether there are enough classes; one for other cache domains' ports stays free."""
    domain = inventory.domain
    hosts = {one.id for one in inventory.tenants if one.kind is TenantKind.HOST}
    own = sum(1 for ids in members.values() if hosts.isdisjoint(ids))
    ports = max(len(_ports(domain, plan)), domain.shared_port_classes)
    return own + ports <= domain.classes - 1


def keeps_promises(inventory: DomainInventory, plan: Plan, before: Plan) -> bool:
    """Return whether a plan lets lenders fill as many ways as guaranteed, and keeps all holds.

    A held tenant lends no ways and has only the held ways. A tenant whose held ways do not fit (the
    plan `before` lacks them) stays outside the buffer.
    """
    own = {one.tenant: one.ways for one in plan.own}
    held = {one.id: one.ways.min for one in inventory.tenants if one.ways.held}
    if any(own.get(one) != ways for one, ways in held.items() if one in before.owners):
        return False
    if plan.confined & (held.keys() - before.owners):
        return False
    counts = layout(inventory, plan).allocation(one.id for one in inventory.tenants).tenants
    lenders = (one for one in inventory.tenants if one.id in plan.lenders)
    return all(counts[one.id] >= one.ways.kept for one in lenders)


def promised(inventory: DomainInventory, ddio: int, looks: Looks) -> tuple[Own, ...]:
    """Return the own ways that fit: held ways, then guarantees of critical tenants, then others.

    The first two owners reach the shared ways, held tenants never: these come last. Among equal
    priorities the most stalled tenants come first, but the largest guarantees are kept first: a
    large one is not given up for a small one.
    """
    domain, tenants = inventory.domain, inventory.tenants
    ranked = sorted(
        (tenant for tenant in tenants if tenant.ways.kept),
        key=lambda t: (
            standing(t),
            -(looks[t.id].stalled if t.id in looks else 0.0),
            t.id,
        ),
    )
    asked = [Own(t.id, max(t.ways.kept, domain.min_ways)) for t in ranked]
    host = any(tenant.kind is TenantKind.HOST for tenant in tenants)
    classes = domain.classes - int(not host) - CLASSES_SHARED  # for masks of their own
    left = _free(domain, ddio)
    if len(asked) == len(tenants) <= classes and sum(one.ways for one in asked) <= left:
        return tuple(asked)
    left -= _shared_least(domain)
    served = {t.id: (not t.ways.held, t.priority is Priority.BE) for t in ranked}
    kept: set[Own] = set()
    for one in sorted(asked, key=lambda one: (*served[one.tenant], -one.ways)):
        if one.ways <= left and len(kept) < classes:
            kept.add(one)
            left -= one.ways
    return tuple(one for one in asked if one in kept)


def standing(tenant: Tenant) -> tuple[bool, bool]:
    """Return a sort key of owners: held tenants come last, and best-effort after critical ones."""
    return tenant.ways.held, tenant.priority is Priority.BE


def fits(domain: CacheDomain, own: Sequence[Own], ddio: int) -> bool:
    """Return whether there is room for `own` besides DDIO's ways."""
    owned = sum(one.ways for one in own)
    return not own or owned <= _free(domain, ddio) - _shared_least(domain)


def shared(domain: CacheDomain, plan: Plan) -> WayMask:
    """Return the ways open to all tenants without ways of their own."""
    everything, own = domain.open_ways, plan.own
    lowest = everything.lowest + sum(one.ways for one in (*own[:1], *own[2:]))
    top = _clean(domain, plan.ddio) - own[1].ways if len(own) > 1 else everything.highest + 1
    return WayMask.span(lowest, max(0, top - lowest))


def aside(domain: CacheDomain, plan: Plan) -> WayMask:
    """Return the ways of ports aside: the topmost shared ways below DDIO's; empty without room.

    A buffer below DDIO's ways includes these ways. Critical tenants that keep clear of DDIO's ways
    also avoid these ways.
    """
    everything, least = shared(domain, plan), domain.min_ways
    top = min(everything.highest + 1, _clean(domain, plan.ddio))
    if not plan.ddio or top - least <= everything.lowest:
        return WayMask(0)
    return WayMask.span(top - least, least)


def open_of_ddio(domain: CacheDomain, plan: Plan) -> WayMask:
    """Return the part of DDIO's ways that tenants may fill."""
    return WayMask(_ddio(domain, plan.ddio) & domain.open_ways)


def _mask(inventory: DomainInventory, plan: Plan, tenant: Tenant, *, maxima: bool) -> WayMask:
    domain = inventory.domain
    everything, most = shared(domain, plan), max(tenant.ways.max, domain.min_ways)
    if tenant.ways.held or not maxima:  # a hold without a class must not take another class
        most = domain.ways
    if tenant.id in plan.owners:
        mask = _own(domain, plan, tenant)
    else:
        mask = _buffer(inventory, plan) if tenant.id in plan.confined else everything
        if most < mask.count:
            mask = WayMask.span(mask.lowest, most)
    if mask & domain.coerced_ways:
        mask = WayMask(mask | domain.coerced_ways)
    if not plan.clear or tenant.priority is Priority.BE or tenant.io:
        return mask
    clean = WayMask(mask & ((1 << _lowest_dirty(inventory, plan)) - 1))
    return clean if clean.count >= domain.min_ways else mask


def _own(domain: CacheDomain, plan: Plan, tenant: Tenant) -> WayMask:
    """Return the mask of a tenant with own ways, with the shared ways if it reaches them.

    The mask never exceeds the maximum of the tenant's flavor or class.
    """
    place = [one.tenant for one in plan.own].index(tenant.id)
    ways, everything = plan.own[place].ways, domain.open_ways
    lowest = everything.lowest + sum(one.ways for one in plan.own[max(2, place + 1) :])
    if place == 1:
        lowest = _clean(domain, plan.ddio) - ways
    if place > 1 or tenant.id in plan.confined or tenant.ways.held:
        return WayMask.span(lowest, ways)
    most, more = max(tenant.ways.max, ways), shared(domain, plan).count
    if place == 0:
        return WayMask.span(lowest, min(most, ways + more))
    lowest = max(lowest - more, lowest + ways - most)
    return WayMask.span(lowest, min(everything.highest + 1 - lowest, most))


def _buffer(inventory: DomainInventory, plan: Plan) -> WayMask:
    """Return the buffer's mask. Without room below DDIO's ways, the buffer reaches into them.

    If a tenant's own ways lie below DDIO's ways, a buffer on DDIO's ways is these alone, if they
    suffice. A buffer has the largest minimum number of ways among confined tenants.
    """
    domain, everything = inventory.domain, shared(inventory.domain, plan)
    if plan.on_ddio and len(plan.own) > 1:
        topmost = open_of_ddio(domain, plan)
        if topmost.count >= _shared_least(domain):
            return topmost
    confined = plan.confined - plan.owners
    asked = (one.ways.min for one in inventory.tenants if one.id in confined)
    ways = min(max(plan.buffer, domain.min_ways, *asked), everything.count)
    top = everything.highest + 1
    if not plan.on_ddio:
        top = min(top, domain.ways - plan.ddio)
    return WayMask.span(max(everything.lowest, top - ways), ways)


def _lowest_dirty(inventory: DomainInventory, plan: Plan) -> int:
    """Return the lowest of the topmost ways that devices, or confined tenants, fill."""
    domain = inventory.domain
    lowest = min((domain.ways - plan.ddio, *(one.mask.lowest for one in _ports(domain, plan))))
    if plan.on_ddio and len(plan.own) < 2 and plan.confined - plan.owners:
        lowest = min(lowest, _buffer(inventory, plan).lowest)
    together = domain.coerced_ways
    return min(lowest, together.lowest) if together >> lowest else lowest


def _ports(domain: CacheDomain, plan: Plan) -> tuple[PortGroup, ...]:
    ids = tuple(port.id for port in domain.device_ports if port.id in plan.aside)
    mask = aside(domain, plan) if ids else WayMask(0)
    return (PortGroup(ids, mask),) if mask else ()


def _ddio(domain: CacheDomain, ways: int) -> WayMask:
    if domain.ddio_found is not None and domain.ddio_found.count == ways:
        return domain.ddio_found
    return WayMask.span(domain.ways - ways, ways)


def _free(domain: CacheDomain, ddio: int) -> int:
    return _clean(domain, ddio) - domain.open_ways.lowest


def _clean(domain: CacheDomain, ddio: int) -> int:
    """Return the first position above the ways that only tenants fill."""
    top = min(domain.open_ways.highest + 1, domain.ways - ddio)
    return min(top, domain.coerced_ways.lowest) if domain.coerced_ways else top


def _shared_least(domain: CacheDomain) -> int:
    """Return the number of shared ways besides DDIO's that always remain."""
    return max(BUFFER_WAYS, domain.min_ways)
