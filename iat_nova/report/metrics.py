# SPDX-License-Identifier: Apache-2.0
"""Every metric: its name, meaning and labels.

One table, `METRICS`: what is served and what the documentation lists is the same. Names follow
Prometheus: units in them, ``_total`` for counters. How each is read is in `metric_values`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable

from iat_nova.model import DDIO
from iat_nova.report import metric_values as values
from iat_nova.report.observed import Observed


@dataclasses.dataclass(frozen=True, slots=True)
class Metric:
    """One metric. `read` yields a sample for each combination of the labels' values."""

    name: str
    kind: str  # gauge or counter
    help: str
    labels: tuple[str, ...]
    read: Callable[[Observed], Iterable[values.Sample]]


_D = ("domain",)
_T = ("domain", "tenant", "name")


_AGENT = (
    Metric(
        "iat_nova_agent_info",
        "gauge",
        "The agent's version and strategy; always 1.",
        ("version", "strategy"),
        values.agent_info,
    ),
    Metric(
        "iat_nova_start_time_seconds",
        "gauge",
        "When the agent started, in seconds since 1970.",
        (),
        values.status(lambda seen: seen.status.started_s if seen.status else 0),
    ),
    Metric(
        "iat_nova_interval_seconds",
        "gauge",
        "The policy's interval between two iterations.",
        (),
        values.status(lambda seen: seen.status.interval_s if seen.status else 0),
    ),
    Metric(
        "iat_nova_enforcing",
        "gauge",
        "1 while decisions are written to the hardware, 0 while the agent only observes.",
        (),
        values.status(lambda seen: seen.status is not None and seen.status.mode == "enforce"),
    ),
    Metric(
        "iat_nova_paused",
        "gauge",
        "1 while an operator holds the present masks.",
        (),
        values.status(
            lambda seen: seen.status is not None and seen.status.paused_until_s is not None
        ),
    ),
    Metric(
        "iat_nova_degraded",
        "gauge",
        "The number of things that are wrong at present and do not stop the agent.",
        (),
        values.status(lambda seen: len(seen.status.degraded) if seen.status else 0),
    ),
    Metric(
        "iat_nova_reason_info",
        "gauge",
        "Why the agent only observes, is paused or degraded; always 1, "
        f"at most {values.REASONS_MAX}.",
        ("about", "code", "reason"),
        values.reasons,
    ),
    Metric(
        "iat_nova_reason",
        "gauge",
        "1 while a reason with this code holds, 0 while none does; for alerts.",
        ("code",),
        values.codes,
    ),
    Metric(
        "iat_nova_last_inventory_time_seconds",
        "gauge",
        "When libvirt, Open vSwitch and sysfs were last looked at, in seconds since 1970 on the "
        "machine's clock.",
        (),
        values.looked,
    ),
    Metric(
        "iat_nova_events_total",
        "counter",
        "What the agent told since it started, by severity: info, warning, error.",
        ("severity",),
        values.events,
    ),
)

_LOOP = (
    Metric(
        "iat_nova_iterations_total",
        "counter",
        "Iterations decided for a cache domain since the agent started.",
        _D,
        values.totals(lambda totals: totals.iterations),
    ),
    Metric(
        "iat_nova_last_iteration_time_seconds",
        "gauge",
        "When the latest iteration ended, in seconds since 1970 on the machine's clock.",
        _D,
        values.latest(lambda iteration: iteration.wall_s),
    ),
    Metric(
        "iat_nova_loop_phase_seconds",
        "gauge",
        "Time the latest iteration took, by phase: read, decide, write.",
        (*_D, "phase"),
        values.phases,
    ),
    Metric(
        "iat_nova_loop_seconds_total",
        "counter",
        "Time all iterations took, all phases together.",
        _D,
        values.totals(lambda totals: totals.loop_s),
    ),
    Metric(
        "iat_nova_stable",
        "gauge",
        "1 while nothing moves by more than the policy's threshold.",
        _D,
        values.latest(lambda iteration: iteration.decision.stable),
    ),
    Metric(
        "iat_nova_state",
        "gauge",
        "The strategy's phase: 1 for the one it is in, 0 for the others.",
        (*_D, "state"),
        values.states,
    ),
    Metric(
        "iat_nova_transitions_total",
        "counter",
        "Transitions taken, by the number of the strategy's rule (iat: the paper's).",
        (*_D, "transition", "source", "target"),
        values.transitions,
    ),
    Metric(
        "iat_nova_steps_total",
        "counter",
        "Steps decided, by action; hold: something was wanted and not done.",
        (*_D, "action"),
        values.steps,
    ),
    Metric(
        "iat_nova_masks_moved_total",
        "counter",
        "Way masks that a decision changed, DDIO's included.",
        _D,
        values.totals(lambda totals: totals.moved_masks),
    ),
)

_CACHE = (
    Metric(
        "iat_nova_llc_ways", "gauge", "Ways of the LLC.", _D, values.domain(lambda one: one.ways)
    ),
    Metric(
        "iat_nova_llc_way_bytes",
        "gauge",
        "Capacity of one way.",
        _D,
        values.domain(lambda one: one.way_bytes),
    ),
    Metric(
        "iat_nova_ddio_ways",
        "gauge",
        "Ways decided for DDIO.",
        _D,
        values.latest(lambda iteration: iteration.decision.layout.ddio.count),
    ),
    Metric(
        "iat_nova_ddio_mask",
        "gauge",
        "DDIO's way mask as decided, as a number: bit n is way n.",
        _D,
        values.latest(lambda iteration: iteration.decision.layout.ddio),
    ),
    Metric(
        "iat_nova_ddio_effective_mask",
        "gauge",
        "DDIO's way mask as read back from the machine.",
        _D,
        values.latest(lambda iteration: values.effective(iteration, DDIO)),
    ),
    Metric(
        "iat_nova_ddio_hits_per_second",
        "gauge",
        "DDIO write updates: inbound lines found in the LLC.",
        _D,
        values.latest(lambda iteration: iteration.sample.ddio_hits_per_s),
    ),
    Metric(
        "iat_nova_ddio_misses_per_second",
        "gauge",
        "DDIO write allocates: inbound lines not found in the LLC.",
        _D,
        values.latest(lambda iteration: iteration.sample.ddio_misses_per_s),
    ),
    Metric(
        "iat_nova_memory_bytes_per_second",
        "gauge",
        "Memory traffic, where the machine counts it.",
        _D,
        values.latest(lambda iteration: iteration.sample.memory_bytes_per_s),
    ),
)

_TENANTS = (
    Metric(
        "iat_nova_tenants",
        "gauge",
        "Tenants of a cache domain by priority: stack, PC, BE.",
        (*_D, "priority"),
        values.tenants,
    ),
    Metric(
        "iat_nova_tenants_omitted",
        "gauge",
        f"Tenants beyond the {values.TENANTS_MAX} that have series of their own.",
        _D,
        values.omitted,
    ),
    Metric(
        "iat_nova_tenant_info",
        "gauge",
        "What the policy made of a tenant; always 1.",
        (*_T, "kind", "priority", "class", "flavor", "io"),
        values.tenant_info,
    ),
    Metric(
        "iat_nova_tenant_ways",
        "gauge",
        "Ways decided for a tenant; members of one group share them.",
        _T,
        values.tenant(
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
        values.tenant(lambda iteration, tenant: iteration.decision.layout.mask_of(tenant)),
    ),
    Metric(
        "iat_nova_tenant_effective_mask",
        "gauge",
        "A tenant's way mask as read back from the machine.",
        _T,
        values.tenant(values.effective),
    ),
    Metric(
        "iat_nova_tenant_ddio_overlap_ways",
        "gauge",
        "Ways a tenant shares with DDIO.",
        _T,
        values.tenant(values.overlap),
    ),
    Metric(
        "iat_nova_tenant_instructions_per_second",
        "gauge",
        "Instructions retired by a tenant's processors.",
        _T,
        values.rate(lambda rates: rates.instructions_per_s),
    ),
    Metric(
        "iat_nova_tenant_cycles_per_second",
        "gauge",
        "Unhalted cycles of a tenant's processors.",
        _T,
        values.rate(lambda rates: rates.cycles_per_s),
    ),
    Metric(
        "iat_nova_tenant_llc_references_per_second",
        "gauge",
        "LLC references of a tenant's processors.",
        _T,
        values.rate(lambda rates: rates.references_per_s),
    ),
    Metric(
        "iat_nova_tenant_llc_misses_per_second",
        "gauge",
        "LLC misses of a tenant's processors.",
        _T,
        values.rate(lambda rates: rates.misses_per_s),
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
