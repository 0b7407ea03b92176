# SPDX-License-Identifier: Apache-2.0
"""Prospect of enforcing, from counters alone: what critical guests could gain by masks.

The rule: masks give the part of the LLC that best-effort tenants fill, but for one way, to the
critical tenants and the virtual switch, in proportion to what these fill already. Misses, and the
cycles that misses stall, fall exponentially with the size, as for a loss (`pressure.saved`).

Three numbers for each guest, as relative speedups:

* `least`: what the guest has shown itself, see `pressure`: it was faster under the same load. 0 for
  a guest with I/O.
* `likely`: by the rule. None for a guest that hardly reuses lines, which may be a stream or a
  victim, and for one with so many misses that they must overlap. A guest with I/O has a prospect,
  but no likely loss: alone it would miss inbound data as well, so that the rule is less certain.
  Such misses depend on DDIO's ways too, and a guest that polls has idle cycles among its cycles,
  so that the share of stalled ones is too low.
* `most`: no misses any more, each of which stalled for a whole access to memory.

The rule knows nothing of loads to come, of what a layout costs best-effort guests, and of a virtual
switch that becomes faster for its guests.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Mapping

from iat_nova.model import DomainInventory, Priority, Rates, Sample, TenantKind, WayMask
from iat_nova.strategies import pressure
from iat_nova.strategies.pressure import CycleLoss, Fill
from iat_nova.strategies.readings import STREAMS

_GUESTS = (TenantKind.GUEST, TenantKind.POOL)


@dataclasses.dataclass(frozen=True, slots=True)
class Prospect:
    """Speedup of one or several guests by enforcing, relative to the present: 0.1 is 10 %.

    `known`: number of guests with a likely speedup, of `guests`. In the mean of `likely` all other
    guests count with their least speedup, so that it lies between `least` and `most`; it is None if
    no guest has a likely speedup.
    """

    least: float
    likely: float | None
    most: float
    known: int
    guests: int


def prospects(
    inventory: DomainInventory,
    sample: Sample,
    masks: Mapping[str, WayMask],
    shown: Mapping[str, float],
) -> dict[str, Prospect]:
    """Return the prospect of each critical guest that is awake and measured, by tenant id.

    `masks`: by tenant, port and `DDIO` as on the hardware. `shown`: the result of `pressure.shown`.
    """
    losses = pressure.losses(inventory, sample, masks, shown)
    fills = pressure.fills(inventory, sample, masks)
    growth = _growth(inventory, fills)
    return {
        tenant.id: _prospect(loss, growth, sample.tenants[tenant.id], tenant.io)
        for tenant in inventory.tenants
        if tenant.priority is Priority.PC and tenant.kind in _GUESTS
        if (loss := losses.get(tenant.id)) is not None
    }


def together(found: Collection[Prospect]) -> Prospect | None:
    """Return the prospect of several guests: geometric means of speedups; None without guests."""
    if not found:
        return None
    known = sum(one.known for one in found)
    likely = [one.least if one.likely is None else one.likely for one in found]
    return Prospect(
        _mean([one.least for one in found]),
        _mean(likely) if known else None,
        _mean([one.most for one in found]),
        known,
        sum(one.guests for one in found),
    )


def _growth(inventory: DomainInventory, fills: Mapping[str, Fill]) -> float:
    """Return by which factor the share of critical tenants could grow, 1 or more."""
    taken = kept = 0.0
    for tenant in inventory.tenants:
        share = fills[tenant.id].share if tenant.id in fills else 0.0
        if tenant.priority is Priority.BE:
            taken += share
        else:
            kept += share
    free = max(0.0, taken - 1.0 / inventory.domain.ways)
    return 1.0 + free / kept if kept else 1.0


def _prospect(loss: CycleLoss, growth: float, rates: Rates, io: bool) -> Prospect:
    likely = pressure.saved(rates, growth) if io or rates.miss_ratio <= STREAMS else None
    return Prospect(
        _speedup(loss.least),
        None if likely is None else _speedup(max(loss.least, likely)),
        _speedup(loss.most),
        int(likely is not None),
        1,
    )


def _speedup(saved: float) -> float:
    """Return the speedup if a share of the cycles is saved."""
    return 1.0 / (1.0 - saved) - 1.0


def _mean(speedups: Collection[float]) -> float:
    return math.exp(math.fsum(math.log1p(one) for one in speedups) / len(speedups)) - 1.0
