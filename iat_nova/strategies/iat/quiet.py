# SPDX-License-Identifier: Apache-2.0
"""Reasons for an iteration without an action: the largest change, and the limits above it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from iat_nova.model import DDIO, Message, Parameters, Quantity, Rates, Sample, message
from iat_nova.strategies.iat.state import IatState

_CODES = {
    Quantity.IPC: "ipc-changed",
    Quantity.REFERENCES: "references-changed",
    Quantity.MISSES: "misses-changed",
    Quantity.DDIO_HITS: "ddio-hits-moved",
    Quantity.DDIO_MISSES: "ddio-misses-moved",
}

_Moved = tuple[float, str, Quantity, float, float]
"""How near a change is to counting (1: counts), its subject, and the values before and after."""


def why(
    state: IatState,
    reference: Sample,
    sample: Sample,
    tenants: Iterable[str],
    parameters: Parameters,
) -> tuple[Message, ...]:
    """Return why nothing is done: a pause between changes, or all changes below the thresholds."""
    if state.retry_at_s is not None and sample.taken_at_s < state.retry_at_s:
        return (message("masks-held", delay_s=round(state.retry_at_s - sample.taken_at_s, 1)),)
    found = max(_moved(reference, sample, tenants, parameters), default=None)
    said = [message("nothing-measured")]
    if found is not None:
        _, subject, quantity, before, after = found
        change = abs(after - before) / before if before else 0.0
        values = {"before": _short(before), "after": _short(after), "change": _short(change)}
        largest = message(_CODES[quantity], tenant=subject, **values)
        limit = parameters.threshold_stable
        floor_per_s = parameters.floor_references_per_s
        if subject == DDIO:
            floor_per_s = parameters.floor_ddio_per_s
        said = [message("no-change", largest=largest, limit=limit, floor_per_s=floor_per_s)]
    misses_per_s, low_per_s = sample.ddio_misses_per_s, parameters.threshold_miss_low_per_s
    if misses_per_s is not None and misses_per_s > low_per_s:
        high = {"misses_per_s": _short(misses_per_s), "low_per_s": low_per_s}
        said.append(message("ddio-high-unchanged", **high))
    return tuple(said)


def _moved(
    reference: Sample, sample: Sample, tenants: Iterable[str], parameters: Parameters
) -> Iterator[_Moved]:
    """Yield each quantity with the smaller of both ratios of its change to its thresholds."""
    share, floor = parameters.threshold_stable, parameters.floor_references_per_s
    for tenant in tenants:
        was, now = reference.tenants.get(tenant), sample.tenants.get(tenant)
        if was is None or now is None:
            continue
        if max(was.references_per_s, now.references_per_s) > floor:
            yield _near(tenant, Quantity.IPC, was.ipc, now.ipc, share, 0.0)
        for quantity in (Quantity.REFERENCES, Quantity.MISSES):
            yield _near(tenant, quantity, *_both(was, now, quantity), share, floor)
    for quantity in (Quantity.DDIO_HITS, Quantity.DDIO_MISSES):
        before, after = getattr(reference, quantity), getattr(sample, quantity)
        if before is not None and after is not None:
            yield _near(DDIO, quantity, before, after, share, parameters.floor_ddio_per_s)


def _both(was: Rates, now: Rates, quantity: Quantity) -> tuple[float, float]:
    return getattr(was, quantity), getattr(now, quantity)


def _near(
    subject: str, quantity: Quantity, before: float, after: float, share: float, floor: float
) -> _Moved:
    limit = max(share * before, floor)
    near = abs(after - before) / limit if limit else 0.0
    return near, subject, quantity, before, after


def _short(value: float) -> float:
    """Return four digits of a number: the history stores every digit of each iteration."""
    return float(f"{value:.4g}")
