# SPDX-License-Identifier: Apache-2.0
"""Readers of metrics on the pressure in a cache: losses, fill, and what a strategy has left."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

from iat_nova.model import DomainInventory
from iat_nova.report import pressures
from iat_nova.report.metric_values import Sample, shown
from iat_nova.store.observed import Observed
from iat_nova.store.records import Iteration
from iat_nova.strategies.outlook import Outlook

Found = TypeVar("Found")


def _by_tenant(
    seen: Observed, find: Callable[[DomainInventory, Iteration], Mapping[str, Found]]
) -> Iterator[tuple[tuple[str, ...], Found]]:
    """Yield the labels of each tenant for which `find` has a value, and the value."""
    found = {
        number: find(seen.inventories[number], seen.latest[number])
        for number in seen.inventories.keys() & seen.latest.keys()
    }
    for number, tenant, labels in shown(seen):
        if tenant.id in found.get(number, {}):
            yield labels, found[number][tenant.id]


def stalled(seen: Observed) -> Iterator[Sample]:
    """Yield the share of each tenant's cycles that LLC misses stall."""
    for labels, loss in _by_tenant(seen, pressures.losses):
        yield labels, loss.stalled


def lost(seen: Observed) -> Iterator[Sample]:
    """Yield the bounds of what other tenants cost a tenant; no sample for an unknown bound."""
    for labels, loss in _by_tenant(seen, pressures.losses):
        yield (*labels, "least"), loss.least
        if loss.likely is not None:
            yield (*labels, "likely"), loss.likely
        yield (*labels, "most"), loss.most


def filled(seen: Observed) -> Iterator[Sample]:
    """Yield the share of the LLC that each tenant fills, and the source of the number."""
    for labels, fill in _by_tenant(seen, pressures.fills):
        yield (*labels, "monitored" if fill.monitored else "estimated"), fill.share


def exhausted(seen: Observed) -> Iterator[Sample]:
    """Yield whether the strategy has no move left; no sample if not known."""
    for number, iteration in sorted(seen.latest.items()):
        known = pressures.exhausted(iteration)
        if known is not None:
            yield (str(number),), known


def outlooks(seen: Observed) -> Iterator[Sample]:
    """Yield 1 for the present outlook of each cache domain, 0 for all other codes."""
    for number, iteration in sorted(seen.latest.items()):
        for code in Outlook:
            yield (str(number), code.value), code == iteration.outlook


def worth(seen: Observed) -> Iterator[Sample]:
    """Yield the estimated gain by enforcing of each cache domain; nothing while enforcing."""
    for number in sorted(seen.inventories.keys() & seen.latest.keys()):
        found = pressures.worth(seen.inventories[number], seen.latest[number])
        for bound in ("likely", "most") if found is not None else ():
            yield (str(number), bound), getattr(found, bound)


def newcomers(seen: Observed) -> Iterator[Sample]:
    """Yield the ways that a newcomer of each priority would find; no sample if not known."""
    for number in sorted(seen.inventories.keys() & seen.latest.keys()):
        found = pressures.newcomers(seen.inventories[number], seen.latest[number])
        for priority, ways in found.items():
            yield (str(number), priority.value), ways
