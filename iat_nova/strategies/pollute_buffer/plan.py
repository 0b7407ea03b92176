# SPDX-License-Identifier: Apache-2.0
"""The strategy's description of the hardware state, and moves from plan to plan."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable

from iat_nova.model import (
    UNLIMITED,
    Allocation,
    CacheDomain,
    DomainInventory,
    Group,
    Layout,
    Message,
    PortGroup,
    Priority,
    Tenant,
    WayMask,
)
from iat_nova.strategies.layout.open_ways import open_ways
from iat_nova.strategies.pollute_buffer import room
from iat_nova.strategies.pollute_buffer.room import BUFFER_WAYS, Own


@dataclasses.dataclass(frozen=True, slots=True)
class Limit:
    """A tenant's limit of memory bandwidth, in percent."""

    tenant: str
    percent: int


@dataclasses.dataclass(frozen=True, slots=True)
class Plan:
    """Confined tenants, the buffer, and DDIO's ways.

    Without confined tenants and without further settings, a plan is a host without the agent.

    * `confined`: tenants in the buffer.
    * `buffer`: number of the buffer's ways. The buffer lies below DDIO's ways.
    * `ddio`: number of DDIO's ways.
    * `on_ddio`: the buffer lies in the topmost ways, where devices write as well.
    * `clear`: critical tenants without I/O stay out of DDIO's ways, and out of a buffer in the
      topmost ways. Lines in ways that others fill are soon evicted.
    * `own`: tenants with ways that no other tenant may fill (see `room`). A confined owner has no
      other ways.
    * `lent`: owners of guaranteed ways that lose nothing if others fill these ways, too.
    * `limits`: limits of memory bandwidth.
    * `dca_off`: root ports whose devices write to memory instead of into the LLC.
    * `aside`: ports (`CacheDomain.device_ports`) that write into `room.aside`, not DDIO's ways.
    """

    confined: frozenset[str]
    buffer: int
    ddio: int
    on_ddio: bool = False
    clear: bool = False
    own: tuple[Own, ...] = ()
    lent: tuple[Own, ...] = ()
    limits: tuple[Limit, ...] = ()
    dca_off: tuple[str, ...] = ()
    aside: frozenset[str] = frozenset()

    def bandwidth_of(self, tenant: str) -> int:
        """Return a tenant's limit of memory bandwidth, in percent."""
        return next((one.percent for one in self.limits if one.tenant == tenant), UNLIMITED)

    def without(self, gone: frozenset[str]) -> Plan:
        """Return the plan without the tenants `gone` in the buffer; an empty buffer is reset."""
        left = self.confined - gone
        if left:
            return dataclasses.replace(self, confined=left)
        return dataclasses.replace(self, confined=left, buffer=BUFFER_WAYS, on_ddio=False)

    @property
    def owners(self) -> frozenset[str]:
        """Tenants with ways of their own."""
        return frozenset(one.tenant for one in self.own)

    @property
    def lenders(self) -> frozenset[str]:
        """Tenants whose guaranteed ways are open to others."""
        return frozenset(one.tenant for one in self.lent)


@dataclasses.dataclass(frozen=True, slots=True)
class Move:
    """A change of plan to try. `what` identifies the move, whichever plan precedes."""

    subject: str  # a tenant's id, "ddio" or "layout"
    plan: Plan
    what: Message


def found(domain: CacheDomain, ddio_least: int) -> Plan:
    """Return the plan of a host as found: no tenant confined."""
    ddio = domain.ddio_found.count if domain.ddio_found is not None else ddio_least
    return Plan(frozenset(), BUFFER_WAYS, ddio)


def layout(inventory: DomainInventory, plan: Plan) -> Layout:
    """Return the masks of a plan.

    Tenants with the same mask and limit share a class of service.
    """
    members: dict[tuple[WayMask, int], list[str]] = {}
    masks: dict[Hashable, WayMask] = {}
    for tenant in inventory.tenants:
        # A mask depends on these facts alone; combinations are far fewer than tenants.
        own = tenant.id if tenant.id in plan.owners else None
        confined = tenant.id in plan.confined
        alike = own, confined, tenant.priority, tenant.io, tenant.ways.max
        if alike not in masks:
            masks[alike] = _mask(inventory, plan, tenant)
        key = masks[alike], plan.bandwidth_of(tenant.id)
        members.setdefault(key, []).append(tenant.id)
    groups = tuple(Group(tuple(ids), *key) for key, ids in sorted(members.items()))
    return Layout(
        _ddio(inventory.domain, plan.ddio),
        groups,
        grouped=any(len(g.tenants) > 1 for g in groups),
        dca_off=plan.dca_off,
        ports=_ports(inventory.domain, plan),
    )


def _ports(domain: CacheDomain, plan: Plan) -> tuple[PortGroup, ...]:
    if not plan.aside:
        return ()
    ids = tuple(port.id for port in domain.device_ports if port.id in plan.aside)
    mask = room.aside(domain, plan.own, plan.ddio)
    return (PortGroup(ids, mask),) if ids and mask else ()


def keeps_promises(inventory: DomainInventory, plan: Plan) -> bool:
    """Return whether lenders may still fill as many ways as guaranteed, and holds are exact.

    A held tenant lends no ways and has no others.
    """
    held = {one.id: one.ways.min for one in inventory.tenants if one.ways.held}
    own = {one.tenant: one.ways for one in plan.own}
    if any(own.get(tenant) != ways for tenant, ways in held.items()):
        return False
    placed = layout(inventory, plan)
    masks = ((placed.mask_of(one.tenant), one.ways) for one in plan.lent)
    return all(mask and mask.count >= ways for mask, ways in masks)


def allocation(inventory: DomainInventory, plan: Plan, placed: Layout) -> Allocation:
    """Return the way counts of a plan; a shared way counts for each tenant."""
    counts = {tenant: one.mask.count for one in placed.groups for tenant in one.tenants}
    return Allocation(plan.ddio, {one.id: counts.get(one.id, 0) for one in inventory.tenants})


def _mask(inventory: DomainInventory, plan: Plan, tenant: Tenant) -> WayMask:
    mask = _filled(inventory, plan, tenant)
    critical = tenant.priority is not Priority.BE
    if not plan.clear or not critical or tenant.io:
        return mask
    least = max(1, inventory.domain.min_ways)
    clean = WayMask(mask & ((1 << _lowest_dirty(inventory, plan)) - 1))
    return clean if clean.count >= least else mask


def _lowest_dirty(inventory: DomainInventory, plan: Plan) -> int:
    """Return the lowest of the topmost ways that devices, or confined tenants, fill."""
    domain = inventory.domain
    lowest = domain.ways - plan.ddio
    for group in _ports(domain, plan):
        lowest = min(lowest, group.mask.lowest)
    if plan.on_ddio and len(plan.own) < 2 and plan.confined - plan.owners:
        everything = room.shared(domain, plan.own, plan.ddio)
        least = _least(inventory, plan)
        lowest = min(lowest, _buffer(domain, plan, everything, max(plan.buffer, least)).lowest)
    together = domain.coerced_ways
    return min(lowest, together.lowest) if together >> lowest else lowest


def _least(inventory: DomainInventory, plan: Plan) -> int:
    """Return the largest minimum number of ways among confined tenants."""
    confined = plan.confined - plan.owners
    return max((one.ways.min for one in inventory.tenants if one.id in confined), default=1)


def _filled(inventory: DomainInventory, plan: Plan, tenant: Tenant) -> WayMask:
    """Return a tenant's mask, before DDIO's ways are removed."""
    domain = inventory.domain
    if tenant.id in plan.owners:
        reach = tenant.id not in plan.confined and not tenant.ways.held
        return _coerced(domain, room.mask(domain, plan.own, plan.ddio, tenant, reach=reach))
    everything = room.shared(domain, plan.own, plan.ddio)
    if tenant.id in plan.confined:
        return _buffer(domain, plan, everything, max(plan.buffer, _least(inventory, plan)))
    most = max(tenant.ways.max, domain.min_ways)
    if most >= everything.count:
        return _coerced(domain, everything)
    return _coerced(domain, WayMask.span(everything.lowest, most))


def _buffer(domain: CacheDomain, plan: Plan, everything: WayMask, ways: int) -> WayMask:
    """Return the buffer's mask. Without room below DDIO's ways, the buffer reaches into them.

    If a tenant's own ways lie below DDIO's ways, a buffer on DDIO's ways is these alone, if they
    suffice.
    """
    if plan.on_ddio and len(plan.own) > 1:
        topmost = open_of_ddio(domain, plan.ddio)
        if topmost.count >= max(BUFFER_WAYS, domain.min_ways):
            return _coerced(domain, topmost)
    ways = min(max(ways, domain.min_ways), everything.count)
    top = everything.highest + 1
    if not plan.on_ddio:
        clean = min(top, domain.ways - plan.ddio)
        top = max(clean, everything.lowest + ways)
    return _coerced(domain, WayMask.span(max(everything.lowest, top - ways), ways))


def open_of_ddio(domain: CacheDomain, ddio: int) -> WayMask:
    """Return the part of DDIO's ways that tenants may fill."""
    return WayMask(_ddio(domain, ddio) & open_ways(domain))


def _coerced(domain: CacheDomain, mask: WayMask) -> WayMask:
    return WayMask(mask | domain.coerced_ways) if mask & domain.coerced_ways else mask


def _ddio(domain: CacheDomain, ways: int) -> WayMask:
    if domain.ddio_found is not None and domain.ddio_found.count == ways:
        return domain.ddio_found
    return WayMask.span(domain.ways - ways, ways)
