# SPDX-License-Identifier: Apache-2.0
"""Cache pressure on a host in numbers: losses of tenants to other tenants, room for a newcomer.

Nothing here is measured directly. A tenant's loss is the share of cycles that the tenant would save
if alone on the host. No counter shows the tenant alone, so a loss is three numbers:

* `least`: shown by the tenant. Under the same load the tenant was faster before, with fewer misses.
  The load is the number of LLC references per instruction. 0 for a tenant with I/O, which polls, so
  that instructions show no speed, and for a tenant that was never faster.
* `likely`: by a rule. The tenant alone would fill the whole LLC, and misses fall exponentially with
  the size, from all references without an LLC to the measured miss ratio with the tenant's share.
  Of all distributions of reuse distances with one measured point, the exponential distribution
  assumes least (largest entropy). None for a tenant that hardly reuses lines, which may be a stream
  or a victim; for a tenant with I/O, which misses inbound data also when alone; and if
  `MISS_CYCLES` for each miss would take all cycles, because overlapping misses have no known cost.
  A working set that just does not fit loses more, a program with a part that fits no cache loses
  less.
* `most`: all cycles stalled by misses, if each miss stalls for a whole access to memory.

Lines of devices count the same in all ways into which any device writes (DDIO's ways, and own ways
of ports), because no counter distinguishes the lines of ports.

The share of the LLC that a tenant fills is the tenant's occupancy, if monitored. Otherwise each way
is divided by the fills of its tenants. This estimate is too low for tenants that hit often.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping

from iat_nova.model import (
    DDIO,
    DomainInventory,
    Priority,
    Rates,
    Sample,
    Tenant,
    WayMask,
)
from iat_nova.strategies.readings import (
    MISS_CYCLES,
    MISS_CYCLES_MOST,
    MOST_STALLED,
    STREAMS,
    awake,
    inbound,
    stalled,
)

NOTICED = 0.006  # least share of stalled cycles that counts, as to the default strategy


@dataclasses.dataclass(frozen=True, slots=True)
class CycleLoss:
    """The share of a tenant's cycles that other tenants cost it, 0..1, between bounds.

    `stalled`: the share of cycles that all LLC misses stall, at `MISS_CYCLES` each. The module
    describes the bounds `least` and `most`, and the estimate `likely`.
    """

    stalled: float
    least: float
    likely: float | None
    most: float


@dataclasses.dataclass(frozen=True, slots=True)
class Fill:
    """The share of the LLC that a tenant fills, 0..1; `monitored`: measured, not estimated."""

    share: float
    monitored: bool


def losses(
    inventory: DomainInventory,
    sample: Sample,
    masks: Mapping[str, WayMask],
    shown: Mapping[str, float],
) -> dict[str, CycleLoss]:
    """Return the loss of each tenant that is awake and measured.

    `masks`: by tenant, port and `DDIO` as on the hardware. `shown`: the result of `readings.shown`.
    """
    filled = fills(inventory, sample, masks)
    found = {}
    for tenant in inventory.tenants:
        rates = awake(tenant, sample)
        if rates is not None:
            fill = None if tenant.io else filled.get(tenant.id)
            found[tenant.id] = _loss(rates, fill, shown.get(tenant.id, 0.0))
    return found


def fills(
    inventory: DomainInventory, sample: Sample, masks: Mapping[str, WayMask]
) -> dict[str, Fill]:
    """Return the share of the LLC that each tenant fills, as far as known."""
    domain = inventory.domain
    found = {}
    per_way = {
        tenant.id: rates.misses_per_s / masks[tenant.id].count
        for tenant in inventory.tenants
        if (rates := awake(tenant, sample)) is not None and masks.get(tenant.id)
    }
    lines, ways = inbound(sample), _inbound(inventory, masks)
    totals = [
        math.fsum(rate for one, rate in per_way.items() if masks[one] >> way & 1)
        + (lines / ways.count if ways >> way & 1 else 0.0)
        for way in range(domain.ways)
    ]
    for tenant in inventory.tenants:
        occupancy = _occupancy(sample.tenants.get(tenant.id))
        if occupancy is not None and domain.way_bytes:
            share = occupancy / (domain.ways * domain.way_bytes)
            found[tenant.id] = Fill(min(1.0, share), True)
        elif tenant.id in per_way:
            held = (
                per_way[tenant.id] / total
                for way, total in enumerate(totals)
                if total and masks[tenant.id] >> way & 1
            )
            found[tenant.id] = Fill(math.fsum(held) / domain.ways, False)
    return found


def newcomers(
    inventory: DomainInventory, sample: Sample, masks: Mapping[str, WayMask]
) -> dict[Priority, float]:
    """Return the ways that a newcomer of each priority would find, without guaranteed ways.

    A newcomer gets the most frequent mask of the same priority, or else all ways except own ways
    of tenants. A way that n others fill counts as 1 / (n + 1). The others are tenants that compete
    for the LLC, and devices in all ways into which any device writes. Empty without rates.
    """
    if not sample.tenants:
        return {}
    competing = [one.id for one in inventory.tenants if _competes(one, sample)]
    fillers = [masks[one] for one in competing if one in masks]
    if sample.inbound_lines_per_s:
        fillers.append(_inbound(inventory, masks))
    found = {}
    for priority in (Priority.PC, Priority.BE):
        mask = _mask_of_newcomer(inventory, masks, priority)
        ways = (way for way in range(inventory.domain.ways) if mask >> way & 1)
        found[priority] = math.fsum(
            1.0 / (1 + sum(one >> way & 1 for one in fillers)) for way in ways
        )
    return found


def _inbound(inventory: DomainInventory, masks: Mapping[str, WayMask]) -> WayMask:
    """Return the ways into which any device writes; none if DDIO's are not known."""
    mask = masks.get(DDIO, WayMask(0))
    for port in inventory.domain.device_ports if mask else ():
        mask = WayMask(mask | masks.get(port.id, 0))
    return mask


def _mask_of_newcomer(
    inventory: DomainInventory, masks: Mapping[str, WayMask], priority: Priority
) -> WayMask:
    alike = [
        masks[one.id]
        for one in inventory.tenants
        if one.priority is priority and not one.ways.kept and one.id in masks
    ]
    if alike:
        return max(alike, key=lambda mask: (alike.count(mask), mask.count, mask))
    free = inventory.domain.open_ways
    for one in inventory.tenants:
        if one.ways.kept and one.id in masks:
            free = WayMask(free & ~masks[one.id])
    return free


def _loss(rates: Rates, fill: Fill | None, least: float) -> CycleLoss:
    stall, most = stalled(rates), stalled(rates, MISS_CYCLES_MOST)
    least = min(least, most)
    likely = None
    if fill is not None and rates.miss_ratio <= STREAMS and stall < MOST_STALLED:
        growth = 1.0 / fill.share if fill.share else math.inf  # of the tenant's share, if alone
        left = math.pow(rates.miss_ratio, growth - 1.0)  # of the misses
        likely = max(least, stall * (1.0 - left))
    return CycleLoss(stall, least, likely, most)


def _competes(tenant: Tenant, sample: Sample) -> bool:
    """Return whether a tenant would be slower if all references to the LLC missed."""
    rates = awake(tenant, sample)
    if rates is None:
        return False
    return rates.references_per_s * MISS_CYCLES >= NOTICED * rates.cycles_per_s


def _occupancy(rates: Rates | None) -> int | None:
    return None if rates is None else rates.occupancy_bytes
