# SPDX-License-Identifier: Apache-2.0
"""Every metric: its name, meaning and labels, and how it is read from what was observed.

One table, `METRICS`: what is served and what the documentation lists is the same. Names follow
Prometheus: units in them, ``_total`` for counters. The number of series is bounded: at most
`TENANTS_MAX` tenants a cache domain (the switch and performance-critical tenants first), at most
`REASONS_MAX` reasons, both cut to a length. A value that is not known has no sample.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator

from iat_nova.control.fsm import NUMBERED
from iat_nova.control.state import DDIO
from iat_nova.model import (
    Action,
    CacheDomain,
    FsmState,
    Priority,
    Rates,
    Tenant,
    WayMask,
)
from iat_nova.records import Iteration
from iat_nova.report import escape
from iat_nova.report.observed import Observed, Totals

TENANTS_MAX = 128
NAME_MAX = 64  # columns of a tenant's name
REASONS_MAX = 8
REASON_MAX = 200  # columns of a reason

Sample = tuple[tuple[str, ...], float]  # the labels' values, the value


@dataclasses.dataclass(frozen=True, slots=True)
class Metric:
    """One metric. `read` yields a sample for each combination of the labels' values."""

    name: str
    kind: str  # gauge or counter
    help: str
    labels: tuple[str, ...]
    read: Callable[[Observed], Iterable[Sample]]


# ---------------------------------------------------------------- ways of reading


def _status(value: Callable[[Observed], float]) -> Callable[[Observed], Iterator[Sample]]:
    """Read one value without labels; nothing before the agent's first status."""

    def read(seen: Observed) -> Iterator[Sample]:
        if seen.status is not None:
            yield (), value(seen)

    return read


def _reasons(seen: Observed) -> Iterator[Sample]:
    """Yield why the agent only observes, is paused or degraded, the same text once."""
    status = seen.status
    if status is None:
        return
    told = [("observe", status.reason), ("paused", status.paused_reason)]
    told += [("degraded", text) for text in status.degraded]
    short = [(about, escape.cut(escape.plain(text), REASON_MAX)) for about, text in told if text]
    for labels in list(dict.fromkeys(short))[:REASONS_MAX]:
        yield labels, 1


def _domain(
    value: Callable[[CacheDomain], float | None],
) -> Callable[[Observed], Iterator[Sample]]:
    """Read a value of each cache domain."""

    def read(seen: Observed) -> Iterator[Sample]:
        for number, inventory in sorted(seen.inventories.items()):
            found = value(inventory.domain)
            if found is not None:
                yield (str(number),), found

    return read


def _latest(
    value: Callable[[Iteration], float | None],
) -> Callable[[Observed], Iterator[Sample]]:
    """Read a value of each cache domain's latest iteration."""

    def read(seen: Observed) -> Iterator[Sample]:
        for number, iteration in sorted(seen.latest.items()):
            found = value(iteration)
            if found is not None:
                yield (str(number),), found

    return read


def _totals(value: Callable[[Totals], float]) -> Callable[[Observed], Iterator[Sample]]:
    """Read a total of each cache domain."""

    def read(seen: Observed) -> Iterator[Sample]:
        for number, totals in sorted(seen.totals.items()):
            yield (str(number),), value(totals)

    return read


def _states(seen: Observed) -> Iterator[Sample]:
    for number, iteration in sorted(seen.latest.items()):
        for state in FsmState:
            yield (str(number), state.value), iteration.decision.state_after is state


def _transitions(seen: Observed) -> Iterator[Sample]:
    for number, totals in sorted(seen.totals.items()):
        for transition, rule in sorted(NUMBERED.items()):
            labels = (str(number), str(transition), rule.source.value, rule.target.value)
            yield labels, totals.transitions.get(transition, 0)


def _steps(seen: Observed) -> Iterator[Sample]:
    for number, totals in sorted(seen.totals.items()):
        for action in Action:
            yield (str(number), action.value), totals.steps.get(action, 0)


def _phases(seen: Observed) -> Iterator[Sample]:
    for number, iteration in sorted(seen.latest.items()):
        for phase, spent_us in iteration.timings_us.items():
            yield (str(number), phase), spent_us / 1e6


def _events(seen: Observed) -> Iterator[Sample]:
    for severity in ("info", "warning", "error"):
        yield (severity,), seen.events.get(severity, 0)


def _tenants(seen: Observed) -> Iterator[Sample]:
    for number, inventory in sorted(seen.inventories.items()):
        for priority in Priority:
            of_it = [tenant for tenant in inventory.tenants if tenant.priority is priority]
            yield (str(number), priority.value), len(of_it)


def _omitted(seen: Observed) -> Iterator[Sample]:
    for number, inventory in sorted(seen.inventories.items()):
        yield (str(number),), max(0, len(inventory.tenants) - TENANTS_MAX)


def _shown(seen: Observed) -> Iterator[tuple[int, Tenant, tuple[str, ...]]]:
    """Yield the tenants that have series, by cache domain, with their labels.

    A guest that was restarted keeps its series: its UUID is the label, not its run. Should a
    picture hold two runs of it for a moment, the first stands for both.
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


def _tenant_info(seen: Observed) -> Iterator[Sample]:
    for _, tenant, labels in _shown(seen):
        more = (tenant.kind, tenant.priority, tenant.class_name, tenant.flavor or "")
        texts = (escape.cut(escape.plain(str(text)), NAME_MAX) for text in more)
        yield (*labels, *texts, str(tenant.io).lower()), 1


def _tenant(
    value: Callable[[Iteration, str], float | None],
) -> Callable[[Observed], Iterator[Sample]]:
    """Read a value of each tenant in its domain's latest iteration."""

    def read(seen: Observed) -> Iterator[Sample]:
        for number, tenant, labels in _shown(seen):
            iteration = seen.latest.get(number)
            found = None if iteration is None else value(iteration, tenant.id)
            if found is not None:
                yield labels, found

    return read


def _rate(value: Callable[[Rates], float]) -> Callable[[Observed], Iterator[Sample]]:
    """Read one of a tenant's rates; nothing where its counters could not be read."""

    def of(iteration: Iteration, tenant: str) -> float | None:
        rates = iteration.sample.tenants.get(tenant)
        return None if rates is None else value(rates)

    return _tenant(of)


def _effective(iteration: Iteration, subject: str) -> WayMask | None:
    """Return the mask that was read back; None while nothing is written."""
    return None if iteration.effective is None else iteration.effective.get(subject)


def _overlap(iteration: Iteration, tenant: str) -> float | None:
    """Count the ways that a tenant shares with DDIO: as read back, else as decided."""
    layout = iteration.decision.layout
    mask = _effective(iteration, tenant) or layout.mask_of(tenant)
    ddio = _effective(iteration, DDIO) or layout.ddio
    return None if mask is None else (mask & ddio).bit_count()


# ----------------------------------------------------------------------- the table

_D = ("domain",)
_T = ("domain", "tenant", "name")


def _agent_info(seen: Observed) -> Iterator[Sample]:
    if seen.status is not None:
        yield (seen.status.version, escape.plain(seen.status.strategy)), 1


_AGENT = (
    Metric(
        "iat_nova_agent_info",
        "gauge",
        "The agent's version and strategy; always 1.",
        ("version", "strategy"),
        _agent_info,
    ),
    Metric(
        "iat_nova_start_time_seconds",
        "gauge",
        "When the agent started, in seconds since 1970.",
        (),
        _status(lambda seen: seen.status.started_s if seen.status else 0),
    ),
    Metric(
        "iat_nova_interval_seconds",
        "gauge",
        "The policy's interval between two iterations.",
        (),
        _status(lambda seen: seen.status.interval_s if seen.status else 0),
    ),
    Metric(
        "iat_nova_enforcing",
        "gauge",
        "1 while decisions are written to the hardware, 0 while the agent only observes.",
        (),
        _status(lambda seen: seen.status is not None and seen.status.mode == "enforce"),
    ),
    Metric(
        "iat_nova_paused",
        "gauge",
        "1 while an operator holds the present masks.",
        (),
        _status(lambda seen: seen.status is not None and seen.status.paused_until_s is not None),
    ),
    Metric(
        "iat_nova_degraded",
        "gauge",
        "The number of things that are wrong at present and do not stop the agent.",
        (),
        _status(lambda seen: len(seen.status.degraded) if seen.status else 0),
    ),
    Metric(
        "iat_nova_reason_info",
        "gauge",
        f"Why the agent only observes, is paused or degraded; always 1, at most {REASONS_MAX}.",
        ("about", "reason"),
        _reasons,
    ),
    Metric(
        "iat_nova_events_total",
        "counter",
        "What the agent told since it started, by severity: info, warning, error.",
        ("severity",),
        _events,
    ),
)

_LOOP = (
    Metric(
        "iat_nova_iterations_total",
        "counter",
        "Iterations decided for a cache domain since the agent started.",
        _D,
        _totals(lambda totals: totals.iterations),
    ),
    Metric(
        "iat_nova_last_iteration_time_seconds",
        "gauge",
        "When the latest iteration ended, in seconds since 1970 on the machine's clock.",
        _D,
        _latest(lambda iteration: iteration.wall_s),
    ),
    Metric(
        "iat_nova_loop_phase_seconds",
        "gauge",
        "Time the latest iteration took, by phase: read, decide, write.",
        (*_D, "phase"),
        _phases,
    ),
    Metric(
        "iat_nova_loop_seconds_total",
        "counter",
        "Time all iterations took, all phases together.",
        _D,
        _totals(lambda totals: totals.loop_s),
    ),
    Metric(
        "iat_nova_stable",
        "gauge",
        "1 while nothing moves by more than the policy's threshold.",
        _D,
        _latest(lambda iteration: iteration.decision.stable),
    ),
    Metric(
        "iat_nova_state",
        "gauge",
        "The state machine: 1 for the state it is in, 0 for the other four.",
        (*_D, "state"),
        _states,
    ),
    Metric(
        "iat_nova_transitions_total",
        "counter",
        "Transitions taken, by the paper's number.",
        (*_D, "transition", "source", "target"),
        _transitions,
    ),
    Metric(
        "iat_nova_steps_total",
        "counter",
        "Steps decided, by action; hold: something was wanted and not done.",
        (*_D, "action"),
        _steps,
    ),
    Metric(
        "iat_nova_masks_moved_total",
        "counter",
        "Way masks that a decision changed, DDIO's included.",
        _D,
        _totals(lambda totals: totals.moved_masks),
    ),
)

_CACHE = (
    Metric("iat_nova_llc_ways", "gauge", "Ways of the LLC.", _D, _domain(lambda one: one.ways)),
    Metric(
        "iat_nova_llc_way_bytes",
        "gauge",
        "Capacity of one way.",
        _D,
        _domain(lambda one: one.way_bytes),
    ),
    Metric(
        "iat_nova_ddio_ways",
        "gauge",
        "Ways decided for DDIO.",
        _D,
        _latest(lambda iteration: iteration.decision.layout.ddio.count),
    ),
    Metric(
        "iat_nova_ddio_mask",
        "gauge",
        "DDIO's way mask as decided, as a number: bit n is way n.",
        _D,
        _latest(lambda iteration: iteration.decision.layout.ddio),
    ),
    Metric(
        "iat_nova_ddio_effective_mask",
        "gauge",
        "DDIO's way mask as read back from the machine.",
        _D,
        _latest(lambda iteration: _effective(iteration, DDIO)),
    ),
    Metric(
        "iat_nova_ddio_hits_per_second",
        "gauge",
        "DDIO write updates: inbound lines found in the LLC.",
        _D,
        _latest(lambda iteration: iteration.sample.ddio_hits_per_s),
    ),
    Metric(
        "iat_nova_ddio_misses_per_second",
        "gauge",
        "DDIO write allocates: inbound lines not found in the LLC.",
        _D,
        _latest(lambda iteration: iteration.sample.ddio_misses_per_s),
    ),
    Metric(
        "iat_nova_memory_bytes_per_second",
        "gauge",
        "Memory traffic, where the machine counts it.",
        _D,
        _latest(lambda iteration: iteration.sample.memory_bytes_per_s),
    ),
)

_TENANTS = (
    Metric(
        "iat_nova_tenants",
        "gauge",
        "Tenants of a cache domain by priority: stack, PC, BE.",
        (*_D, "priority"),
        _tenants,
    ),
    Metric(
        "iat_nova_tenants_omitted",
        "gauge",
        f"Tenants beyond the {TENANTS_MAX} that have series of their own.",
        _D,
        _omitted,
    ),
    Metric(
        "iat_nova_tenant_info",
        "gauge",
        "What the policy made of a tenant; always 1.",
        (*_T, "kind", "priority", "class", "flavor", "io"),
        _tenant_info,
    ),
    Metric(
        "iat_nova_tenant_ways",
        "gauge",
        "Ways decided for a tenant; members of one group share them.",
        _T,
        _tenant(
            lambda iteration, tenant: (
                None if (mask := iteration.decision.layout.mask_of(tenant)) is None else mask.count
            )
        ),
    ),
    Metric(
        "iat_nova_tenant_mask",
        "gauge",
        "A tenant's way mask as decided, as a number: bit n is way n.",
        _T,
        _tenant(lambda iteration, tenant: iteration.decision.layout.mask_of(tenant)),
    ),
    Metric(
        "iat_nova_tenant_effective_mask",
        "gauge",
        "A tenant's way mask as read back from the machine.",
        _T,
        _tenant(_effective),
    ),
    Metric(
        "iat_nova_tenant_ddio_overlap_ways",
        "gauge",
        "Ways a tenant shares with DDIO.",
        _T,
        _tenant(_overlap),
    ),
    Metric(
        "iat_nova_tenant_instructions_per_second",
        "gauge",
        "Instructions retired by a tenant's processors.",
        _T,
        _rate(lambda rates: rates.instructions_per_s),
    ),
    Metric(
        "iat_nova_tenant_cycles_per_second",
        "gauge",
        "Unhalted cycles of a tenant's processors.",
        _T,
        _rate(lambda rates: rates.cycles_per_s),
    ),
    Metric(
        "iat_nova_tenant_llc_references_per_second",
        "gauge",
        "LLC references of a tenant's processors.",
        _T,
        _rate(lambda rates: rates.references_per_s),
    ),
    Metric(
        "iat_nova_tenant_llc_misses_per_second",
        "gauge",
        "LLC misses of a tenant's processors.",
        _T,
        _rate(lambda rates: rates.misses_per_s),
    ),
)

GROUPS = {
    "The agent": _AGENT,
    "The loop": _LOOP,
    "Cache and DDIO": _CACHE,
    "Tenants": _TENANTS,
}
"""The metrics by what they tell of, as the documentation shows them."""

METRICS: tuple[Metric, ...] = tuple(metric for group in GROUPS.values() for metric in group)
"""Every metric that is served, in the order of the documentation."""
