# SPDX-License-Identifier: Apache-2.0
"""Parts of the plan and of the trials that still hold after tenants arrive, leave or change."""

from __future__ import annotations

import dataclasses

from iat_nova.model import DomainInventory, Message, Priority, Tenant, WayMask, message
from iat_nova.strategies.pollute_buffer import masks
from iat_nova.strategies.pollute_buffer.plan import Plan
from iat_nova.strategies.pollute_buffer.state import Failure, Member, State


def changes(before: tuple[Member, ...], after: tuple[Member, ...]) -> dict[str, Message]:
    """Return what has changed, by tenant: a hold began or ended, or other facts changed."""
    known = {member.id: member for member in before}
    return {
        member.id: _change(known[member.id], member)
        for member in after
        if member.id in known and member != known[member.id]
    }


def _change(before: Member, after: Member) -> Message:
    if after.ways.held and after.ways != before.ways:
        return message("now-held", ways=after.ways.min)
    if before.ways.held and not after.ways.held:
        return message("now-released")
    return message("facts-changed")


def ports_in_use(plan: Plan, inventory: DomainInventory) -> Plan:
    """Return the plan with DDIO on at root ports, and no port aside, without a tenant's device.

    The same holds if an owner is unknown or elsewhere. Nor is a port aside through which packets of
    a critical tenant come, or of the stack: the tenant reads them from DDIO's ways.
    """
    domain = inventory.domain
    used = {
        port.address
        for port in domain.dca_ports
        if inventory.below(port) and inventory.owns_all(port.devices)
    }
    stay = {port.id for port in domain.device_ports if inventory.owns_all(port.devices)}
    return dataclasses.replace(
        plan,
        dca_off=tuple(one for one in plan.dca_off if one in used),
        aside=frozenset(one for one in plan.aside & stay if _may_stay(inventory.behind(one))),
    )


def _may_stay(owners: tuple[Tenant, ...]) -> bool:
    return bool(owners) and not any(one.io and one.priority is not Priority.BE for one in owners)


def has(inventory: DomainInventory, plan: Plan, tenant: str) -> Message:
    """Return a message with the ways that an arrived tenant may fill.

    These are fewer than the shared ways if its class has a maximum, or if it keeps clear of
    DDIO's ways.
    """
    ways = next((one.ways for one in plan.own if one.tenant == tenant), 0)
    if ways:
        return message("arrived-own-ways", ways=ways)
    mask = masks.layout(inventory, plan).mask_of(tenant) or WayMask(0)
    if masks.shared(inventory.domain, plan) & ~mask:
        return message("arrived-some-ways", ways=mask.count)
    return message("arrived-shared" if plan.own else "arrived-all-ways")


def still_failed(state: State, members: tuple[Member, ...]) -> tuple[Failure, ...]:
    """Return the failures that would fail again.

    There are none after a tenant arrived, left or changed that is critical, or of the stack, or was
    so; nor after the weight of a tenant changed, as moves are then judged by other weights.
    """
    changed = set(members) ^ set(state.members)
    if any(member.priority is not Priority.BE for member in changed):
        return ()
    weights = {member.id: member.weight for member in state.members}
    if any(member.weight != weights.get(member.id, member.weight) for member in members):
        return ()
    here = {member.id for member in members}
    return tuple(one for one in state.failures if one.plan.confined <= here)
