# SPDX-License-Identifier: Apache-2.0
"""What is seen of a cache domain, by which moves are chosen."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping

from iat_nova.model import DomainInventory, Parameters, Priority, Sample
from iat_nova.strategies.pollute_buffer import judge
from iat_nova.strategies.pollute_buffer.judge import Floors, Looks
from iat_nova.strategies.pollute_buffer.plan import Plan

LINE = 64  # bytes that a miss moves


@dataclasses.dataclass(frozen=True, slots=True)
class View:
    """What moves are chosen by. `settled`: none has been kept since the load last changed.

    `stakes`: what all would gain if a tenant never missed. `lacks`: what they would if it had its
    floor; that of `late` ones was not known when one was kept. `ids`: everybody, of whom some are
    `best_effort` and some `readers` of what devices write.
    """

    inventory: DomainInventory
    parameters: Parameters
    sample: Sample
    looks: Looks
    settled: bool
    stakes: Mapping[str, float]
    lacks: Mapping[str, float]
    late: frozenset[str]
    ids: frozenset[str]
    best_effort: frozenset[str]
    readers: frozenset[str]

    @classmethod
    def of(
        cls,
        inventory: DomainInventory,
        parameters: Parameters,
        sample: Sample,
        looks: Looks,
        floors: Floors | None = None,
        *,
        settled: bool = True,
        late: frozenset[str] = frozenset(),
    ) -> View:
        """Look at each tenant once."""
        tenants = inventory.tenants
        return cls(
            inventory,
            parameters,
            sample,
            looks,
            settled,
            judge.stakes(tenants, looks),
            judge.lacks(tenants, looks, floors or {}),
            late,
            frozenset(tenant.id for tenant in tenants),
            frozenset(one.id for one in tenants if one.priority is Priority.BE),
            frozenset(tenant.id for tenant in tenants if tenant.io),
        )

    def stake(self, who: frozenset[str]) -> float:
        """Return what all would gain if these never missed."""
        # The same in any order: a set's is another in the process that replays the decision.
        return math.fsum(self.stakes.get(one, 0.0) for one in who)

    @property
    def inbound(self) -> float:
        """What devices fill: lines a second. Where hits are not counted, all that they write."""
        missed = self.sample.ddio_misses_per_s
        return (self.sample.inbound_lines_per_s if missed is None else missed) or 0.0

    @property
    def packets_missed(self) -> float:
        """Return what share of their misses those who read what devices write have for that."""
        read = self.fills(self.readers)
        return min(1.0, self.inbound / read) if read else 0.0

    def inbound_above(self, plan: Plan) -> float:
        """Return what devices fill of the topmost ways alone: nothing where they fill any way."""
        return self.inbound if plan.ddio else 0.0

    def misses(self, tenant: str) -> float:
        """Return a tenant's LLC misses a second; 0 while it sleeps."""
        return self.looks[tenant].misses_per_s if tenant in self.looks else 0.0

    def hits_save(self, tenant: str) -> float:
        """Return what share of its cycles a tenant would stall more if it never hit; 0 asleep."""
        seen, rates = self.looks.get(tenant), self.sample.tenants.get(tenant)
        if seen is None or rates is None or not rates.cycles_per_s:
            return 0.0
        hits_per_s = max(0.0, seen.references_per_s - seen.misses_per_s)
        return hits_per_s * judge.MISS_CYCLES / rates.cycles_per_s

    def traffic(self, tenant: str) -> float:
        """Return how many bytes a second a tenant moves to and from memory, as far as is counted.

        Its misses, or more where it is monitored: these have what was fetched ahead as well.
        """
        rates = self.sample.tenants.get(tenant)
        monitored = rates.memory_bytes_per_s if rates is not None else None
        return max(self.misses(tenant) * LINE, monitored or 0.0)

    def fills(self, who: frozenset[str]) -> float:
        """Return how many lines a second these bring into the cache."""
        return math.fsum(self.misses(one) for one in who)

    def relief(self, whom: frozenset[str], kept_out: float) -> float:
        """Return what these could gain without so many of all fills."""
        fills = self.fills(self.ids) + self.inbound
        return self.stake(whom) * kept_out / fills if fills else 0.0

    def pollution(self, plan: Plan, who: frozenset[str]) -> float:
        """Return what confining these could bring: of what is at stake, their part of the fills.

        0 when nobody else would be left outside the buffer.
        """
        free = self.ids - plan.confined
        fills = self.fills(free) + self.inbound
        return self.stake(free - who) * self.fills(who & free) / fills if fills else 0.0
