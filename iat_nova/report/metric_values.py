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
from iat_nova.store.observed import Closed, Observed, Totals
from iat_nova.store.records import Iteration, ShadowDomain, Status
from iat_nova.strategies.outlook import Outlook
from iat_nova.strategies.pressure import CycleLoss, Fill

TENANTS_MAX = 128
NAME_MAX = 64  # columns of a tenant's name
REASONS_MAX = 8
REASON_MAX = 200  # columns of a reason

Labels = tuple[str, ...]  # their values
Sample = tuple[Labels, float]
Item = TypeVar("Item")
# None: not known; of a mapping each value is a sample, with the key as its last label
Value = Callable[[Item], float | Mapping[str, float] | None]
Read = Callable[[Observed], Iterator[Sample]]


def _of_each(
    items: Callable[[Observed], Iterable[tuple[Labels, Item]]],
) -> Callable[[Value[Item]], Read]:
    """Return a function that makes the reader of a value of each item."""

    def reading(value: Value[Item]) -> Read:
        def read(seen: Observed) -> Iterator[Sample]:
            for labels, item in items(seen):
                found = value(item)
                if isinstance(found, Mapping):
                    yield from (((*labels, label), one) for label, one in found.items())
                elif found is not None:
                    yield labels, found

        return read

    return reading


def _one(item: Item | None) -> Iterable[tuple[Labels, Item]]:
    return () if item is None else (((), item),)


def _by_domain(items: Mapping[int, Item]) -> Iterator[tuple[Labels, Item]]:
    return (((str(number),), item) for number, item in sorted(items.items()))


everything = _of_each(_one)
status = _of_each(lambda seen: _one(seen.status))
placement = _of_each(lambda seen: _one(seen.status.placement if seen.status else None))
switch = _of_each(lambda seen: _one(seen.switch))
pmd = _of_each(
    lambda seen: (
        ((str(one.cpu),), one) for one in (seen.switch.pmd_threads if seen.switch else ())
    )
)
inventory = _of_each(lambda seen: _by_domain(seen.inventories))
latest = _of_each(lambda seen: _by_domain(seen.latest))
totals = _of_each(lambda seen: _by_domain(seen.totals))
shadow = _of_each(lambda seen: _by_domain(_shadows(seen)))
_both = _of_each(lambda seen: _by_domain(_complete(seen)))
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


def steps(totals: Totals) -> Mapping[str, int]:
    """Count each action."""
    return {action.value: totals.steps.get(action, 0) for action in Action}


def phases(iteration: Iteration) -> Mapping[str, float]:
    """Return the duration of each phase, in seconds."""
    return {phase: spent_us / 1e6 for phase, spent_us in iteration.timings_us.items()}


def events(seen: Observed) -> Mapping[str, int]:
    """Count events by severity."""
    return {severity: seen.events.get(severity, 0) for severity in ("info", "warning", "error")}


def closed_connections(seen: Observed) -> Mapping[str, int]:
    """Count connections closed without the metrics, by reason."""
    return {why.value: seen.closed.get(why, 0) for why in Closed}


def tenants(inventory: DomainInventory) -> Mapping[str, int]:
    """Count tenants by priority."""
    return _by_priority(inventory.tenants)


def below_ways(inventory: DomainInventory, iteration: Iteration) -> Mapping[str, int]:
    """Count tenants with fewer ways than their minimum, by priority.

    The ways read back count, else the decided ways. A tenant without ways is below its minimum.
    """
    return _by_priority(
        tenant
        for tenant in inventory.tenants
        if (_mask_now(iteration, tenant.id) or WayMask(0)).count < tenant.ways.min
    )


def warned(seen: Observed) -> Mapping[str, int]:
    """Count tenants with a warning of their own, by the code of the warning."""
    found = {(name, said.code) for name, said in own_warnings(seen.inventories.values())}
    return dict(sorted(Counter(code for _, code in found).items()))


def _by_priority(tenants: Iterable[Tenant]) -> Mapping[str, int]:
    counts = Counter(tenant.priority for tenant in tenants)
    return {priority.value: counts[priority] for priority in Priority}


def omitted(inventory: DomainInventory) -> int:
    """Count tenants without series of their own."""
    return max(0, len(inventory.tenants) - TENANTS_MAX)


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


def port_ways(iteration: Iteration) -> Mapping[str, int]:
    """Count the ways of each port that has ways of its own: as read back, else as decided."""
    return {
        port: (effective(iteration, port) or decided).count
        for port, decided in iteration.decision.layout.port_masks.items()
    }


def _shadows(seen: Observed) -> Mapping[int, ShadowDomain]:
    return seen.status.shadow.domains if seen.status and seen.status.shadow else {}


def shadow_ways(seen: Observed) -> Iterator[Sample]:
    """Yield the number of ways the shadow strategy would give a tenant."""
    known = _shadows(seen)
    for number, tenant, labels in shown(seen):
        mask = known[number].layout.mask_of(tenant.id) if number in known else None
        if mask is not None:
            yield labels, mask.count


def held(seen: Observed) -> Iterator[Sample]:
    """Yield the number of ways at which an operator holds a tenant; 0 without a hold."""
    for _, tenant, labels in shown(seen):
        yield labels, tenant.ways.min if tenant.ways.held else 0


_of_tenant = _of_each(
    lambda seen: (
        (labels, (seen.latest[number], tenant.id))
        for number, tenant, labels in shown(seen)
        if number in seen.latest
    )
)


def tenant(value: Callable[[Iteration, str], float | None]) -> Read:
    """Return a reader of one value per tenant, taken from the latest iteration of its domain."""
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
    its = _mask_now(iteration, tenant)
    return None if its is None else (its & iteration.inbound).bit_count()


def _mask_now(iteration: Iteration, tenant: str) -> WayMask | None:
    return effective(iteration, tenant) or mask(iteration, tenant)


def _complete(seen: Observed) -> Mapping[int, tuple[DomainInventory, Iteration]]:
    """Return inventory and latest iteration of the cache domains that have both."""
    known = seen.inventories.keys() & seen.latest.keys()
    return {number: (seen.inventories[number], seen.latest[number]) for number in known}


def domain(
    value: Callable[[DomainInventory, Iteration], float | Mapping[str, float] | None],
) -> Read:
    """Return a reader of one value per cache domain, taken from its latest iteration."""
    return _both(lambda item: value(*item))


def _by_tenant(
    seen: Observed, find: Callable[[DomainInventory, Iteration], Mapping[str, Item]]
) -> Iterator[tuple[Labels, Item]]:
    """Yield a tenant's labels and the tenant's value from `find`; skip tenants without a value."""
    found = {number: find(*both) for number, both in _complete(seen).items()}
    for number, tenant, labels in shown(seen):
        if tenant.id in found.get(number, {}):
            yield labels, found[number][tenant.id]


rate = _of_each(lambda seen: _by_tenant(seen, lambda _, latest: latest.sample.tenants))
loss = _of_each(lambda seen: _by_tenant(seen, pressures.losses))
fill = _of_each(lambda seen: _by_tenant(seen, pressures.fills))


def bounds(loss: CycleLoss) -> Mapping[str, float]:
    """Return the known bounds of what other tenants cost a tenant."""
    found = {"least": loss.least, "likely": loss.likely, "most": loss.most}
    return {bound: share for bound, share in found.items() if share is not None}


def filled(fill: Fill) -> Mapping[str, float]:
    """Return the share of the LLC that a tenant fills, by the source of the number."""
    return {"monitored" if fill.monitored else "estimated": fill.share}


exhausted = pressures.exhausted


def outlooks(iteration: Iteration) -> Mapping[str, bool]:
    """Return 1 for the present outlook, 0 for all other codes."""
    return {code.value: code == iteration.outlook for code in Outlook}


def worth(inventory: DomainInventory, iteration: Iteration) -> Mapping[str, float]:
    """Return the estimated gain by enforcing; nothing while enforcing."""
    found = pressures.worth(inventory, iteration)
    return {} if found is None else {"likely": found.likely, "most": found.most}


def newcomers(inventory: DomainInventory, iteration: Iteration) -> Mapping[str, float]:
    """Return the ways that a newcomer of each priority would find; empty if not known."""
    found = pressures.newcomers(inventory, iteration)
    return {priority.value: ways for priority, ways in found.items()}
