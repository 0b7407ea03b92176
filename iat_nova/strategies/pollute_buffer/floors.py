# SPDX-License-Identifier: Apache-2.0
"""How fast best-effort tenants are with ways of their own: they are not left much less than that.

In the weighted mean of speeds they count so little that one could lose all it has without being
seen. So before a search those of whom it is not known have ways of their own for one sample, as
many as the policy gives them at first, like in a host of fixed partitions. What a move takes of
that weighs like a critical tenant's speed. No critical tenant is confined for it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

from iat_nova.model import DomainInventory, Priority, Tenant, TenantKind, message
from iat_nova.strategies.pollute_buffer import judge, moves, room
from iat_nova.strategies.pollute_buffer import plan as plans
from iat_nova.strategies.pollute_buffer.judge import Look, Looks
from iat_nova.strategies.pollute_buffer.plan import Move, Plan
from iat_nova.strategies.pollute_buffer.room import Own
from iat_nova.strategies.pollute_buffer.state import State

FLOOR = 0.98  # of its speed with ways of its own: what a tenant is left if that costs nobody more
NOTHING = Look(0.0, 0.0, 0.0, 0.0)  # of a tenant that slept, or did something else
LOADS = 4  # of a tenant that are remembered: some alternate


def known(state: State, tenants: Iterable[Tenant]) -> dict[str, float]:
    """Return the floors that count: of speeds, as `judge` has them.

    Who has limited memory bandwidth, by policy, has none; nor who is not known at this load.
    """
    plan = state.trial.plan if state.trial is not None else state.plan
    limited = {one.tenant for one in (*state.plan.limits, *plan.limits)}
    found = ((one.id, _seen(one, state)) for one in tenants if one.id not in limited)
    return {tenant: FLOOR * look.speed for tenant, look in found if look is not None}


def _seen(tenant: Tenant, state: State) -> Look | None:
    """Return what a tenant did with ways of its own when its load was the one it is now.

    Of one with I/O no load differs visibly from another: what it did then holds for one search.
    """
    if tenant.io and tenant.id not in state.referenced:
        return None
    now = state.looks.get(tenant.id)
    for look in state.floors.get(tenant.id, ()):
        before = {tenant.id: look}
        if now is None or look == NOTHING:
            return look
        if not judge.other_load([tenant], before, {tenant.id: now}):
            return look
    return None


def measured(state: State, tenants: Iterable[Tenant], looks: Looks) -> dict[str, tuple[Look, ...]]:
    """Return what was seen of tenants with ways of their own, the trial's last and first.

    Who slept in it, or did something else, is not asked again before a move is kept.
    """
    assert state.trial is not None
    referenced = state.trial.plan.referenced
    here = [tenant for tenant in tenants if tenant.id in referenced]
    other = set(judge.other_loads(here, state.looks, looks))
    found = {one.id: NOTHING if one.id in other else looks.get(one.id, NOTHING) for one in here}
    new = {one: (look, *state.floors.get(one, ()))[:LOADS] for one, look in found.items()}
    return {**state.floors, **new}


def without_nothing(seen: Mapping[str, tuple[Look, ...]]) -> dict[str, tuple[Look, ...]]:
    """Return what was seen, without what was not as somebody slept or did something else."""
    return {one: tuple(look for look in looks if look != NOTHING) for one, looks in seen.items()}


def reference(inventory: DomainInventory, state: State) -> Move | None:
    """Return the trial of best-effort tenants whose floor is not known, each in ways of its own.

    As many of them as there are ways and classes of service for, below DDIO's ways and beside what
    any other tenant asks for at least. None: misses stall nobody of them, or there is no critical
    tenant.
    """
    unknown = [tenant for tenant in inventory.tenants if _unknown(tenant, state)]
    stalled = any(state.looks[one.id].stalled > judge.MATTERS for one in unknown)
    if not stalled or all(tenant.priority is Priority.BE for tenant in inventory.tenants):
        return None
    found = dataclasses.replace(state.plan, limits=())  # what it has without the policy's limit
    for tenant in unknown:
        own = Own(tenant.id, max(tenant.ways.initial, inventory.domain.min_ways))
        more = dataclasses.replace(found, apart=(*found.apart, own))
        if _fits(inventory, more):
            found = more
    what = message("reference", tenants=tuple(one.tenant for one in found.apart))
    return Move("layout", found, what) if found.apart else None


def _unknown(tenant: Tenant, state: State) -> bool:
    """Tell whether a guest that is awake needs a floor and has none."""
    return (
        tenant.priority is Priority.BE
        and tenant.kind is not TenantKind.HOST
        and tenant.id not in state.plan.owners
        and tenant.id in state.looks
        and _seen(tenant, state) is None
    )


def _fits(inventory: DomainInventory, plan: Plan) -> bool:
    """Tell whether enough ways, and classes of service, are left for all others."""
    alone = plan.referenced | plan.owners
    others = (one for one in inventory.tenants if one.id not in alone)
    least = max((one.ways.min for one in others), default=0)
    shared = room.shared(inventory.domain, plan.own, plan.ddio)
    left = room.clean_top(inventory.domain, shared, plan.ddio) - shared.lowest - plan.lane
    left -= sum(one.ways for one in plan.apart)
    return (
        left >= max(least, room.shared_least(inventory.domain))
        and moves.has_classes(inventory, plan)
        and plans.keeps_promises(inventory, plan)
    )
