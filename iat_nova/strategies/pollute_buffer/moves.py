# SPDX-License-Identifier: Apache-2.0
"""Moves worth a trial, the most promising first."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Set

from iat_nova.model import (
    UNLIMITED,
    DomainInventory,
    Priority,
    Tenant,
    TenantKind,
    message,
)
from iat_nova.strategies.layout.open_ways import open_ways
from iat_nova.strategies.pollute_buffer import plan as plans
from iat_nova.strategies.pollute_buffer import ports, room
from iat_nova.strategies.pollute_buffer.plan import Limit, Move, Plan
from iat_nova.strategies.pollute_buffer.room import BUFFER_WAYS
from iat_nova.strategies.pollute_buffer.trial import SUFFERS
from iat_nova.strategies.pollute_buffer.view import View, saved

Promise = tuple[float, Move]
"""What a move may bring, by what the counters show, and the move."""


def candidates(view: View, plan: Plan, without: Set[str] = frozenset()) -> list[Promise]:
    """Return the moves from a plan, the most promising first, those below `PAYS` included.

    `without`: names of `FAMILIES` to leave out.
    """
    families = (family for name, family in FAMILIES.items() if name not in without)
    found = [promise for family in families for promise in family(view, plan)]
    return sorted(found, key=lambda promise: -promise[0])


def _promise(promise: float, subject: str, plan: Plan, code: str, **values: str | int) -> Promise:
    return promise, Move(subject, plan, message(code, **values))


def _apart(view: View, plan: Plan) -> Iterator[Promise]:
    """Yield moves that separate best-effort tenants from critical tenants.

    Best-effort tenants and devices share the topmost ways, and critical tenants have the rest.
    Alternatively, critical tenants only keep clear of DDIO's ways.
    """
    critical, best_effort = view.ids - view.best_effort, view.best_effort
    free = critical - view.readers
    if _fits_on_ddio(view, plan) and best_effort and not (plan.clear and plan.on_ddio):
        apart = dataclasses.replace(
            plan,
            confined=plan.confined | best_effort,
            buffer=max(plan.buffer, BUFFER_WAYS),
            on_ddio=True,
            clear=True,
        )
        kept_out = view.fills(best_effort) + view.inbound_above(plan)
        yield _promise(view.relief(critical, kept_out), "layout", apart, "best-effort-topmost")
    if not plan.clear:
        clear = dataclasses.replace(plan, clear=True)
        yield _promise(view.relief(free, view.inbound_above(plan)), "layout", clear, "keep-clear")
    elif view.settled:
        everything = open_ways(view.inventory.domain).count
        dirty = max(plan.ddio, plan.buffer if plan.on_ddio and plan.confined else 0)
        expected = view.stake(free - plan.confined) * saved(everything - dirty, everything)
        back = dataclasses.replace(plan, clear=False)
        yield _promise(expected, "layout", back, "keep-clear-no-more")


def _fits_on_ddio(view: View, plan: Plan) -> bool:
    """Return whether the topmost ways suffice for the tenants confined to them.

    With at least two tenants with own ways, the topmost ways are DDIO's.
    """
    if len(plan.own) < 2:
        return True
    asked = (one.ways.min for one in view.inventory.tenants if one.id in view.best_effort)
    least = max(BUFFER_WAYS, view.inventory.domain.min_ways, *asked)
    return plans.open_of_ddio(view.inventory.domain, plan.ddio).count >= least


def _ones(view: View, plan: Plan) -> Iterator[Promise]:
    """Yield moves that confine a tenant with many fills, or release a tenant with high stalls."""
    free = view.ids - plan.confined
    for tenant in sorted(view.inventory.tenants, key=lambda t: (-view.misses(t.id), t.id)):
        one, alone, misses = tenant.id, frozenset((tenant.id,)), view.misses(tenant.id)
        if one in plan.confined:
            stake, lack = view.stakes.get(one, (0.0, 0.0))
            if lack or tenant.priority is not Priority.BE:  # else its confinement has paid
                expected = stake + lack - view.relief(free, misses)
                yield _promise(expected, one, plan.without(alone), "release", tenant=one)
        elif _may_be_confined(view, plan, tenant):
            changed = dataclasses.replace(plan, confined=plan.confined | alone)
            code = "confine-to-own" if one in plan.owners else "confine"
            yield _promise(view.relief(free - alone, misses), one, changed, code, tenant=one)


def _may_be_confined(view: View, plan: Plan, tenant: Tenant) -> bool:
    seen = view.looks.get(tenant.id)
    if seen is None:
        return False
    if plan.own and tenant.id in plan.owners - room.reaching(view.inventory.domain, plan.own):
        return False
    return seen.streams or tenant.priority is Priority.BE


def _size(view: View, plan: Plan) -> Iterator[Promise]:
    """Yield a larger buffer for stalled tenants inside, and a smaller buffer for those outside."""
    if not plan.confined - plan.owners or (plan.on_ddio and len(plan.own) > 1):
        return
    shared = room.shared(view.inventory.domain, plan.own, plan.ddio).count
    within, outside = view.stake(plan.confined), view.stake(view.ids - plan.confined)
    for ways in (plan.buffer + BUFFER_WAYS, plan.buffer - view.settled):
        if ways != plan.buffer and max(1, view.inventory.domain.min_ways) <= ways < shared - 1:
            rest = shared - plan.buffer, shared - ways
            expected = within * max(0.0, saved(plan.buffer, ways))
            expected += outside * max(0.0, saved(*rest))
            changed = dataclasses.replace(plan, buffer=ways)
            yield _promise(expected, "layout", changed, "buffer-size", ways=ways)


def _ddio(view: View, plan: Plan) -> Iterator[Promise]:
    """Yield two more ways for DDIO while inbound lines miss and I/O tenants are stalled.

    Two ways fewer are also considered. If devices may fill any way, the first move confines
    devices. If hits are not counted, only a trial shows the gain.
    """
    numbers, domain = view.parameters, view.inventory.domain
    if view.sample.inbound_lines_per_s is None or not domain.ddio_resizable:
        return
    readers, others, ways = view.readers, view.ids - view.readers, domain.ways
    busy = view.inbound > numbers.threshold_miss_low_per_s
    if not plan.ddio:
        if busy and room.fits(domain, plan.own, numbers.ddio_ways_min):
            yield _ddio_move(view.relief(others, view.inbound), plan, numbers.ddio_ways_min)
        return
    more = min(plan.ddio + 2, numbers.ddio_ways_max, ways)
    if busy and more > plan.ddio and room.fits(domain, plan.own, more):
        expected = view.stake(readers) * view.packets_missed * saved(plan.ddio, more)
        yield _ddio_move(expected, plan, more)
    if domain.ddio_found == 0:
        yield _ddio_move(view.stake(readers), plan, 0)
    less = max(plan.ddio - 2, numbers.ddio_ways_min)
    if less < plan.ddio and view.settled:
        yield _ddio_move(view.stake(others) * saved(ways - plan.ddio, ways - less), plan, less)


def _ddio_move(promise: float, plan: Plan, ways: int) -> Promise:
    """Return a change of DDIO's ways; a buffer on these ways keeps its own share."""
    buffer = max(BUFFER_WAYS, plan.buffer + ways - plan.ddio) if plan.on_ddio else plan.buffer
    changed = dataclasses.replace(plan, ddio=ways, buffer=buffer)
    if not ways:
        return _promise(promise, "ddio", changed, "ddio-any-way")
    return _promise(promise, "ddio", changed, "ddio-ways", ways=ways)


def _dca(view: View, plan: Plan) -> Iterator[Promise]:
    """Yield moves that keep a device's writes out of the LLC, or admit them again.

    Only ports that the operator allows (`[iat] dca_ports`) are switched. LLC hits must save the
    owner little, because hits may be on lines that the device wrote. Inbound lines are not counted
    by port, so the expected gain assumes that all inbound lines are the port's.
    """
    tenants = view.inventory.tenants
    for port in view.inventory.domain.dca_ports:
        below = set(port.devices)
        owners = frozenset(one.id for one in tenants if not below.isdisjoint(one.devices))
        if port.address in plan.dca_off:
            left = tuple(one for one in plan.dca_off if one != port.address)
            expected, code = view.stake(owners), "port-dca-on"
        elif (
            owners
            and view.inbound > view.parameters.threshold_miss_low_per_s
            and all(view.hits_save(one) < SUFFERS for one in owners)
        ):
            left = (*plan.dca_off, port.address)
            expected, code = view.relief(view.ids - owners, view.inbound), "port-dca-off"
        else:
            continue
        changed = dataclasses.replace(plan, dca_off=left)
        yield _promise(expected, "ddio", changed, code, port=port.address)


def _lend(view: View, plan: Plan) -> Iterator[Promise]:
    """Yield moves that open guaranteed ways to other tenants; undone if an owner loses.

    An owner that does not reach the shared ways gains as well: it gets these.
    """
    domain, every = view.inventory.domain, [plan.own] if plan.own else []
    for lent in (*every, *((one,) for one in plan.own if len(plan.own) > 1)):
        owners = frozenset(one.tenant for one in lent)
        changed = dataclasses.replace(
            plan,
            own=tuple(one for one in plan.own if one not in lent),
            lent=(*plan.lent, *lent),
            confined=plan.confined - owners,
        )
        ways = room.shared(domain, plan.own, plan.ddio).count
        more = room.shared(domain, changed.own, plan.ddio).count
        expected, one = view.stake(view.ids - owners) * saved(ways, more), lent[0].tenant
        for cut_off in lent:
            if cut_off.tenant not in room.reaching(domain, plan.own):
                stake = view.stake(frozenset((cut_off.tenant,)))
                expected += stake * max(0.0, saved(cut_off.ways, more))
        if len(lent) == 1:
            yield _promise(expected, one, changed, "lend", tenant=one)
        else:
            yield _promise(expected, "layout", changed, "lend-all")


def _throttle(view: View, plan: Plan) -> Iterator[Promise]:
    """Yield a move that halves the memory bandwidth of best-effort streams, or lifts all limits.

    A stream's misses do not depend on ways, but misses of other tenants wait behind the stream. If
    memory does not limit the others, a trial shows no gain.
    """
    critical = view.ids - view.best_effort
    streams = [
        tenant
        for tenant in view.inventory.tenants
        if tenant.priority is Priority.BE
        and tenant.id in view.looks
        and view.looks[tenant.id].streams
    ]
    limits = tuple(
        Limit(tenant.id, percent)
        for tenant in streams
        if (percent := _halved(view, plan, tenant)) < UNLIMITED
    )
    further = frozenset(one.tenant for one in limits if one.percent < plan.bandwidth_of(one.tenant))
    if further:
        changed = dataclasses.replace(plan, limits=limits)
        expected, least = view.relief(critical, view.fills(further)), min(o.percent for o in limits)
        yield _promise(expected, "layout", changed, "limit-streams", percent=least)
    if plan.limits and view.settled:  # otherwise the limits may have just paid
        changed = dataclasses.replace(plan, limits=())
        lost = view.stake(frozenset(one.tenant for one in plan.limits))
        yield _promise(lost, "layout", changed, "limit-streams-no-more")


def _halved(view: View, plan: Plan, tenant: Tenant) -> int:
    """Return half of a tenant's memory bandwidth in percent, rounded to the hardware's steps.

    The value is halved further until the tenant would feel the limit, but stays above the tenant's
    minimum. If the tenant would not feel even the minimum, the present value is returned.
    """
    control, now = view.inventory.domain.bandwidth, plan.bandwidth_of(tenant.id)
    if control is None or control.percents is None:
        return UNLIMITED
    lowest, step = control.percents
    least = max(lowest, -(-tenant.bandwidth_min // step) * step)
    felt_below, percent = control.felt_below(view.traffic(tenant.id)), now
    while percent > least:
        percent = max(least, percent // 2 // step * step)
        if percent < felt_below:
            return percent
    return now


FAMILIES: Mapping[str, Callable[[View, Plan], Iterator[Promise]]] = {
    "topmost-ways": _apart,
    "confine-single": _ones,
    "buffer-size": _size,
    "ports-aside": ports.moves,  # takes no ways from tenants, as more ways of DDIO's do
    "ddio-ways": _ddio,
    "port-dca": _dca,
    "share-guaranteed-ways": _lend,
    "memory-bandwidth": _throttle,
}
"""Moves by family. An equal promise goes to the family that is named first."""


def has_classes(inventory: DomainInventory, plan: Plan) -> bool:
    """Return whether the hardware has enough classes of service for a plan.

    A class for the ports of other cache domains stays free.
    """
    placed = plans.layout(inventory, plan)
    hosts = {one.id for one in inventory.tenants if one.kind is TenantKind.HOST}
    own = sum(1 for group in placed.groups if hosts.isdisjoint(group.tenants))
    ports = max(len(placed.ports), inventory.domain.shared_port_classes)
    return own + ports <= inventory.domain.classes - 1
