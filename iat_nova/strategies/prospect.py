# SPDX-License-Identifier: Apache-2.0
"""Prospect of enforcing, from counters alone: what critical guests could gain by masks.

The rule: without the fills of best-effort tenants and devices, critical tenants have the whole LLC
for their own fills. Misses then fall with the square root of the size (A. Hartstein et al., "Cache
miss behavior: is it sqrt(2)?", Computing Frontiers 2006). A guest behind a virtual switch waits for
the switch as well: whichever of the two is stalled more counts.

On drawn hosts the mean gain that came was `CAME` times the gain by the rule: layouts are found by
trials, loads change before a layout has paid, many misses overlap, and some working sets fit no
cache.

Two numbers for each guest, as relative speedups:

* `likely`: by the rule, times `CAME`.
* `most`: no misses any more, each of which stalled for a whole access to memory.

The rule knows nothing of loads to come and of what a layout costs best-effort guests. Nor does it
tell a stream, which needs no cache, from a victim, which always misses because others fill more.
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
    TenantKind,
)
from iat_nova.strategies.pressure import MISS_CYCLES_MOST
from iat_nova.strategies.readings import MOST_STALLED, awake, inbound, stalled

CAME = 0.24
"""Mean gain that came on 96 drawn hosts (seeds 2611, 2612, 2701) over their mean gain by the rule.

Measured at the hosts' own compression. At 1 % it is 0.1: caches fill slowly after each move.
"""

_GUESTS = (TenantKind.GUEST, TenantKind.POOL)


@dataclasses.dataclass(frozen=True, slots=True)
class Prospect:
    """Speedup of one or several guests by enforcing, relative to the present: 0.1 is 10 %.

    `known`: number of guests, of `guests`, of which the cost of a miss is known. Misses of all
    others must overlap: at `MISS_CYCLES` each they would take all cycles.
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
    relief = _relief(inventory, sample, rates)
    switches = [
        rates[tenant.id]
        for tenant in inventory.tenants
        if tenant.priority is Priority.STACK and tenant.id in rates
    ]
    return {
        tenant.id: _prospect(
            relief,
            [rates[tenant.id], *(switches if tenant.model is DeviceModel.AGGREGATION else ())],
        )
        for tenant in inventory.tenants
        if tenant.priority is Priority.PC and tenant.kind in _GUESTS and tenant.id in rates
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


def _relief(inventory: DomainInventory, sample: Sample, rates: Mapping[str, Rates]) -> float:
    """Return the share of a critical tenant's misses that go without best effort and devices."""
    kept = taken = 0.0
    for tenant in inventory.tenants:
        fills = rates[tenant.id].misses_per_s if tenant.id in rates else 0.0
        if tenant.priority is Priority.BE:
            taken += fills
        else:
            kept += fills
    taken += inbound(sample)
    return 1.0 - math.sqrt(kept / (kept + taken)) if kept else 0.0


def _prospect(relief: float, waits: Collection[Rates]) -> Prospect:
    """Return a guest's prospect; `waits`: of the guest and of the switches in its way."""
    stall = max(map(stalled, waits))
    return Prospect(
        CAME * _speedup(relief * stall),
        _speedup(max(stalled(one, MISS_CYCLES_MOST) for one in waits)),
        int(stall < MOST_STALLED),
        1,
    )


def _speedup(saved: float) -> float:
    """Return the speedup if a share of the cycles is saved."""
    return 1.0 / (1.0 - saved) - 1.0


def _mean(speedups: Collection[float]) -> float:
    return math.exp(math.fsum(math.log1p(one) for one in speedups) / len(speedups)) - 1.0
