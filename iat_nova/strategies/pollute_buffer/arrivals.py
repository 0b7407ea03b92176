# SPDX-License-Identifier: Apache-2.0
"""Tenants come, go and change: what of the plan, and of what was tried, still holds."""

from __future__ import annotations

import dataclasses

from iat_nova.model import DomainInventory, Message, Priority, Tenant, message
from iat_nova.strategies.pollute_buffer.plan import Plan
from iat_nova.strategies.pollute_buffer.state import Barred, Member, State


def members_of(inventory: DomainInventory) -> tuple[Member, ...]:
    """Return the facts of all tenants on which decisions rest."""
    return tuple(Member(t.id, t.priority, t.io, t.cpus, t.ways) for t in inventory.tenants)


def same_members(members: tuple[Member, ...], inventory: DomainInventory) -> bool:
    """Tell whether these are `members_of` this inventory, without making them."""
    tenants = inventory.tenants
    return len(members) == len(tenants) and all(
        m.id == t.id
        and m.priority is t.priority
        and m.io is t.io
        and m.cpus == t.cpus
        and m.ways == t.ways
        for m, t in zip(members, tenants, strict=True)
    )


def stayed(members: tuple[Member, ...], inventory: DomainInventory) -> tuple[Tenant, ...] | None:
    """Return the tenants that were there before; None where one left or is another than it was.

    CPUs aside: those of the host are what guests leave.
    """
    here = {tenant.id: tenant for tenant in inventory.tenants}
    before = [(member, here.get(member.id)) for member in members]
    if any(
        now is None or (was.priority, was.io, was.ways) != (now.priority, now.io, now.ways)
        for was, now in before
    ):
        return None
    return tuple(tenant for _, tenant in before if tenant is not None)


def joined(plan: Plan, inventory: DomainInventory, before: frozenset[str]) -> Plan:
    """Return the plan with best-effort tenants that come in the buffer, where all others are."""
    best_effort = {one.id for one in inventory.tenants if one.priority is Priority.BE}
    known = best_effort & before
    if not known or not known <= plan.confined:
        return plan
    return dataclasses.replace(plan, confined=plan.confined | best_effort)


def ports_in_use(plan: Plan, inventory: DomainInventory) -> Plan:
    """Return the plan with DDIO on at root ports below which no tenant has a device any more."""
    devices = {device for tenant in inventory.tenants for device in tenant.devices}
    used = (one for one in inventory.domain.dca_ports if not devices.isdisjoint(one.devices))
    known = {port.address for port in used}
    return dataclasses.replace(plan, dca_off=tuple(one for one in plan.dca_off if one in known))


def critical_released(plan: Plan, members: tuple[Member, ...], changed: frozenset[str]) -> Plan:
    """Return the plan with no critical tenant in the buffer whose load is another than it was."""
    critical = {member.id for member in members if member.priority is not Priority.BE}
    return plan.without(plan.confined & critical & changed)


def has(plan: Plan, tenant: str) -> Message:
    """Return the message that says which ways a tenant that has come may fill."""
    ways = next((one.ways for one in plan.own if one.tenant == tenant), 0)
    if ways:
        return message("arrived-own-ways", ways=ways)
    if tenant in plan.confined:
        return message("arrived-confined")
    return message("arrived-shared" if plan.own else "arrived-all-ways")


def still_known(state: State, members: tuple[Member, ...]) -> tuple[Plan, ...]:
    """Return the plans that still would not pay: none once somebody who matters came."""
    if _somebody_came(state, members):
        return ()
    here = {member.id for member in members}
    return tuple(plan for plan in state.tried if plan.confined <= here)


def still_barred(state: State, members: tuple[Member, ...]) -> tuple[Barred, ...]:
    """Return what stays barred: nothing once somebody who matters came."""
    if _somebody_came(state, members):
        return ()
    here = {member.id for member in members}
    return tuple(one for one in state.barred if one.plan.confined <= here)


def _somebody_came(state: State, members: tuple[Member, ...]) -> bool:
    """Tell whether a critical tenant, or the stack, is new or another than it was."""
    known = {member.id: member for member in state.members}
    new = (member for member in members if known.get(member.id) != member)
    return any(member.priority is not Priority.BE for member in new)
