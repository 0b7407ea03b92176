# SPDX-License-Identifier: Apache-2.0
"""Prospect of enforcing, from counters alone: what critical guests could gain by masks.

The rule: critical tenants keep the LLC for their own fills, without the fills of best-effort
tenants and devices, and without the ways that guests or operators close to them. Misses change with
the square root of the space (A. Hartstein et al., "Cache miss behavior: is it sqrt(2)?", Computing
Frontiers 2006). Only misses that other tenants can cause count: each fill evicts a line, so the
others' share of a tenant's misses is their share of all fills. A guest behind a virtual switch also
waits for the switch, so the larger change of the two counts.

On random hosts the mean real gain was `CAME` times the gain by the rule: layouts are found by
trials, loads change before a layout has paid, many misses overlap, and some working sets fit no
cache.

Two numbers for each guest, as relative speedups:

* `likely`: by the rule, times `CAME`. Negative if closed ways cost more than the rule gains.
* `most`: the gain without any miss, if each miss stalls for a whole access to memory.

The rule ignores future loads, and the cost of a layout for best-effort guests. If a guest gets less
room and evicts its own lines there, the rule underestimates the loss.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Mapping

from iat_nova.model import (
    DeviceModel,
    DomainInventory,
    Priority,
    Rates,
    Sample,
    Tenant,
    TenantKind,
)
from iat_nova.strategies.readings import (
    MISS_CYCLES_MOST,
    MOST_STALLED,
    awake,
    inbound,
    stalled,
)

CAME = 0.34
"""Mean real gain on 150 random hosts (seeds 8101, 8102, 8103) over their mean gain by the rule.

Measured at the hosts' own compression. At 1 % it is 0.1: caches fill slowly after each move.
"""

_GUESTS = (TenantKind.GUEST, TenantKind.POOL)


@dataclasses.dataclass(frozen=True, slots=True)
class Prospect:
    """Speedup of one or several guests by enforcing, relative to the present: 0.1 is 10 %.

    `known`: number of guests among `guests` for which the cost of a miss is known. Misses of all
    other guests overlap: at `MISS_CYCLES` each they would take all cycles.
    """

    likely: float
    most: float
    known: int
    guests: int


def prospects(inventory: DomainInventory, sample: Sample) -> dict[str, Prospect]:
    """Return the prospect of each critical guest that is awake and measured, by tenant id."""
    rates = {
        tenant.id: seen
        for tenant in inventory.tenants
        if (seen := awake(tenant, sample)) is not None
    }
    fills = _fills(inventory, sample, rates)
    waits = {
        tenant.id: (seen, fills.relief(seen.misses_per_s, _open_share(inventory, tenant)))
        for tenant in inventory.tenants
        if (seen := rates.get(tenant.id)) is not None and tenant.priority is not Priority.BE
    }
    switches = [
        waits[tenant.id]
        for tenant in inventory.tenants
        if tenant.priority is Priority.STACK and tenant.id in waits
    ]
    return {
        tenant.id: _prospect(
            [waits[tenant.id], *(switches if tenant.model is DeviceModel.AGGREGATION else ())]
        )
        for tenant in inventory.tenants
        if tenant.priority is Priority.PC and tenant.kind in _GUESTS and tenant.id in waits
    }


def together(found: Collection[Prospect]) -> Prospect | None:
    """Return the prospect of several guests: geometric means of speedups; None without guests."""
    if not found:
        return None
    return Prospect(
        _mean([one.likely for one in found]),
        _mean([one.most for one in found]),
        sum(one.known for one in found),
        sum(one.guests for one in found),
    )


@dataclasses.dataclass(frozen=True, slots=True)
class _Fills:
    """Fills per second of a cache domain: of all, and of critical tenants alone."""

    total: float
    kept: float

    def relief(self, own: float, open_share: float) -> float:
        """Return the share of a tenant's misses that go, negative if more come.

        `own`: the tenant's misses per second. `open_share`: share of the ways not closed to it.
        """
        if not own:
            return 0.0
        room = open_share * self.total / self.kept
        return (1.0 - 1.0 / math.sqrt(room)) * (1.0 - own / self.total)


def _fills(inventory: DomainInventory, sample: Sample, rates: Mapping[str, Rates]) -> _Fills:
    misses = {
        critical: math.fsum(
            rates[tenant.id].misses_per_s
            for tenant in inventory.tenants
            if tenant.id in rates and (tenant.priority is not Priority.BE) is critical
        )
        for critical in (True, False)
    }
    return _Fills(math.fsum((*misses.values(), inbound(sample))), misses[True])


def _open_share(inventory: DomainInventory, tenant: Tenant) -> float:
    """Return the share of the ways without the own ways of other tenants, at least one way.

    A held tenant has only the held ways. Guarantees count as requested, even if not all fit.
    """
    ways = inventory.domain.ways
    if tenant.ways.held:
        return tenant.ways.kept / ways
    closed = sum(one.ways.kept for one in inventory.tenants if one.id != tenant.id)
    return max(1, ways - closed) / ways


def _prospect(waits: Collection[tuple[Rates, float]]) -> Prospect:
    """Return a guest's prospect; `waits`: rates and relief, of the guest and of its switches."""
    saved = max((stalled(rates) * relief for rates, relief in waits), key=abs)
    stall = max(stalled(rates) for rates, _ in waits)
    return Prospect(
        CAME * _speedup(saved),
        _speedup(max(stalled(rates, MISS_CYCLES_MOST) for rates, _ in waits)),
        int(stall < MOST_STALLED),
        1,
    )


def _speedup(saved: float) -> float:
    """Return the speedup if a share of the cycles is saved."""
    return 1.0 / (1.0 - saved) - 1.0


def _mean(speedups: Collection[float]) -> float:
    return math.exp(math.fsum(math.log1p(one) for one in speedups) / len(speedups)) - 1.0
