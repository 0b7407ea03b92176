# SPDX-License-Identifier: Apache-2.0
"""Minimum speeds of best-effort tenants: most of the speed before a move cost them any.

The policy says how much that is (`best_effort_min`). In the weighted mean of speeds a best-effort
tenant counts little, and could lose all speed unnoticed. A loss below the minimum weighs like the
speed of a critical tenant.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection

from iat_nova.model import Parameters, Priority, Tenant, TenantKind
from iat_nova.strategies import readings
from iat_nova.strategies.pollute_buffer import judge
from iat_nova.strategies.pollute_buffer.state import State
from iat_nova.strategies.readings import Looks


def known(state: State, tenants: Collection[Tenant], numbers: Parameters) -> Looks:
    """Return the minimum speeds in force by tenant, as readings (`judge.Floors`).

    A tenant with another load than outside the buffer has none; other traffic leaves it.
    """
    others = judge.other_loads(tenants, state.found, state.looks)
    return {
        one.id: readings.scaled(state.found[one.id], numbers.best_effort_min)
        for one in tenants
        if one.id in state.found and one.id not in others
    }


def measured(state: State, tenants: Collection[Tenant]) -> State:
    """Return the state with the readings of best-effort tenants outside the buffer, without limit.

    Beside confined or limited tenants only a tenant that came, or has another load, is measured:
    the speed of others is no longer that of a host without the agent.
    """
    others = judge.other_loads(tenants, state.found, state.looks)
    restricted = state.plan.confined | {one.tenant for one in state.plan.limits}
    new = {
        one.id: state.looks[one.id]
        for one in tenants
        if one.priority is Priority.BE
        and one.kind is not TenantKind.HOST
        and one.id in state.looks
        and one.id not in restricted
        and (not restricted or one.id not in state.found or one.id in others)
    }
    return dataclasses.replace(state, found={**state.found, **new})
