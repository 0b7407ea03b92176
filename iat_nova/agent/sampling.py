# SPDX-License-Identifier: Apache-2.0
"""From running totals to rates: two readings of the counters become a `Sample` per domain."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from iat_nova.hardware.api import Counts, L2Counts
from iat_nova.model import DomainInventory, PortRates, Rates, Sample


class Sampler:
    """Keep the last reading, and turn the next reading into rates over the time between."""

    def __init__(self) -> None:
        self._before: Counts | None = None
        self._counted: Mapping[int, DomainInventory] = {}

    def update(
        self, counts: Counts, inventories: Mapping[int, DomainInventory]
    ) -> dict[int, Sample]:
        """Return a sample for every domain; empty at the first reading or if no time passed.

        A tenant's rates are the sums over its `counted_cpus`. A tenant is absent from the sample if
        a counter of one of these CPUs is missing in either reading, or went backwards. A counter
        goes backwards after a wrap, or if the CPU was offline. A tenant is also absent if the CPUs
        were not the tenant's at the last reading: then the counts belong to another tenant.
        """
        before, self._before = self._before, counts
        owners, self._counted = self._counted, dict(inventories)
        if before is None or counts.taken_at_s <= before.taken_at_s:
            return {}
        interval_s = counts.taken_at_s - before.taken_at_s
        return {
            domain: _sample(_measured(inventory, owners), before, counts, interval_s)
            for domain, inventory in inventories.items()
        }


def _measured(inventory: DomainInventory, owners: Mapping[int, DomainInventory]) -> DomainInventory:
    """Return the inventory without tenants whose CPUs changed since the last reading."""
    known = owners.get(inventory.domain.id)
    if known is inventory or known is None:
        return inventory
    places = {(tenant.id, tenant.counted_cpus) for tenant in known.tenants}
    stayed = tuple(one for one in inventory.tenants if (one.id, one.counted_cpus) in places)
    return DomainInventory(inventory.domain, stayed)


def _sample(inventory: DomainInventory, before: Counts, after: Counts, interval_s: float) -> Sample:
    per_s = 1.0 / interval_s
    tenants = {}
    for tenant in inventory.tenants:
        rates = _rates(tenant.counted_cpus, before, after, per_s)
        if rates is None:
            continue
        if found := _monitored((inventory.domain.id, tenant.id), before, after, per_s):
            rates = dataclasses.replace(
                rates,
                occupancy_bytes=found.occupancy_bytes,
                memory_bytes_per_s=found.memory_bytes_per_s,
            )
        tenants[tenant.id] = rates
    domain = inventory.domain.id
    hits, misses, memory, writes, storage, network = (
        _rate(old, new, per_s)
        for old, new in zip(_of_domain(before, domain), _of_domain(after, domain), strict=True)
    )
    return Sample(
        domain,
        after.taken_at_s,
        interval_s,
        tenants,
        ddio_hits_per_s=hits,
        ddio_misses_per_s=misses,
        memory_bytes_per_s=memory,
        storage_in_bytes_per_s=storage,
        network_in_bytes_per_s=network,
        ddio_writes_per_s=writes,
        ports=_ports(inventory, before, after, per_s) if after.monitored else {},
    )


def _of_domain(counts: Counts, domain: int) -> tuple[int | None, ...]:
    return *counts.domains.get(domain, _NO_COUNTS), *counts.inbound.get(domain, _NEITHER)


_NO_COUNTS = (None, None, None, None)
_NEITHER = (None, None)


def _rates(cpus: tuple[int, ...], before: Counts, after: Counts, per_s: float) -> Rates | None:
    """Return the rates of a tenant's CPUs together; None if a CPU's counts are missing."""
    was, now = before.cores, after.cores
    instructions = cycles = references = misses = 0
    for cpu in cpus:
        old, new = was.get(cpu), now.get(cpu)
        if old is None or new is None:
            return None
        if new[0] < old[0] or new[1] < old[1] or new[2] < old[2] or new[3] < old[3]:
            return None
        instructions += new[0] - old[0]
        cycles += new[1] - old[1]
        references += new[2] - old[2]
        misses += new[3] - old[3]
    if not cpus:
        return None
    l2 = _l2(cpus, before.l2, after.l2, per_s) if after.l2 else _NEITHER
    return Rates(instructions * per_s, cycles * per_s, references * per_s, misses * per_s, *l2)


def _monitored(
    who: tuple[int, str], before: Counts, after: Counts, per_s: float
) -> PortRates | None:
    """Return LLC occupancy and memory traffic of a tenant or port; None without a monitor.

    No traffic if the counter restarted.
    """
    was, now = before.monitored.get(who), after.monitored.get(who)
    if now is None:
        return None
    moved = _rate(was.memory_bytes, now.memory_bytes, per_s) if was is not None else None
    return PortRates(now.occupancy_bytes, moved)


def _ports(
    inventory: DomainInventory, before: Counts, after: Counts, per_s: float
) -> dict[str, PortRates]:
    domain = inventory.domain
    return {
        port.id: found
        for port in domain.device_ports
        if (found := _monitored((domain.id, port.id), before, after, per_s)) is not None
    }


def _l2(
    cpus: tuple[int, ...], was: Mapping[int, L2Counts], now: Mapping[int, L2Counts], per_s: float
) -> tuple[float | None, float | None]:
    """Return L2 hits and misses per second; None for both if a CPU's counts are missing."""
    hits = misses = 0
    for cpu in cpus:
        old, new = was.get(cpu), now.get(cpu)
        if old is None or new is None or new[0] < old[0] or new[1] < old[1]:
            return None, None
        hits += new[0] - old[0]
        misses += new[1] - old[1]
    return hits * per_s, misses * per_s


def _rate(old: int | None, new: int | None, per_s: float) -> float | None:
    """Return a rate; None if a count is missing or went backwards."""
    if old is None or new is None or new < old:
        return None
    return (new - old) * per_s
