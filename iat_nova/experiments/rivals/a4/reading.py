# SPDX-License-Identifier: Apache-2.0
"""From a tick's samples to the figures that the rules compare."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from iat_nova.experiments.rivals.a4.state import DeviceKind, Label, TickRates, TickReading
from iat_nova.model import Rates, Sample


def read(first: Sample, second: Sample, pooled: Iterable[str] = ()) -> TickReading:
    """Return the average of two samples; `pooled` are the antagonists without storage.

    A tenant missing from either sample is absent; a value unknown in either sample is None.
    """
    both = first.tenants.keys() & second.tenants.keys()
    rates = {t: _sum((first.tenants[t], second.tenants[t])) for t in sorted(both)}
    hits = _mean(first.ddio_hits_per_s, second.ddio_hits_per_s)
    misses = _mean(first.ddio_misses_per_s, second.ddio_misses_per_s)
    return TickReading(
        tenants={tenant: _look(one) for tenant, one in rates.items()},
        pool=_pool(rates, pooled),
        ddio_miss=_percent(misses, hits),
        memory=_mean(first.memory_bytes_per_s, second.memory_bytes_per_s),
        storage=_mean(first.storage_in_bytes_per_s, second.storage_in_bytes_per_s),
        network=_mean(first.network_in_bytes_per_s, second.network_in_bytes_per_s),
    )


def pooled(labels: Iterable[Label], antagonists: Iterable[str]) -> tuple[str, ...]:
    """Return the ids of the antagonists without storage, whose rates `read` adds up."""
    from_cores = {label.id for label in labels if label.kind is not DeviceKind.STORAGE}
    return tuple(tenant for tenant in antagonists if tenant in from_cores)


def _pool(rates: Mapping[str, Rates], names: Iterable[str]) -> TickRates | None:
    found = [rates[name] for name in names if name in rates]
    return _look(_sum(found)) if found else None


def _sum(rates: Iterable[Rates]) -> Rates:
    rates = list(rates)
    return Rates(
        sum(one.instructions_per_s for one in rates),
        sum(one.cycles_per_s for one in rates),
        sum(one.references_per_s for one in rates),
        sum(one.misses_per_s for one in rates),
        _total(one.l2_hits_per_s for one in rates),
        _total(one.l2_misses_per_s for one in rates),
    )


def _total(values: Iterable[float | None]) -> float | None:
    known = list(values)
    return None if None in known else sum(value for value in known if value is not None)


def _look(rates: Rates) -> TickRates:
    miss = _percent(rates.misses_per_s, rates.references_per_s - rates.misses_per_s)
    return TickRates(
        hit=None if miss is None else 100.0 - miss,
        l2_miss=_percent(rates.l2_misses_per_s, rates.l2_hits_per_s),
    )


def _percent(misses: float | None, hits: float | None) -> float | None:
    """Return misses in percent of all accesses; None if a count is unknown or both are 0."""
    if misses is None or hits is None or misses + hits <= 0:
        return None
    return 100.0 * misses / (misses + hits)


def _mean(first: float | None, second: float | None) -> float | None:
    return None if first is None or second is None else (first + second) / 2
