# SPDX-License-Identifier: Apache-2.0
"""The agents' metrics in Prometheus, by host: a query per metric, for all hosts together."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator, Mapping

from .hosts import Domain, Reading

Query = Callable[[str], Iterable[tuple[Mapping[str, str], float]]]
"""Runs a PromQL query; returns each sample's labels and value."""

MOSTLY = 0.5  # share of the period in which an agent must have been exhausted
AGE_LEAST_S = 20.0  # an agent's data may be at least so old: a scrape is often 15 s apart


@dataclasses.dataclass(slots=True)
class Seen:
    """Metrics of a host's agent. `age_s`: oldest age of a cache domain's last iteration.

    `guests`: readings by UUID and cache domain. `critical`, `io`: UUIDs of such guests.
    """

    enforcing: bool = False
    age_s: float = math.inf
    domains: dict[int, Domain] = dataclasses.field(default_factory=dict)
    guests: dict[str, dict[int, Reading]] = dataclasses.field(default_factory=dict)
    critical: set[str] = dataclasses.field(default_factory=set)
    io: set[str] = dataclasses.field(default_factory=set)


def oldest_s(period_s: float) -> float:
    """Return the maximum age of an agent's data, in seconds, for an audit over `period_s`."""
    return max(AGE_LEAST_S, period_s / 10)


def read(query: Query, host_label: str, period_s: int) -> dict[str, Seen]:
    """Return each agent's metrics, by host name (the value of the label).

    Shares are means over the period. A loss is the likely loss if known, otherwise the loss shown
    by the guest: the minimum over the period, of guests present for the whole period. Raises the
    errors of `query`.
    """
    reader = _Reader(query, host_label, period_s)
    found: dict[str, Seen] = {}
    for host, _, age_s in reader.of("time() - iat_nova_last_iteration_time_seconds"):
        seen = found.setdefault(host, Seen(age_s=0.0))
        seen.age_s = max(seen.age_s, age_s)
    for host, _, value in reader.of("iat_nova_enforcing"):
        if host in found:
            found[host].enforcing = value == 1
    reader.domains(found)
    reader.guests(found)
    return found


class _Reader:
    def __init__(self, query: Query, host_label: str, period_s: int) -> None:
        self._query, self._label, self._period = query, host_label, f"[{period_s}s]"
        self._before = f" offset {period_s}s"

    def of(self, promql: str) -> Iterator[tuple[str, Mapping[str, str], float]]:
        """Yield host, labels and value of each sample with a host name."""
        for labels, value in self._query(promql):
            if host := labels.get(self._label):
                yield host, labels, value

    def domains(self, found: Mapping[str, Seen]) -> None:
        """Add the cache domains."""
        exhausted = self._by_domain(f"avg_over_time(iat_nova_exhausted{self._period})")
        finds: dict[tuple[str, int], dict[bool, float]] = {}
        newcomers = f"min_over_time(iat_nova_newcomer_ways{self._period})"
        for host, labels, ways in self.of(newcomers):
            key = host, int(labels["domain"])
            finds.setdefault(key, {})[labels["priority"] == "PC"] = ways
        for (host, number), ways in self._by_domain("iat_nova_llc_ways").items():
            if host in found and ways:
                share = exhausted.get((host, number))
                found[host].domains[number] = Domain(
                    None if share is None else share >= MOSTLY,
                    int(ways),
                    {who: n / ways for who, n in finds.get((host, number), {}).items()},
                )

    def guests(self, found: Mapping[str, Seen]) -> None:
        """Add the guests."""
        for host, labels, _ in self.of('iat_nova_tenant_info{kind="guest"}'):
            if host in found:
                uuid = labels["tenant"]
                found[host].guests[uuid] = {}
                found[host].critical |= {uuid} if labels["priority"] == "PC" else set()
                found[host].io |= {uuid} if labels["io"] == "true" else set()
        losses = {key: loss for key, loss in self._losses("least").items() if loss}
        losses |= self._losses("likely")
        fills = self._by_guest(f"avg_over_time(iat_nova_tenant_llc_ratio{self._period})")
        stalled = self._by_guest(f"avg_over_time(iat_nova_tenant_stalled_ratio{self._period})")
        for (host, uuid, number), share in stalled.items():
            known = fills.get((host, uuid, number))
            if host in found and uuid in found[host].guests and known is not None:
                loss = losses.get((host, uuid, number))
                found[host].guests[uuid][number] = Reading(share, known, loss)

    def _losses(self, bound: str) -> dict[tuple[str, str, int], float]:
        """Return the least loss of the period, of guests present for the whole period."""
        name = f'iat_nova_tenant_loss_ratio{{bound="{bound}"}}'
        return self._by_guest(
            f"min_over_time({name}{self._period}) and {name} and {name}{self._before}"
        )

    def _by_domain(self, promql: str) -> dict[tuple[str, int], float]:
        return {(host, int(labels["domain"])): value for host, labels, value in self.of(promql)}

    def _by_guest(self, promql: str) -> dict[tuple[str, str, int], float]:
        return {
            (host, labels["tenant"], int(labels["domain"])): value
            for host, labels, value in self.of(promql)
        }
