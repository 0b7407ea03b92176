# SPDX-License-Identifier: Apache-2.0
"""Minimum speeds of best-effort tenants: most of the speed before a move cost them any.

The policy says how much that is (`best_effort_min`). In the weighted mean of speeds a best-effort
tenant counts little, and could lose all speed unnoticed. A loss below the minimum weighs like the
speed of a critical tenant.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from iat_nova.model import Parameters, Priority, Tenant, TenantKind
from iat_nova.strategies import readings
from iat_nova.strategies.pollute_buffer import judge
from iat_nova.strategies.pollute_buffer.state import State
from iat_nova.strategies.readings import Looks


def known(state: State, tenants: Iterable[Tenant], numbers: Parameters) -> Looks:
    """Return the minimum speeds in force by tenant, as readings (`judge.Floors`).

    A tenant with another load than outside the buffer has none; other traffic leaves it.
    """
    return {
        one.id: readings.scaled(state.found[one.id], numbers.best_effort_min)
        for one in tenants
        if one.id in state.found and not _other(one, state, state.looks)
    }


def measured(state: State, tenants: Iterable[Tenant]) -> State:
    """Return the state with the readings of best-effort tenants outside the buffer, without limit.

    Beside confined or limited tenants only a tenant that came, or has another load, is measured:
    the speed of others is no longer that of a host without the agent.
    """
    restricted = state.plan.confined | {one.tenant for one in state.plan.limits}
    new = {
        one.id: state.looks[one.id]
        for one in tenants
        if one.priority is Priority.BE
        and one.kind is not TenantKind.HOST
        and one.id in state.looks
        and one.id not in restricted
        and (not restricted or _other(one, state, state.looks))
    }
    return dataclasses.replace(state, found={**state.found, **new})


def _other(tenant: Tenant, state: State, looks: Looks) -> bool:
    """Return whether a tenant was never measured outside the buffer, or has another load now."""
    before, now = state.found.get(tenant.id), looks.get(tenant.id)
    if before is None or now is None:
        return before is None
    return judge.other_load([tenant], {tenant.id: before}, {tenant.id: now}) is not None
