# SPDX-License-Identifier: Apache-2.0
"""Moves worth a trial, the most promising first."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping, Set

from iat_nova.model import UNLIMITED, Priority, Tenant, message
from iat_nova.strategies.pollute_buffer import masks
from iat_nova.strategies.pollute_buffer.plan import BUFFER_WAYS, Limit, Move, Plan
from iat_nova.strategies.pollute_buffer.trial import SUFFERS
from iat_nova.strategies.pollute_buffer.view import View, saved

Promise = tuple[float, Move]
"""What a move may bring, by what the counters show, and the move."""


def candidates(view: View, plan: Plan, without: Set[str] = frozenset()) -> list[Promise]:
    """Return the moves from a plan, the most promising first, those below `judge.PAYS` included.

    `without`: names of `FAMILIES` to leave out.
    """
    families = (family for name, family in FAMILIES.items() if name not in without)
    found = [promise for family in families for promise in family(view, plan)]
    return sorted(found, key=lambda promise: -promise[0])


def _promise(promise: float, subject: str, plan: Plan, code: str, **values: int) -> Promise:
    return promise, Move(subject, plan, message(code, **values))


def _of_tenant(promise: float, tenant: str, plan: Plan, code: str) -> Promise:
    return promise, Move(tenant, plan, message(code, tenant=tenant), tenant)


def _apart(view: View, plan: Plan) -> Iterator[Promise]:
    """Yield moves that separate best-effort tenants from critical tenants.

    Best-effort tenants and devices share the topmost ways, and critical tenants have the rest.
    Alternatively, critical tenants only keep clear of DDIO's ways.
    """
    critical, best_effort = view.ids - view.best_effort, view.best_effort
    free = critical - frozenset(one.id for one in view.inventory.tenants if one.io)
    inbound = view.inbound if plan.ddio else 0.0
    if _fits_on_ddio(view, plan) and best_effort and not (plan.clear and plan.on_ddio):
        apart = dataclasses.replace(
            plan,
            confined=plan.confined | best_effort,
            buffer=max(plan.buffer, BUFFER_WAYS),
            on_ddio=True,
            clear=True,
        )
        expected = view.relief(critical, view.fills(best_effort) + inbound)
        yield _promise(expected, "layout", apart, "best-effort-topmost")
    if not plan.clear:
        clear = dataclasses.replace(plan, clear=True)
        yield _promise(view.relief(free, inbound), "layout", clear, "keep-clear")
    elif view.settled:
        everything = view.inventory.domain.open_ways.count
        dirty = max(plan.ddio, plan.buffer if plan.on_ddio and plan.confined else 0)
        outside = free - plan.confined
        expected = view.stake(outside) * saved(everything - dirty, everything)
        # In these ways other fills would evict their lines again, as before they left.
        fills = inbound + (view.fills(plan.confined) if plan.on_ddio else 0.0)
        expected -= view.relief(outside, fills)
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
    return masks.open_of_ddio(view.inventory.domain, plan).count >= least


def _ones(view: View, plan: Plan) -> Iterator[Promise]:
    """Yield moves that confine a tenant with many fills, or release a tenant with high stalls.

    The stack is never confined: packets of all tenants behind it would wait for a second or more.
    """
    free, cut_off = view.ids - plan.confined, plan.owners - plan.reaching
    for tenant in sorted(view.inventory.tenants, key=lambda t: (-view.misses(t.id), t.id)):
        one, alone, misses = tenant.id, frozenset((tenant.id,)), view.misses(tenant.id)
        if one in plan.confined:
            stake, lack = view.stakes.get(one, (0.0, 0.0))
            if lack or tenant.priority is not Priority.BE:  # else its confinement has paid
                expected = stake + lack - view.relief(free, misses)
                yield _of_tenant(expected, one, plan.without(alone), "release")
        elif tenant.priority is Priority.STACK or one in cut_off or one not in view.looks:
            continue
        elif view.looks[one].streams or tenant.priority is Priority.BE:
            changed = dataclasses.replace(plan, confined=plan.confined | alone)
            code = "confine-to-own" if one in plan.owners else "confine"
            yield _of_tenant(view.relief(free - alone, misses), one, changed, code)


def _size(view: View, plan: Plan) -> Iterator[Promise]:
    """Yield a larger buffer for stalled tenants inside, and a smaller buffer for those outside.

    Tenants outside may fill a larger buffer, too. A smaller buffer costs the tenants inside.
    """
    if not plan.confined - plan.owners or (plan.on_ddio and len(plan.own) > 1):
        return
    shared = masks.shared(view.inventory.domain, plan).count
    within, outside = view.stake(plan.confined), view.stake(view.ids - plan.confined)
    for ways in (plan.buffer + BUFFER_WAYS, plan.buffer - view.settled):
        if ways != plan.buffer and view.inventory.domain.min_ways <= ways < shared - 1:
            rest = shared - plan.buffer, shared - ways
            expected = within * saved(plan.buffer, ways) + outside * max(0.0, saved(*rest))
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
    if not plan.ddio:
        if view.busy and masks.fits(domain, plan.own, numbers.ddio_ways_min):
            yield _ddio_move(view.relief(others, view.inbound), plan, numbers.ddio_ways_min)
        return
    more = min(plan.ddio + 2, numbers.ddio_ways_max, ways)
    if view.busy and more > plan.ddio and masks.fits(domain, plan.own, more):
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


def _aside(view: View, plan: Plan) -> Iterator[Promise]:
    """Yield moves that put all ports or a single port aside, and moves that bring a port back.

    DDIO's ways hold packets until critical tenants read the packets. A device whose owner gains
    nothing from the cache, such as a drive with large blocks, evicts packets there. With Intel I/O
    RDT the device's port may write into one way below DDIO's ways (`masks.aside`) instead, where a
    pollute buffer may lie as well.

    Lines of other ports then have DDIO's ways alone, as if DDIO's ways had grown (``ddio-ways``).
    """
    domain = view.inventory.domain
    if not domain.device_ports or not masks.aside(domain, plan):
        return
    owners = {port.id: view.inventory.behind(port.id) for port in domain.device_ports}
    own = [port.id for port in domain.device_ports if view.inventory.owns_all(port.devices)]
    inside = [port for port in own if port not in plan.aside and _may(view, owners[port])]
    choices = [frozenset(inside)] if inside else []
    choices += [frozenset((port,)) for port in inside if len(inside) > 1]
    for chosen in choices if view.busy else ():
        whose = frozenset(one.id for port in chosen for one in owners[port])
        changed = dataclasses.replace(plan, aside=plan.aside | chosen)
        left = view.brought(owners.keys() - plan.aside - chosen, owners.keys() - plan.aside)
        expected = view.stake(view.readers - whose) * view.packets_missed * saved(left, 1.0)
        ports = tuple(sorted(chosen))
        yield expected, Move("ddio", changed, message("ports-aside", ports=ports), ports=ports)
    for port in sorted(plan.aside & owners.keys() if view.settled else ()):
        changed = dataclasses.replace(plan, aside=plan.aside - {port})
        expected = view.stake(frozenset(one.id for one in owners[port]))
        yield expected, Move(port, changed, message("port-back", port=port), ports=(port,))


def _may(view: View, owners: tuple[Tenant, ...]) -> bool:
    """Return whether a port may be put aside: its owners are best effort, or gain little from hits.

    A port without an owner belongs to the host.
    """
    return bool(owners) and all(
        one.priority is Priority.BE or (not one.io and view.hits_save(one.id) < SUFFERS)
        for one in owners
    )


def _dca(view: View, plan: Plan) -> Iterator[Promise]:
    """Yield moves that keep a device's writes out of the LLC, or admit them again.

    Only ports that the operator allows (`[iat] dca_ports`) are switched. LLC hits must save the
    owner little, because hits may be on lines that the device wrote. Inbound lines are not counted
    by port, so the expected gain assumes that all inbound lines are the port's.
    """
    for port in view.inventory.domain.dca_ports:
        owners = frozenset(one.id for one in view.inventory.below(port))
        if port.address in plan.dca_off:
            left = tuple(one for one in plan.dca_off if one != port.address)
            expected, code = view.stake(owners), "port-dca-on"
        elif not view.inventory.owns_all(port.devices):
            continue
        elif owners and view.busy and all(view.hits_save(one) < SUFFERS for one in owners):
            left = (*plan.dca_off, port.address)
            expected, code = view.relief(view.ids - owners, view.inbound), "port-dca-off"
        else:
            continue
        changed = dataclasses.replace(plan, dca_off=left)
        what = message(code, port=port.address)
        yield expected, Move("ddio", changed, what, ports=(port.address,))


def _lend(view: View, plan: Plan) -> Iterator[Promise]:
    """Yield moves that open guaranteed ways to other tenants; undone if an owner loses speed.

    An owner out of reach of the shared ways also gains, because the move opens the shared ways.
    """
    domain, single = view.inventory.domain, [(one,) for one in plan.own]
    for lent in [plan.own, *single] if len(single) > 1 else single:
        owners = frozenset(one.tenant for one in lent)
        changed = dataclasses.replace(
            plan,
            own=tuple(one for one in plan.own if one not in lent),
            lenders=(*plan.lenders, *(one.tenant for one in lent)),
            confined=plan.confined - owners,
        )
        ways, more = masks.shared(domain, plan).count, masks.shared(domain, changed).count
        expected = view.stake(view.ids - owners) * saved(ways, more)
        for one in lent:
            if one.tenant not in plan.reaching:
                stake = view.stake(frozenset((one.tenant,)))
                expected += stake * max(0.0, saved(one.ways, more))
        if len(lent) == 1:
            yield _of_tenant(expected, one.tenant, changed, "lend")
        else:
            yield _promise(expected, "layout", changed, "lend-all")


def _throttle(view: View, plan: Plan) -> Iterator[Promise]:
    """Yield a move that lowers the memory bandwidth of best-effort streams, or lifts all limits.

    A stream's misses do not depend on ways, but misses of other tenants wait behind the stream. If
    memory does not limit the others, a trial shows no gain.
    """
    limits, kept_out = [], 0.0
    for tenant in view.inventory.tenants:
        seen = view.looks.get(tenant.id)
        if tenant.priority is Priority.BE and seen is not None and seen.streams:
            percent, share = _lowered(view, plan, tenant)
            kept_out += share * view.misses(tenant.id)
            if percent < UNLIMITED:
                limits.append(Limit(tenant.id, percent))
    if kept_out:
        changed = dataclasses.replace(plan, limits=tuple(limits))
        expected = view.relief(view.ids - view.best_effort, kept_out)
        least = min(one.percent for one in limits)
        yield _promise(expected, "layout", changed, "limit-streams", percent=least)
    if plan.limits and view.settled:  # otherwise the limits may have just paid
        changed = dataclasses.replace(plan, limits=())
        lost = view.stake(frozenset(one.tenant for one in plan.limits))
        yield _promise(lost, "layout", changed, "limit-streams-no-more")


def _lowered(view: View, plan: Plan, tenant: Tenant) -> tuple[int, float]:
    """Return a tenant's next lower memory bandwidth in percent, and the share of fills kept out.

    The next lower value is the share that best effort keeps of the present one, rounded up to the
    hardware's steps, but one step less at least. It falls further until the tenant would feel the
    limit, but stays above the tenant's minimum. If the tenant would not feel even the minimum, the
    present value is returned.
    """
    control, now = view.inventory.domain.bandwidth, plan.bandwidth_of(tenant.id)
    if control is None or control.percents is None:
        return UNLIMITED, 0.0
    lowest, step = control.percents
    least = max(lowest, -(-tenant.bandwidth_min // step) * step)
    used, percent = min(now, control.felt_below(view.traffic(tenant.id))), now
    while percent > least:
        kept = math.ceil(view.parameters.best_effort_min * percent / step) * step
        percent = max(least, min(kept, (percent - 1) // step * step))
        if percent < used:
            return percent, 1.0 - percent / used
    return now, 0.0


FAMILIES: Mapping[str, Callable[[View, Plan], Iterator[Promise]]] = {
    "topmost-ways": _apart,
    "confine-single": _ones,
    "buffer-size": _size,
    "ports-aside": _aside,  # takes no ways from tenants, as more ways of DDIO's do
    "ddio-ways": _ddio,
    "port-dca": _dca,
    "share-guaranteed-ways": _lend,
    "memory-bandwidth": _throttle,
}
"""Moves by family. An equal promise goes to the family that is named first."""
