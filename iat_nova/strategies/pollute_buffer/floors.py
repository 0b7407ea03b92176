# SPDX-License-Identifier: Apache-2.0
"""Minimum speeds of best-effort tenants: most of the speed before a move took ways from them.

The policy says how much that is (`best_effort_min`). In the weighted mean of speeds a best-effort
tenant counts little, and could lose all speed unnoticed. A loss below the minimum weighs like the
speed of a critical tenant.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from iat_nova.model import Parameters, Priority, Tenant, TenantKind
from iat_nova.strategies.pollute_buffer import judge
from iat_nova.strategies.pollute_buffer.state import State
from iat_nova.strategies.readings import Look, Looks


def known(state: State, tenants: Iterable[Tenant], numbers: Parameters) -> dict[str, float]:
    """Return the minimum speeds in force by tenant, in units of `Look.speed`.

    A tenant with limited memory bandwidth, or with another load than outside the buffer, has none.
    """
    plan = state.trial.plan if state.trial is not None else state.plan
    limited = {one.tenant for one in (*state.plan.limits, *plan.limits)}
    return {
        one.id: numbers.best_effort_min * state.found[one.id].speed
        for one in tenants
        if one.priority is Priority.BE
        and one.id not in limited
        and one.id in state.found
        and not _other(one, state, state.looks)
    }


def critical(state: State, tenants: Iterable[Tenant]) -> dict[str, float]:
    """Return the speeds of critical tenants before any move beside the same loads, where known."""
    return {
        one.id: state.found[one.id].speed
        for one in tenants
        if one.priority is not Priority.BE and one.id in state.found
    }


def beside_others(state: State) -> dict[str, Look]:
    """Return the readings of `State.found` that last when other tenants or loads come.

    How fast a critical tenant was beside former neighbours does not count beside others.
    """
    best_effort = {one.id for one in state.members if one.priority is Priority.BE}
    return {one: look for one, look in state.found.items() if one in best_effort}


def measured(state: State, tenants: Iterable[Tenant]) -> State:
    """Return the state with the readings of tenants whose ways are as found.

    Beside confined tenants only a best-effort tenant that came, or has another load, is measured:
    the speed of others is no longer that of a host without the agent.
    """
    plan = state.plan

    def counts(tenant: Tenant) -> bool:
        if tenant.kind is TenantKind.HOST or tenant.id in plan.confined:
            return False
        if tenant.priority is Priority.BE:
            return not plan.confined or _other(tenant, state, state.looks)
        return not plan.confined and not plan.clear

    new = {one.id: state.looks[one.id] for one in tenants if one.id in state.looks and counts(one)}
    return dataclasses.replace(state, found={**state.found, **new})


def _other(tenant: Tenant, state: State, looks: Looks) -> bool:
    """Return whether a tenant was never measured outside the buffer, or has another load now."""
    before, now = state.found.get(tenant.id), looks.get(tenant.id)
    if before is None or now is None:
        return before is None
    return judge.other_load([tenant], {tenant.id: before}, {tenant.id: now}) is not None
