# SPDX-License-Identifier: Apache-2.0
"""Readers of metrics: each yields samples with values for its labels.

The number of series is bounded: at most `TENANTS_MAX` tenants a cache domain (the switch and
performance-critical tenants first), at most `REASONS_MAX` reasons, both cut to a length. An unknown
value has no sample.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar

from iat_nova.model import (
    DDIO,
    Action,
    DomainInventory,
    Priority,
    Tenant,
    WayMask,
    own_warnings,
    verbatim,
)
from iat_nova.model.reasons import Code, Reason, about
from iat_nova.report import escape, pressures, sentences
from iat_nova.store.observed import Closed, Observed
from iat_nova.store.records import Iteration, Status
from iat_nova.strategies.outlook import Outlook

TENANTS_MAX = 128
NAME_MAX = 64  # columns of a tenant's name
REASONS_MAX = 8
REASON_MAX = 200  # columns of a reason

Labels = tuple[str, ...]  # their values
Sample = tuple[Labels, float]
Item = TypeVar("Item")
Value = Callable[[Item], float | None]  # None: not known
Read = Callable[[Observed], Iterator[Sample]]


def _of_each(
    items: Callable[[Observed], Iterable[tuple[Labels, Item]]],
) -> Callable[[Value[Item]], Read]:
    """Return a function that makes the reader of a value of each item."""

    def reading(value: Value[Item]) -> Read:
        def read(seen: Observed) -> Iterator[Sample]:
            for labels, item in items(seen):
                found = value(item)
                if found is not None:
                    yield labels, found

        return read

    return reading


def _one(item: Item | None) -> Iterable[tuple[Labels, Item]]:
    return () if item is None else (((), item),)


def _by_domain(items: Mapping[int, Item]) -> Iterator[tuple[Labels, Item]]:
    return (((str(number),), item) for number, item in sorted(items.items()))


status = _of_each(lambda seen: _one(seen.status))
placement = _of_each(lambda seen: _one(seen.status.placement if seen.status else None))
switch = _of_each(lambda seen: _one(seen.switch))
pmd = _of_each(
    lambda seen: (
        ((str(one.cpu),), one) for one in (seen.switch.pmd_threads if seen.switch else ())
    )
)
domain = _of_each(lambda seen: _by_domain({n: one.domain for n, one in seen.inventories.items()}))
latest = _of_each(lambda seen: _by_domain(seen.latest))
totals = _of_each(lambda seen: _by_domain(seen.totals))
port = _of_each(
    lambda seen: (
        ((str(number), name), rates)
        for number, iteration in sorted(seen.latest.items())
        for name, rates in iteration.sample.ports.items()
    )
)


def agent_info(seen: Observed) -> Iterator[Sample]:
    """Yield the agent's version, its strategies and the mode set at its start."""
    status = seen.status
    if status is not None:
        told = any(one.code == Code.OBSERVE_CONFIGURED for one in status.reasons)
        shadow = status.shadow
        names = ("", "") if shadow is None else (shadow.strategy, shadow.policy or "")
        texts = (escape.plain(text) for text in (status.strategy, *names))
        yield (status.version, *texts, "observe" if told else "enforce"), 1


def enforcing(status: Status) -> bool:
    """Tell whether decisions are written to the hardware."""
    return status.mode == "enforce"


def paused(status: Status) -> bool:
    """Tell whether an operator has paused decisions."""
    return status.paused_until_s is not None


def degraded(status: Status) -> int:
    """Count the present problems that do not stop the agent."""
    return len(status.problems)


def looked(seen: Observed) -> Iterator[Sample]:
    """Yield the time of the last reading of the host; no sample before the first."""
    if seen.looked_s is not None:
        yield (), seen.looked_s


def reasons(seen: Observed) -> Iterator[Sample]:
    """Yield why the agent only observes, is paused, drifts or is degraded.

    Equal texts come once. A problem that repeats a reason for observing is left out.
    """
    status = seen.status
    if status is None:
        return
    told = [("observe", reason) for reason in status.reasons]
    if status.paused_reason:
        told.append(("paused", Reason(Code.PAUSED, verbatim(status.paused_reason))))
    known = {reason.code for reason in status.reasons}
    told += [(about(one.code), one) for one in status.problems if one.code not in known]
    short = [
        (of, str(one.code), escape.cut(escape.plain(sentences.text(one.message)), REASON_MAX))
        for of, one in told
    ]
    for labels in list(dict.fromkeys(short))[:REASONS_MAX]:
        yield labels, 1


def codes(seen: Observed) -> Iterator[Sample]:
    """Yield 1 for each code of a present reason, 0 for all other codes."""
    status = seen.status
    if status is None:
        return
    told = (*status.reasons, *status.problems, *status.notices)
    active = {reason.code for reason in told}
    if status.paused_until_s is not None:
        active.add(Code.PAUSED)
    for code in Code:
        yield (about(code), code.value), code in active


def states(seen: Observed) -> Iterator[Sample]:
    """Yield 1 for the present state of each cache domain, 0 for all other states."""
    for number, iteration in sorted(seen.latest.items()):
        phase = iteration.decision.phase
        declared = seen.status.phases if seen.status else ()
        for one in dict.fromkeys((*declared, phase)):
            yield (str(number), escape.plain(one)), one == phase


def transitions(seen: Observed) -> Iterator[Sample]:
    """Yield the count of each numbered transition."""
    for number, totals in sorted(seen.totals.items()):
        declared = seen.status.rules if seen.status else ()
        for rule in sorted({*declared, *totals.transitions}):
            labels = (str(number), str(rule[0]), escape.plain(rule[1]), escape.plain(rule[2]))
            yield labels, totals.transitions.get(rule, 0)


def steps(seen: Observed) -> Iterator[Sample]:
    """Yield the count of each action."""
    for number, totals in sorted(seen.totals.items()):
        for action in Action:
            yield (str(number), action.value), totals.steps.get(action, 0)


def phases(seen: Observed) -> Iterator[Sample]:
    """Yield the duration of each phase of the latest iteration, in seconds."""
    for number, iteration in sorted(seen.latest.items()):
        for phase, spent_us in iteration.timings_us.items():
            yield (str(number), phase), spent_us / 1e6


def events(seen: Observed) -> Iterator[Sample]:
    """Yield the number of events by severity."""
    for severity in ("info", "warning", "error"):
        yield (severity,), seen.events.get(severity, 0)


def closed_connections(seen: Observed) -> Iterator[Sample]:
    """Yield the number of connections closed before their answer was sent, by reason."""
    for why in Closed:
        yield (why.value,), seen.closed.get(why, 0)


def tenants(seen: Observed) -> Iterator[Sample]:
    """Yield the number of tenants by priority."""
    for number, inventory in sorted(seen.inventories.items()):
        for priority in Priority:
            of_it = [tenant for tenant in inventory.tenants if tenant.priority is priority]
            yield (str(number), priority.value), len(of_it)


def below_ways(seen: Observed) -> Iterator[Sample]:
    """Yield the number of tenants with fewer ways than their minimum, by priority.

    The ways read back count, else the decided ways. A tenant without ways is below its minimum.
    """
    for number in sorted(seen.inventories.keys() & seen.latest.keys()):
        tenants, iteration = seen.inventories[number].tenants, seen.latest[number]
        below = [one for one in tenants if _ways_now(iteration, one) < one.ways.min]
        for priority in Priority:
            count = sum(tenant.priority is priority for tenant in below)
            yield (str(number), priority.value), count


def warned(seen: Observed) -> Iterator[Sample]:
    """Yield the number of tenants with a warning of their own, by the code of the warning."""
    found = {(name, said.code) for name, said in own_warnings(seen.inventories.values())}
    for code, count in sorted(Counter(code for _, code in found).items()):
        yield (code,), count


def _ways_now(iteration: Iteration, tenant: Tenant) -> int:
    found = effective(iteration, tenant.id) or mask(iteration, tenant.id)
    return 0 if found is None else found.count


def omitted(seen: Observed) -> Iterator[Sample]:
    """Yield the number of tenants without series of their own."""
    for number, inventory in sorted(seen.inventories.items()):
        yield (str(number),), max(0, len(inventory.tenants) - TENANTS_MAX)


def shown(seen: Observed) -> Iterator[tuple[int, Tenant, tuple[str, ...]]]:
    """Yield the tenants that have series, by cache domain, with their labels.

    A restarted guest keeps its series: the label is its UUID, not its run. If an inventory briefly
    holds two runs of a guest, the first run stands for both.
    """
    order = tuple(Priority)
    for number, inventory in sorted(seen.inventories.items()):
        taken = set()
        ranked = sorted(inventory.tenants, key=lambda tenant: order.index(tenant.priority))
        for tenant in ranked[:TENANTS_MAX]:
            ident = escape.plain(tenant.uuid or tenant.id)
            if ident not in taken:
                taken.add(ident)
                name = escape.cut(escape.plain(tenant.name), NAME_MAX)
                yield number, tenant, (str(number), ident, name)


def tenant_info(seen: Observed) -> Iterator[Sample]:
    """Yield a tenant's properties as labels; the value is always 1."""
    for _, tenant, labels in shown(seen):
        more = (tenant.kind, tenant.priority, tenant.class_name, tenant.flavor or "")
        texts = (escape.cut(escape.plain(str(text)), NAME_MAX) for text in more)
        yield (*labels, *texts, str(tenant.io).lower()), 1


def port_ways(seen: Observed) -> Iterator[Sample]:
    """Yield how many ways of its own each such port has: as read back, else as decided."""
    for number, iteration in sorted(seen.latest.items()):
        for port, decided in iteration.decision.layout.port_masks.items():
            yield (str(number), port), (effective(iteration, port) or decided).count


def shadow_moved(seen: Observed) -> Iterator[Sample]:
    """Yield, by cache domain, the total of masks that the shadow strategy would have moved."""
    shadow = seen.status.shadow if seen.status is not None else None
    for number, domain in sorted(shadow.domains.items()) if shadow is not None else ():
        yield (str(number),), domain.moved


def shadow_ways(seen: Observed) -> Iterator[Sample]:
    """Yield the number of ways the shadow strategy would give a tenant."""
    shadow = seen.status.shadow if seen.status is not None else None
    known = shadow.domains if shadow is not None else {}
    for number, tenant, labels in shown(seen):
        mask = known[number].layout.mask_of(tenant.id) if number in known else None
        if mask is not None:
            yield labels, mask.count


def held(seen: Observed) -> Iterator[Sample]:
    """Yield the number of ways at which an operator holds a tenant; 0 without a hold."""
    for _, tenant, labels in shown(seen):
        yield labels, tenant.ways.min if tenant.ways.held else 0


def _latest_of_tenants(seen: Observed) -> Iterator[tuple[Labels, tuple[Iteration, str]]]:
    for number, tenant, labels in shown(seen):
        if number in seen.latest:
            yield labels, (seen.latest[number], tenant.id)


_of_tenant = _of_each(_latest_of_tenants)
rate = _of_each(
    lambda seen: (
        (labels, iteration.sample.tenants[tenant])
        for labels, (iteration, tenant) in _latest_of_tenants(seen)
        if tenant in iteration.sample.tenants
    )
)


def tenant(value: Callable[[Iteration, str], float | None]) -> Read:
    """Read a value of each tenant in its domain's latest iteration."""
    return _of_tenant(lambda item: value(*item))


def mask(iteration: Iteration, tenant: str) -> WayMask | None:
    """Return the decided mask of a tenant; None if the layout has none for it."""
    return iteration.decision.layout.mask_of(tenant)


def ways(iteration: Iteration, tenant: str) -> int | None:
    """Count the ways decided for a tenant; None without a decided mask."""
    decided = mask(iteration, tenant)
    return None if decided is None else decided.count


def bandwidth(iteration: Iteration, tenant: str) -> int:
    """Return the memory bandwidth that a tenant may use, in percent, as decided."""
    return iteration.decision.layout.bandwidth_of(tenant)


def ddio_effective(iteration: Iteration) -> WayMask | None:
    """Return DDIO's mask as read back; None while nothing is written."""
    return effective(iteration, DDIO)


def effective(iteration: Iteration, subject: str) -> WayMask | None:
    """Return the mask that was read back; None while nothing is written."""
    return None if iteration.effective is None else iteration.effective.get(subject)


def overlap(iteration: Iteration, tenant: str) -> float | None:
    """Count the ways that a tenant shares with devices: as read back, else as decided.

    None without a mask.
    """
    its = effective(iteration, tenant) or mask(iteration, tenant)
    return None if its is None else (its & iteration.inbound).bit_count()


def _by_tenant(
    seen: Observed, find: Callable[[DomainInventory, Iteration], Mapping[str, Item]]
) -> Iterator[tuple[tuple[str, ...], Item]]:
    """Yield the labels of each tenant for which `find` has a value, and the value."""
    found = {
        number: find(seen.inventories[number], seen.latest[number])
        for number in seen.inventories.keys() & seen.latest.keys()
    }
    for number, tenant, labels in shown(seen):
        if tenant.id in found.get(number, {}):
            yield labels, found[number][tenant.id]


def stalled(seen: Observed) -> Iterator[Sample]:
    """Yield the share of each tenant's cycles that LLC misses stall."""
    for labels, loss in _by_tenant(seen, pressures.losses):
        yield labels, loss.stalled


def lost(seen: Observed) -> Iterator[Sample]:
    """Yield the bounds of what other tenants cost a tenant; no sample for an unknown bound."""
    for labels, loss in _by_tenant(seen, pressures.losses):
        yield (*labels, "least"), loss.least
        if loss.likely is not None:
            yield (*labels, "likely"), loss.likely
        yield (*labels, "most"), loss.most


def filled(seen: Observed) -> Iterator[Sample]:
    """Yield the share of the LLC that each tenant fills, and the source of the number."""
    for labels, fill in _by_tenant(seen, pressures.fills):
        yield (*labels, "monitored" if fill.monitored else "estimated"), fill.share


def exhausted(seen: Observed) -> Iterator[Sample]:
    """Yield whether the strategy has no move left; no sample if not known."""
    for number, iteration in sorted(seen.latest.items()):
        known = pressures.exhausted(iteration)
        if known is not None:
            yield (str(number),), known


def outlooks(seen: Observed) -> Iterator[Sample]:
    """Yield 1 for the present outlook of each cache domain, 0 for all other codes."""
    for number, iteration in sorted(seen.latest.items()):
        for code in Outlook:
            yield (str(number), code.value), code == iteration.outlook


def worth(seen: Observed) -> Iterator[Sample]:
    """Yield the estimated gain by enforcing of each cache domain; nothing while enforcing."""
    for number in sorted(seen.inventories.keys() & seen.latest.keys()):
        found = pressures.worth(seen.inventories[number], seen.latest[number])
        for bound in ("likely", "most") if found is not None else ():
            yield (str(number), bound), getattr(found, bound)


def newcomers(seen: Observed) -> Iterator[Sample]:
    """Yield the ways that a newcomer of each priority would find; no sample if not known."""
    for number in sorted(seen.inventories.keys() & seen.latest.keys()):
        found = pressures.newcomers(seen.inventories[number], seen.latest[number])
        for priority, ways in found.items():
            yield (str(number), priority.value), ways
