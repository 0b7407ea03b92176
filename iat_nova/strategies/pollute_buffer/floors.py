# SPDX-License-Identifier: Apache-2.0
"""Minimum speeds of best-effort tenants: most of the speed with ways of their own.

In the weighted mean of speeds a best-effort tenant counts little, and could lose all speed
unnoticed. Before a search, tenants without a known minimum therefore get ways of their own for one
sample. The number of ways is the policy's initial number, as on a host of fixed partitions. A loss
below the minimum weighs like the speed of a critical tenant. No critical tenant is confined for a
minimum speed.
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

FLOOR = 0.98  # share of the speed with own ways that is a tenant's minimum speed
NOTHING = Look(0.0, 0.0, 0.0, 0.0)  # of a tenant that slept or had another load
LOADS = 4  # remembered readings per tenant: some loads alternate


def known(state: State, tenants: Iterable[Tenant]) -> dict[str, float]:
    """Return the minimum speeds in force by tenant, in units of `Look.speed`.

    A tenant with limited memory bandwidth has no minimum. A tenant without a reading at the present
    load has none either.
    """
    plan = state.trial.plan if state.trial is not None else state.plan
    limited = {one.tenant for one in (*state.plan.limits, *plan.limits)}
    found = ((one.id, _seen(one, state)) for one in tenants if one.id not in limited)
    return {tenant: FLOOR * look.speed for tenant, look in found if look is not None}


def _seen(tenant: Tenant, state: State) -> Look | None:
    """Return a tenant's reading with ways of its own under the present load, or None.

    Loads of a tenant with I/O cannot be distinguished, so such a reading is valid for one search.
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
    """Return all readings of tenants with own ways, with those of the present trial first.

    A tenant that slept or had another load gets `NOTHING`, to prevent another trial before a move
    is kept.
    """
    assert state.trial is not None
    referenced = state.trial.plan.referenced
    here = [tenant for tenant in tenants if tenant.id in referenced]
    other = set(judge.other_loads(here, state.looks, looks))
    found = {one.id: NOTHING if one.id in other else looks.get(one.id, NOTHING) for one in here}
    new = {one: (look, *state.floors.get(one, ()))[:LOADS] for one, look in found.items()}
    return {**state.floors, **new}


def without_nothing(seen: Mapping[str, tuple[Look, ...]]) -> dict[str, tuple[Look, ...]]:
    """Return the readings without `NOTHING`."""
    return {one: tuple(look for look in looks if look != NOTHING) for one, looks in seen.items()}


def reference(inventory: DomainInventory, state: State) -> Move | None:
    """Return a trial in which best-effort tenants without a known minimum have ways of their own.

    The trial includes as many tenants as ways below DDIO's ways and classes of service allow. All
    other tenants keep their minimum number of ways. Return None if misses stall none of the
    tenants, or if there is no critical tenant.
    """
    unknown = [tenant for tenant in inventory.tenants if _unknown(tenant, state)]
    stalled = any(state.looks[one.id].stalled > judge.MATTERS for one in unknown)
    if not stalled or all(tenant.priority is Priority.BE for tenant in inventory.tenants):
        return None
    found = dataclasses.replace(state.plan, limits=())  # the speed without the policy's limit
    for tenant in unknown:
        own = Own(tenant.id, max(tenant.ways.initial, inventory.domain.min_ways))
        more = dataclasses.replace(found, apart=(*found.apart, own))
        if _fits(inventory, more):
            found = more
    what = message("reference", tenants=tuple(one.tenant for one in found.apart))
    return Move("layout", found, what) if found.apart else None


def _unknown(tenant: Tenant, state: State) -> bool:
    """Return whether an awake best-effort tenant needs a minimum speed and has none."""
    return (
        tenant.priority is Priority.BE
        and tenant.kind is not TenantKind.HOST
        and tenant.id not in state.plan.owners
        and tenant.id in state.looks
        and _seen(tenant, state) is None
    )


def _fits(inventory: DomainInventory, plan: Plan) -> bool:
    """Return whether enough ways and classes of service remain for all other tenants."""
    alone = plan.referenced | plan.owners
    others = (one for one in inventory.tenants if one.id not in alone)
    least = max((one.ways.min for one in others), default=0)
    shared = room.shared(inventory.domain, plan.own, plan.ddio)
    left = room.clean_top(inventory.domain, shared, plan.ddio) - shared.lowest
    left -= sum(one.ways for one in plan.apart)
    return (
        left >= max(least, room.shared_least(inventory.domain))
        and moves.has_classes(inventory, plan)
        and plans.keeps_promises(inventory, plan)
    )
