# SPDX-License-Identifier: Apache-2.0
"""What is worth a trial, the most promising first."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from iat_nova.model import DomainInventory, Parameters, Priority, Sample, Tenant
from iat_nova.strategies.pollute_buffer import room
from iat_nova.strategies.pollute_buffer.judge import Looks, at_stake
from iat_nova.strategies.pollute_buffer.plan import BUFFER_WAYS, Move, Plan

WORTH = 0.01  # less than this cannot be told from chance, so nothing is tried for it
STREAMS = 0.2  # misses a reference: a critical tenant is confined only if it hits this seldom


@dataclasses.dataclass(frozen=True, slots=True)
class View:
    """What moves are chosen by."""

    inventory: DomainInventory
    parameters: Parameters
    sample: Sample
    looks: Looks

    def stake(self, who: frozenset[str]) -> float:
        """Return what all would gain if these never missed."""
        return at_stake(self.inventory.tenants, self.looks, who)

    @property
    def ids(self) -> frozenset[str]:
        """Everybody."""
        return frozenset(tenant.id for tenant in self.inventory.tenants)

    def misses(self, tenant: str) -> float:
        """Return a tenant's LLC misses a second; 0 while it sleeps."""
        return self.looks[tenant].misses_per_s if tenant in self.looks else 0.0

    def pollution(self, plan: Plan, who: frozenset[str]) -> float:
        """Return what confining these could bring: of what is at stake, their part of the fills.

        0 when nobody else would be left outside the buffer.
        """
        free = self.ids - plan.confined
        others = free - who
        fills = sum(self.misses(one) for one in free) + (self.sample.ddio_misses_per_s or 0.0)
        if not others or not fills:
            return 0.0
        return self.stake(others) * sum(self.misses(one) for one in who & free) / fills


def candidates(view: View, plan: Plan) -> Iterator[Move]:
    """Yield the moves from a plan that may pay, by what the counters show."""
    yield from _together(view, plan)
    by_misses = sorted(view.inventory.tenants, key=lambda t: (-view.misses(t.id), t.id))
    for tenant in by_misses:
        yield from _one(view, plan, tenant)
    yield from _size(view, plan)
    yield from _ddio(view, plan)
    yield from _reach(view, plan)


def _reach(view: View, plan: Plan) -> Iterator[Move]:
    """Let who has nothing but ways of its own, and is stalled, reach the shared ways instead."""
    domain = view.inventory.domain
    for at in range(len(room.reaching(domain, plan.own)), len(plan.own)):
        one = plan.own[at]
        if view.stake(frozenset((one.tenant,))) > WORTH:
            least = min((0, 1), key=lambda n: view.stake(frozenset((plan.own[n].tenant,))))
            own = list(plan.own)
            own[least], own[at] = own[at], own[least]
            changed = dataclasses.replace(plan, own=tuple(own))
            yield Move(one.tenant, changed, "reaches the shared ways")
            yield from _more(view, plan, at)


def _more(view: View, plan: Plan, at: int) -> Iterator[Move]:
    """Give it more ways of its own."""
    own = list(plan.own)
    own[at] = room.Own(own[at].tenant, own[at].ways + BUFFER_WAYS)
    if room.fits(view.inventory.domain, own, plan.ddio):
        changed = dataclasses.replace(plan, own=tuple(own))
        yield Move(own[at].tenant, changed, f"{own[at].ways} ways of its own")


def _together(view: View, plan: Plan) -> Iterator[Move]:
    """Confine all best-effort tenants at once: one alone may not pay beside another."""
    best_effort = frozenset(
        tenant.id for tenant in view.inventory.tenants if tenant.priority is Priority.BE
    )
    if len(best_effort - plan.confined) > 1 and view.pollution(plan, best_effort) > WORTH:
        changed = dataclasses.replace(plan, confined=plan.confined | best_effort)
        yield Move("layout", changed, "all best-effort tenants into the pollute buffer")


def _one(view: View, plan: Plan, tenant: Tenant) -> Iterator[Move]:
    """Confine a tenant that fills much, or release one that is stalled much."""
    if tenant.id in plan.confined:
        if view.stake(frozenset((tenant.id,))) > WORTH:
            changed = dataclasses.replace(plan, confined=plan.confined - {tenant.id})
            yield Move(tenant.id, changed, "out of the pollute buffer")
        return
    harm = view.pollution(plan, frozenset((tenant.id,)))
    if harm > WORTH and _may_be_confined(view, plan, tenant):
        changed = dataclasses.replace(plan, confined=plan.confined | {tenant.id})
        where = "to its own ways" if tenant.id in plan.owners else "into the pollute buffer"
        yield Move(tenant.id, changed, where)


def _may_be_confined(view: View, plan: Plan, tenant: Tenant) -> bool:
    if tenant.id in plan.owners - room.reaching(view.inventory.domain, plan.own):
        return False
    if tenant.priority is Priority.BE:
        return True
    seen = view.looks[tenant.id]
    return seen.misses_per_s > STREAMS * seen.references_per_s


def _size(view: View, plan: Plan) -> Iterator[Move]:
    """Make the buffer larger where those within are stalled, smaller where others are."""
    if not plan.confined - plan.owners:
        return
    shared = room.shared(view.inventory.domain, plan.own, plan.ddio)
    if view.stake(plan.confined) > WORTH and plan.buffer + 2 < shared.count:
        changed = dataclasses.replace(plan, buffer=plan.buffer + BUFFER_WAYS)
        yield Move("layout", changed, f"a pollute buffer of {changed.buffer} ways")
    if view.stake(view.ids - plan.confined) > WORTH:
        if plan.buffer > max(1, view.inventory.domain.min_ways):
            changed = dataclasses.replace(plan, buffer=plan.buffer - 1)
            yield Move("layout", changed, f"a pollute buffer of {changed.buffer} ways")
        if view.sample.ddio_misses_per_s and not plan.on_ddio and len(plan.own) < 2:
            changed = dataclasses.replace(plan, on_ddio=True)
            yield Move("layout", changed, "the pollute buffer into DDIO's ways")


def _ddio(view: View, plan: Plan) -> Iterator[Move]:
    """Give DDIO two ways more while inbound lines miss and who reads them is stalled."""
    missed, numbers = view.sample.ddio_misses_per_s, view.parameters
    if missed is None or not view.inventory.domain.ddio_resizable:
        return
    readers = frozenset(tenant.id for tenant in view.inventory.tenants if tenant.io)
    most = min(numbers.ddio_ways_max, view.inventory.domain.ways)
    if missed > numbers.threshold_miss_low_per_s and view.stake(readers) > WORTH:
        ways = min(plan.ddio + 2, most)
        if ways > plan.ddio and room.fits(view.inventory.domain, plan.own, ways):
            yield _ddio_move(plan, ways)
    if plan.ddio > numbers.ddio_ways_min and view.stake(view.ids - readers) > WORTH:
        yield _ddio_move(plan, max(plan.ddio - 2, numbers.ddio_ways_min))


def _ddio_move(plan: Plan, ways: int) -> Move:
    return Move("ddio", dataclasses.replace(plan, ddio=ways), f"{ways} ways for DDIO")
