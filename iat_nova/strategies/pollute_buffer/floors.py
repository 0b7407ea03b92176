# SPDX-License-Identifier: Apache-2.0
"""How fast best-effort tenants are with ways of their own: they are not left much less than that.

In the weighted mean of speeds they count so little that one could lose all it has without being
seen. So before a search those of whom it is not known have ways of their own for one sample, as
many as the policy gives them at first, like in a host of fixed partitions. What anyone later
lacks of that speed counts like the speed of a critical tenant.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Set

from iat_nova.model import DomainInventory, Priority, Tenant, TenantKind
from iat_nova.strategies.pollute_buffer import judge, moves, room
from iat_nova.strategies.pollute_buffer import plan as plans
from iat_nova.strategies.pollute_buffer.judge import Floors, Looks
from iat_nova.strategies.pollute_buffer.plan import Move
from iat_nova.strategies.pollute_buffer.room import Own
from iat_nova.strategies.pollute_buffer.state import State


def known(state: State) -> dict[str, float]:
    """Return the floors that count; who has limited memory bandwidth, by policy, has none."""
    plan = state.trial.plan if state.trial is not None else state.plan
    limited = {one.tenant for one in (*state.plan.limits, *plan.limits)}
    return without(state.floors, limited)


def without(floors: Floors, gone: Set[str]) -> dict[str, float]:
    """Return the floors of all but these."""
    return {one: speed for one, speed in floors.items() if one not in gone}


def measured(state: State, looks: Looks) -> dict[str, float]:
    """Return the floors with those of the tenants that are apart in the trial, and awake."""
    assert state.trial is not None
    apart = {one.tenant for one in state.trial.plan.apart}
    found = {one: judge.FLOOR * look.speed for one, look in looks.items() if one in apart}
    return {**state.floors, **found}


def reference(inventory: DomainInventory, state: State) -> Move | None:
    """Return the trial of best-effort tenants whose floor is not known, each in ways of its own.

    As many of them as there is room for, below DDIO's ways and beside those left to the others.
    None: nobody is left, there is no critical tenant to lose to, or no room or class of service.
    """
    domain, plan = inventory.domain, state.plan
    if all(tenant.priority is Priority.BE for tenant in inventory.tenants):
        return None
    shared = room.shared(domain, plan.own, plan.ddio)
    left = room.clean_top(domain, shared, plan.ddio) - shared.lowest - room.shared_least(domain)
    apart = []
    for tenant in inventory.tenants:
        ways = max(tenant.ways.initial, domain.min_ways)
        if _unknown(tenant, state) and ways <= left:
            apart.append(Own(tenant.id, ways))
            left -= ways
    changed = dataclasses.replace(plan, apart=tuple(apart))
    if not apart or not moves.has_classes(inventory, changed):
        return None
    if not plans.keeps_promises(inventory, changed):
        return None
    names = ", ".join(one.tenant for one in apart)
    return Move("layout", changed, f"ways of its own for each of {names}, to see its speed there")


def _unknown(tenant: Tenant, state: State) -> bool:
    """Tell whether misses stall a guest that needs a floor and has none."""
    seen = state.looks.get(tenant.id)
    return (
        tenant.priority is Priority.BE
        and tenant.kind is not TenantKind.HOST
        and tenant.id not in state.plan.owners
        and seen is not None
        and seen.stalled > judge.MATTERS
        and tenant.id not in state.floors
    )
