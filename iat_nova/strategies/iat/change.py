# SPDX-License-Identifier: Apache-2.0
"""Stable or not: a sample against a reference (ISCA 2021, section IV-B).

The reference is the sample at the last change that led to an action, not the previous sample. A
drift of 2 % per iteration is thus visible. A move counts if larger than THRESHOLD_STABLE *and* a
floor, so jitter of an idle guest does not count. A quantity missing on either side is not compared.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from iat_nova.model import (
    DDIO,
    Change,
    Message,
    Parameters,
    Quantity,
    Rates,
    Sample,
    message,
)
from iat_nova.strategies.iat.fsm import Signal
from iat_nova.strategies.iat.roster import Roster
from iat_nova.strategies.iat.state import IatState

_LLC = (Quantity.REFERENCES, Quantity.MISSES)


class Direction(enum.Enum):
    """Direction of a change; `STEADY` if the change is too small to count."""

    DOWN = enum.auto()
    STEADY = enum.auto()
    UP = enum.auto()


def direction(before: float, after: float, threshold: float, floor: float) -> Direction:
    """Return the direction; moves up to `threshold` (relative) or `floor` do not count."""
    distance = abs(after - before)
    if distance <= floor or distance <= threshold * abs(before):
        return Direction.STEADY
    return Direction.UP if after > before else Direction.DOWN


class SampleDifferences(NamedTuple):
    """Differences between a sample and the reference.

    `unseen`: the sample has a quantity that the reference lacks.
    """

    changes: tuple[Change, ...]
    unseen: bool


def compare(
    reference: Sample, sample: Sample, tenants: Iterable[str], parameters: Parameters
) -> SampleDifferences:
    """Return every quantity that moved. The hot path: one pass, no objects without a move."""
    threshold, floor = parameters.threshold_stable, parameters.floor_references_per_s
    befores, afters = reference.tenants, sample.tenants
    changes: list[Change] = []
    unseen = False
    for tenant in tenants:
        after = afters.get(tenant)
        if after is None:
            continue
        before = befores.get(tenant)
        if before is None:
            unseen = True
            continue
        was, now = before.references_per_s, after.references_per_s
        # The IPC of a guest with hardly any LLC references does not matter.
        if (was > floor or now > floor) and before.cycles_per_s and after.cycles_per_s:
            ipc_was = before.instructions_per_s / before.cycles_per_s
            ipc_now = after.instructions_per_s / after.cycles_per_s
            if abs(ipc_now - ipc_was) > threshold * ipc_was:
                changes.append(Change(tenant, Quantity.IPC, ipc_was, ipc_now))
        distance = abs(now - was)
        if distance > floor and distance > threshold * was:
            changes.append(Change(tenant, Quantity.REFERENCES, was, now))
        was, now = before.misses_per_s, after.misses_per_s
        distance = abs(now - was)
        if distance > floor and distance > threshold * was:
            changes.append(Change(tenant, Quantity.MISSES, was, now))
    for quantity in (Quantity.DDIO_HITS, Quantity.DDIO_MISSES):
        then, here = getattr(reference, quantity), getattr(sample, quantity)
        if here is None:
            continue
        if then is None:
            unseen = True
        elif direction(then, here, threshold, parameters.floor_ddio_per_s) is not Direction.STEADY:
            changes.append(Change(DDIO, quantity, then, here))
    return SampleDifferences(tuple(changes), unseen)


class Moves:
    """The changes of one iteration, by subject."""

    def __init__(self, changes: Iterable[Change]) -> None:
        self._by_subject: dict[str, dict[Quantity, Change]] = {}
        for change in changes:
            self._by_subject.setdefault(change.subject, {})[change.quantity] = change

    def subjects(self) -> Collection[str]:
        """Return the subjects with a change."""
        return self._by_subject.keys()

    def moved(self, subject: str, *quantities: Quantity) -> bool:
        """Return whether any of the quantities of a subject moved."""
        mine = self._by_subject.get(subject, {})
        return any(quantity in mine for quantity in quantities)

    def without(self, subject: str) -> list[Change]:
        """Return all changes except those of one subject."""
        return [
            change
            for other, changes in self._by_subject.items()
            if other != subject
            for change in changes.values()
        ]

    def own(self, tenant: str) -> bool:
        """Return whether a tenant moved in IPC and in LLC references or misses."""
        return self.moved(tenant, Quantity.IPC) and self.moved(tenant, *_LLC)

    def rose(self, subject: str, quantity: Quantity) -> bool:
        """Return whether a quantity of a subject moved upwards."""
        change = self._by_subject.get(subject, {}).get(quantity)
        return change is not None and change.after > change.before


def exception(moves: Moves, tenants: Iterable[str], overlapping: Collection[str]) -> int | None:
    """Return the paper's exception, 1 to 3, that explains changes, or None.

    1: only IPC moved. 2: a member of `tenants` without overlap with DDIO moved in IPC and in LLC
    references or misses, while DDIO did not move. 3: a member with overlap moved in the same way,
    and DDIO moved.
    """
    subjects = moves.subjects()
    if not subjects:
        return None
    ddio_moved = DDIO in subjects
    if not ddio_moved and not any(moves.moved(subject, *_LLC) for subject in subjects):
        return 1
    if any((t in overlapping) is ddio_moved and moves.own(t) for t in tenants):
        return 3 if ddio_moved else 2
    return None


@dataclasses.dataclass(frozen=True, slots=True)
class IoMoves:
    """Inputs of the state machine: DDIO, and the LLC references of the stack and the I/O tenants.

    Rates are in events per second. Fractions are relative changes since the reference sample:
    infinite from zero, 0 without such a sample.
    """

    misses_per_s: float
    misses: Direction
    hits: Direction
    traffic: Direction  # hits + misses
    references: Direction
    misses_fraction: float
    hits_fraction: float
    references_fraction: float

    def signals(self, threshold_miss_low_per_s: float) -> Signal:
        """Return the machine's signals that come from counters."""
        high = self.misses_per_s > threshold_miss_low_per_s
        left = self.misses is Direction.DOWN and self.traffic is Direction.DOWN
        flags = (
            (Signal.MISSES_HIGH, high),
            (Signal.MISSES_UP, self.misses is Direction.UP),
            (Signal.MISSES_DOWN, self.misses is Direction.DOWN),
            (Signal.HITS_DOWN, self.hits is Direction.DOWN),
            (Signal.REFERENCES_UP, self.references is Direction.UP),
            (Signal.EBBS, not high or left),
        )
        seen = Signal.NONE
        for signal, holds in flags:
            if holds:
                seen |= signal
        return seen

    def describe(self, threshold_miss_low_per_s: float) -> Message:
        """Return the rate of misses, and the relative changes of misses, hits and references."""
        high = self.misses_per_s > threshold_miss_low_per_s
        return message(
            "io-misses-above" if high else "io-misses-within",
            misses_per_s=self.misses_per_s,
            low_per_s=threshold_miss_low_per_s,
            misses_change=self.misses_fraction,
            hits_change=self.hits_fraction,
            references_change=self.references_fraction,
        )


def io_moves(
    reference: Sample, sample: Sample, roster: Roster, parameters: Parameters
) -> IoMoves | None:
    """Return the state machine's inputs, or None if DDIO was not counted in this interval."""
    hits, misses = sample.ddio_hits_per_s, sample.ddio_misses_per_s
    if hits is None or misses is None:
        return None
    hits_was, misses_was = reference.ddio_hits_per_s, reference.ddio_misses_per_s
    if hits_was is None or misses_was is None:
        hits_was, misses_was = hits, misses
    both = [
        (reference.tenants[member.id].references_per_s, sample.tenants[member.id].references_per_s)
        for member in roster.io
        if member.id in reference.tenants and member.id in sample.tenants
    ]
    references_was, references = sum(was for was, _ in both), sum(now for _, now in both)
    threshold, floor = parameters.threshold_stable, parameters.floor_ddio_per_s
    return IoMoves(
        misses_per_s=misses,
        misses=direction(misses_was, misses, threshold, floor),
        hits=direction(hits_was, hits, threshold, floor),
        traffic=direction(hits_was + misses_was, hits + misses, threshold, floor),
        references=direction(
            references_was, references, threshold, parameters.floor_references_per_s
        ),
        misses_fraction=fraction(misses_was, misses),
        hits_fraction=fraction(hits_was, hits),
        references_fraction=fraction(references_was, references),
    )


def fraction(before: float, after: float) -> float:
    """Return the relative change; infinite from zero."""
    if before:
        return (after - before) / before
    return float("inf") if after else 0.0


def rebase(
    reference: Sample, sample: Sample, changes: Iterable[Change], waiting: Collection[str]
) -> Sample:
    """Return the reference after changes that led to no action.

    Only changed quantities take their new value, so slow drifts elsewhere stay visible. Subjects in
    `waiting` keep their former values, because their turn has not come. New quantities are added.
    """
    tenants = {**sample.tenants, **reference.tenants}
    hits, misses = reference.ddio_hits_per_s, reference.ddio_misses_per_s
    for change in changes:
        if change.subject in waiting:
            continue
        if change.subject == DDIO:
            if change.quantity is Quantity.DDIO_HITS:
                hits = change.after
            else:
                misses = change.after
        else:
            before, after = tenants[change.subject], sample.tenants[change.subject]
            tenants[change.subject] = _with(before, after, change.quantity)
    return dataclasses.replace(
        reference,
        tenants=tenants,
        ddio_hits_per_s=sample.ddio_hits_per_s if hits is None else hits,
        ddio_misses_per_s=sample.ddio_misses_per_s if misses is None else misses,
    )


def _with(before: Rates, after: Rates, quantity: Quantity) -> Rates:
    """Return `before` with one quantity as in `after`."""
    match quantity:
        case Quantity.REFERENCES:
            return dataclasses.replace(before, references_per_s=after.references_per_s)
        case Quantity.MISSES:
            return dataclasses.replace(before, misses_per_s=after.misses_per_s)
        case _:
            return dataclasses.replace(
                before,
                instructions_per_s=after.instructions_per_s,
                cycles_per_s=after.cycles_per_s,
            )


def restart(reference: Sample, sample: Sample, waiting: Collection[str]) -> Sample:
    """Return the reference after an action: the sample, but former values for `waiting` tenants."""
    kept: Mapping[str, Rates] = {
        tenant: reference.tenants[tenant] for tenant in waiting if tenant in reference.tenants
    }
    if not kept:
        return sample
    return dataclasses.replace(sample, tenants={**sample.tenants, **kept})


_CODES = {
    Quantity.IPC: "ipc-changed",
    Quantity.REFERENCES: "references-changed",
    Quantity.MISSES: "misses-changed",
    Quantity.DDIO_HITS: "ddio-hits-moved",
    Quantity.DDIO_MISSES: "ddio-misses-moved",
}

_Moved = tuple[float, str, Quantity, float, float]
"""How near a change is to counting (1: counts), its subject, and the values before and after."""


def why_quiet(
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
            before, after = getattr(was, quantity), getattr(now, quantity)
            yield _near(tenant, quantity, before, after, share, floor)
    for quantity in (Quantity.DDIO_HITS, Quantity.DDIO_MISSES):
        before, after = getattr(reference, quantity), getattr(sample, quantity)
        if before is not None and after is not None:
            yield _near(DDIO, quantity, before, after, share, parameters.floor_ddio_per_s)


def _near(
    subject: str, quantity: Quantity, before: float, after: float, share: float, floor: float
) -> _Moved:
    limit = max(share * before, floor)
    near = abs(after - before) / limit if limit else 0.0
    return near, subject, quantity, before, after


def _short(value: float) -> float:
    """Return four digits of a number: the history stores every digit of each iteration."""
    return float(f"{value:.4g}")
