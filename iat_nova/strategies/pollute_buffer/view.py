# SPDX-License-Identifier: Apache-2.0
"""Figures about a cache domain, used to choose moves."""

from __future__ import annotations

import math
from collections.abc import Set

from iat_nova.model import DomainInventory, Parameters, Priority, Sample
from iat_nova.strategies import readings
from iat_nova.strategies.pollute_buffer import judge
from iat_nova.strategies.pollute_buffer.judge import Floors
from iat_nova.strategies.readings import MISS_CYCLES, Looks

LINE = 64  # bytes per miss


class View:
    """Input for choosing moves.

    `settled`: samples followed a kept move. `ids`: all tenants. `readers`: tenants with I/O, or
    with a device of their own. `inbound`: see `readings`. `busy`: so many inbound lines miss that
    moves for DDIO may pay.
    """

    def __init__(
        self,
        inventory: DomainInventory,
        parameters: Parameters,
        sample: Sample,
        looks: Looks,
        floors: Floors | None = None,
        *,
        settled: bool = True,
    ) -> None:
        tenants = inventory.tenants
        self.inventory, self.parameters, self.sample = inventory, parameters, sample
        self.looks, self.settled = looks, settled
        self.stakes = judge.stakes(tenants, looks, floors or {})
        self.ids = frozenset(tenant.id for tenant in tenants)
        self.best_effort = frozenset(one.id for one in tenants if one.priority is Priority.BE)
        self.readers = frozenset(one.id for one in tenants if one.io or one.has_device)
        self.inbound = readings.inbound(sample)
        self.busy = self.inbound > parameters.threshold_miss_low_per_s
        self._all_fills = self.fills(self.ids) + self.inbound

    def stake(self, who: frozenset[str]) -> float:
        """Return the total gain if these tenants never missed."""
        # Independent of order: a set's order differs in the process that replays the decision.
        return math.fsum(self.stakes[one].misses for one in who if one in self.stakes)

    @property
    def packets_missed(self) -> float:
        """The share of LLC misses that I/O tenants take on inbound data, 0..1."""
        read = self.fills(self.readers)
        return min(1.0, self.inbound / read) if read else 0.0

    def misses(self, tenant: str) -> float:
        """Return a tenant's LLC misses per second; 0 if asleep."""
        return self.looks[tenant].misses_per_s if tenant in self.looks else 0.0

    def hits_save(self, tenant: str) -> float:
        """Return the share of cycles that LLC hits save a tenant; 0 if asleep."""
        seen, rates = self.looks.get(tenant), self.sample.tenants.get(tenant)
        if seen is None or rates is None or not rates.cycles_per_s:
            return 0.0
        hits_per_s = max(0.0, seen.references_per_s - seen.misses_per_s)
        return hits_per_s * MISS_CYCLES / rates.cycles_per_s

    def traffic(self, tenant: str) -> float:
        """Return a tenant's memory traffic in bytes per second, as far as counted.

        The traffic is computed from LLC misses, or measured by monitoring if higher. Monitored
        traffic includes prefetches.
        """
        rates = self.sample.tenants.get(tenant)
        monitored = rates.memory_bytes_per_s if rates is not None else None
        return max(self.misses(tenant) * LINE, monitored or 0.0)

    def brought(self, some: Set[str], ports: Set[str]) -> float:
        """Return the share of the ports `some` in the lines that `ports` bring into the LLC.

        An allocated line is written to memory later, so memory traffic shows the share. If the
        traffic of a port is not counted, all ports count alike.
        """
        counted = {port: one.memory_bytes_per_s for port, one in self.sample.ports.items()}
        traffic = {port: counted.get(port) for port in ports}
        known = [one for one in traffic.values() if one is not None]
        everything = math.fsum(known)
        if len(known) < len(ports) or not everything:
            return len(some) / len(ports)
        return math.fsum(traffic[port] or 0.0 for port in some) / everything

    def fills(self, who: frozenset[str]) -> float:
        """Return the LLC fills of these tenants in lines per second."""
        return math.fsum(self.misses(one) for one in who)

    def relief(self, whom: frozenset[str], kept_out: float) -> float:
        """Return the possible gain of tenants `whom` without `kept_out` fills per second."""
        return self.stake(whom) * kept_out / self._all_fills if self._all_fills else 0.0


def saved(before: float, after: float) -> float:
    """Return the likely share of stalls saved by a space of `after` instead of `before`.

    Misses fall with the square root of a cache's size: A. Hartstein et al., "Cache miss behavior:
    is it sqrt(2)?" (Computing Frontiers 2006).
    """
    return 1.0 - math.sqrt(max(0.0, before) / after)  # DDIO may have ways closed to tenants
