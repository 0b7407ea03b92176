# SPDX-License-Identifier: Apache-2.0
"""Moves worth a trial, the most promising first."""

from __future__ import annotations

import dataclasses
import math
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
from iat_nova.strategies.pollute_buffer import judge, ports, room
from iat_nova.strategies.pollute_buffer import plan as plans
from iat_nova.strategies.pollute_buffer.plan import Limit, Move, Plan
from iat_nova.strategies.pollute_buffer.room import BUFFER_WAYS
from iat_nova.strategies.pollute_buffer.trial import SUFFERS
from iat_nova.strategies.pollute_buffer.view import View

Promise = tuple[float, Move]
"""What a move may bring, by what the counters show, and the move."""


def candidates(view: View, plan: Plan, without: Set[str] = frozenset()) -> list[Promise]:
    """Return the moves from a plan, the most promising first, those below `PAYS` included.

    `without`: names of `FAMILIES` to leave out.
    """
    families = (family for name, family in FAMILIES.items() if name not in without)
    found = [promise for family in families for promise in family(view, plan)]
    return sorted(found, key=lambda promise: -promise[0])


def _apart(view: View, plan: Plan) -> Iterator[Promise]:
    """Yield moves that separate best-effort tenants from critical tenants.

    Best-effort tenants and devices share the topmost ways, and critical tenants have the rest.
    Alternatively, critical tenants only keep clear of DDIO's ways.
    """
    critical = view.ids - view.best_effort
    polluters = view.best_effort - plan.confined
    if _fits_on_ddio(view, plan) and view.best_effort and not (plan.clear and plan.on_ddio):
        apart = dataclasses.replace(
            plan,
            confined=plan.confined | view.best_effort,
            buffer=max(plan.buffer, _least(view)),
            on_ddio=True,
            clear=True,
        )
        kept_out = view.fills(view.best_effort) + view.inbound_above(plan)
        expected = view.relief(critical, kept_out)
        what = message("best-effort-topmost")
        yield expected, Move("layout", apart, what)
        streams = _streams(view, plan)
        if streams and critical - streams - view.readers:
            with_them = dataclasses.replace(apart, confined=apart.confined | streams)
            kept_out = view.fills(view.best_effort | streams) + view.inbound_above(plan)
            what = message("best-effort-and-streams-topmost")
            yield view.relief(critical, kept_out), Move("layout", with_them, what)
    elif polluters and plan.clear and plan.on_ddio:
        changed = dataclasses.replace(plan, confined=plan.confined | polluters)
        what = message("confine-best-effort")
        yield view.relief(critical, view.fills(polluters)), Move("layout", changed, what)
    if not plan.clear:
        clear = dataclasses.replace(plan, clear=True)
        expected = view.relief(critical - view.readers, view.inbound_above(plan))
        yield expected, Move("layout", clear, message("keep-clear"))
    elif view.settled:
        everything = open_ways(view.inventory.domain).count
        topmost = plan.on_ddio and plan.confined
        dirty = max(plan.ddio, plan.buffer if topmost else 0)
        free = critical - view.readers - plan.confined
        expected = view.stake(free) * _saved(everything - dirty, everything)
        back = dataclasses.replace(plan, clear=False)
        yield expected, Move("layout", back, message("keep-clear-no-more"))


def _fits_on_ddio(view: View, plan: Plan) -> bool:
    """Return whether the topmost ways suffice for the tenants confined to them.

    With at least two tenants with own ways, the topmost ways are DDIO's.
    """
    if len(plan.own) < 2:
        return True
    asked = (one.ways.min for one in view.inventory.tenants if one.id in view.best_effort)
    least = max(BUFFER_WAYS, view.inventory.domain.min_ways, *asked)
    return plans.open_of_ddio(view.inventory.domain, plan.ddio).count >= least


def _streams(view: View, plan: Plan) -> frozenset[str]:
    """Return critical tenants without I/O that hardly reuse their cache lines."""
    tenants = view.inventory.tenants
    critical = (one for one in tenants if one.priority is not Priority.BE and not one.io)
    return frozenset(one.id for one in critical if _may_be_confined(view, plan, one))


def _least(view: View) -> int:
    """Return the minimum number of ways of a buffer on DDIO's ways.

    If devices write much, the buffer gets another way, so that a way remains without inbound lines.
    """
    busy = view.inbound > view.parameters.threshold_miss_low_per_s
    return BUFFER_WAYS + busy


def _ones(view: View, plan: Plan) -> Iterator[Promise]:
    """Yield moves that confine a tenant with many fills, or release a tenant with high stalls."""
    free = view.ids - plan.confined
    at_stake, fills = view.stake(free), view.fills(free) + view.inbound
    everything = view.fills(view.ids) + view.inbound
    for tenant in sorted(view.inventory.tenants, key=lambda t: (-view.misses(t.id), t.id)):
        misses, stake = view.misses(tenant.id), view.stakes.get(tenant.id, 0.0)
        alone = frozenset((tenant.id,))
        if tenant.id in plan.confined:
            expected = stake - (at_stake * misses / everything if everything else 0.0)
            expected += view.lacks.get(tenant.id, 0.0)
            if view.settled and expected > judge.PAYS:  # otherwise a confinement may have just paid
                yield (
                    expected,
                    Move(tenant.id, plan.without(alone), message("release", tenant=tenant.id)),
                )
        elif _may_be_confined(view, plan, tenant):
            expected = (at_stake - stake) * misses / fills if fills else 0.0
            if expected > judge.PAYS:
                changed = dataclasses.replace(plan, confined=plan.confined | alone)
                code = "confine-to-own" if tenant.id in plan.owners else "confine"
                yield expected, Move(tenant.id, changed, message(code, tenant=tenant.id))


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
            expected = within * max(0.0, _saved(plan.buffer, ways)) + outside * max(
                0.0, _saved(*rest)
            )
            changed = dataclasses.replace(plan, buffer=ways)
            yield expected, Move("layout", changed, message("buffer-size", ways=ways))


def _saved(before: int, after: int) -> float:
    """Return the share of stalls saved by `after` ways instead of `before` ways.

    Misses fall with the square root of a cache's size: A. Hartstein et al., "Cache miss behavior:
    is it sqrt(2)?" (Computing Frontiers 2006).
    """
    return 1.0 - math.sqrt(max(0, before) / after)  # DDIO may have ways closed to tenants


def _ddio(view: View, plan: Plan) -> Iterator[Promise]:
    """Yield two more ways for DDIO while inbound lines miss and I/O tenants are stalled.

    Two ways fewer are also considered. If devices may fill any way, the first move confines
    devices. If hits are not counted, only a trial shows the gain.
    """
    missed, numbers, domain = view.inbound, view.parameters, view.inventory.domain
    if view.sample.inbound_lines_per_s is None or not domain.ddio_resizable:
        return
    readers, ways = view.readers, domain.ways
    if not plan.ddio:
        fits = room.fits(domain, plan.own, numbers.ddio_ways_min)
        if missed > numbers.threshold_miss_low_per_s and fits:
            yield view.relief(view.ids - readers, missed), _ddio_move(plan, numbers.ddio_ways_min)
        return
    more = min(plan.ddio + 2, numbers.ddio_ways_max, ways)
    fits = room.fits(domain, plan.own, more)
    if missed > numbers.threshold_miss_low_per_s and more > plan.ddio and fits:
        yield view.stake(readers) * view.packets_missed, _ddio_move(plan, more)
    if domain.ddio_found == 0:
        back = dataclasses.replace(_ddio_move(plan, 0), what=message("ddio-any-way"))
        yield view.stake(readers), back
    less = max(plan.ddio - 2, numbers.ddio_ways_min)
    if less < plan.ddio and view.settled:
        rest = _saved(ways - plan.ddio, ways - less)
        yield view.stake(view.ids - readers) * rest, _ddio_move(plan, less)


def _ddio_move(plan: Plan, ways: int) -> Move:
    """Return a change of DDIO's ways; a buffer on these ways keeps its own share."""
    buffer = plan.buffer + (ways - plan.ddio if plan.on_ddio else 0)
    changed = dataclasses.replace(plan, ddio=ways, buffer=max(BUFFER_WAYS, buffer))
    return Move("ddio", changed, message("ddio-ways", ways=ways))


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
            what = message("port-dca-on", port=port.address)
            changed = dataclasses.replace(plan, dca_off=left)
            yield view.stake(owners), Move("ddio", changed, what)
        elif (
            owners
            and view.inbound > view.parameters.threshold_miss_low_per_s
            and all(view.hits_save(one) < SUFFERS for one in owners)
        ):
            changed = dataclasses.replace(plan, dca_off=(*plan.dca_off, port.address))
            what = message("port-dca-off", port=port.address)
            yield view.relief(view.ids - owners, view.inbound), Move("ddio", changed, what)


def _lend(view: View, plan: Plan) -> Iterator[Promise]:
    """Yield moves that open guaranteed ways to other tenants; undone if an owner loses.

    The expected gain is therefore all that misses cost the other tenants.
    """
    every = [plan.own] if plan.own else []
    for lent in (*every, *((one,) for one in plan.own if len(plan.own) > 1)):
        owners = frozenset(one.tenant for one in lent)
        changed = dataclasses.replace(
            plan,
            own=tuple(one for one in plan.own if one not in lent),
            lent=(*plan.lent, *lent),
            confined=plan.confined - owners,
        )
        subject = lent[0].tenant if len(lent) == 1 else "layout"
        one = message("lend", tenant=subject)
        what = one if len(lent) == 1 else message("lend-all")
        yield view.stake(view.ids - owners), Move(subject, changed, what)


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
        least = min(one.percent for one in limits)
        what = message("limit-streams", percent=least)
        yield view.relief(critical, view.fills(further)), Move("layout", changed, what)
    if plan.limits and view.settled:  # otherwise the limits may have just paid
        changed = dataclasses.replace(plan, limits=())
        lost = view.stake(frozenset(one.tenant for one in plan.limits))
        yield lost, Move("layout", changed, message("limit-streams-no-more"))


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
    "ddio-ways": _ddio,
    "port-dca": _dca,
    "ports-aside": ports.moves,
    "share-guaranteed-ways": _lend,
    "memory-bandwidth": _throttle,
}
"""Moves by family. An equal promise goes to the family that is named first."""


def has_classes(inventory: DomainInventory, plan: Plan) -> bool:
    """Return whether the hardware has enough classes of service for a plan."""
    placed = plans.layout(inventory, plan)
    hosts = {one.id for one in inventory.tenants if one.kind is TenantKind.HOST}
    own = sum(1 for group in placed.groups if hosts.isdisjoint(group.tenants))
    return own + len(placed.ports) <= inventory.domain.classes - 1
