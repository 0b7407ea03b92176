# SPDX-License-Identifier: Apache-2.0
"""Detection of antagonists, and of a load other than the load for which zones were sized."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

from iat_nova.experiments.rivals.a4 import thresholds as t
from iat_nova.experiments.rivals.a4.state import (
    A4Memory,
    A4Phase,
    DeviceKind,
    Flags,
    Label,
    TickRates,
    TickReading,
)
from iat_nova.model import Action, Message, Step, message

Found = tuple[A4Memory, tuple[Step, ...]]


def antagonists(memory: A4Memory, labels: Iterable[Label], now: TickReading) -> Found:
    """Return the memory with new antagonists. If there are any, the policy restarts at INIT."""
    steps = []
    phase = memory.phase
    for label in labels:
        if label.id in memory.antagonists or label.id not in now.tenants:
            continue
        why = _guilty(label, phase, memory.launched, now)
        if why is None:
            continue
        if label.kind is DeviceKind.STORAGE and phase is A4Phase.STABLE:
            phase = A4Phase.INIT  # at once: other tenants are not judged in this tick
        flags = Flags(grow=True, shrink=True, restart=True)
        named = (*memory.antagonists, label.id)
        memory = dataclasses.replace(memory, antagonists=named, flags=flags)
        steps.append(Step(Action.SHRINK, label.id, message("antagonist", cause=why)))
    if steps:
        memory = dataclasses.replace(memory, phase=A4Phase.INIT)
    return memory, tuple(steps)


def _guilty(
    label: Label, phase: A4Phase, launched: tuple[str, ...], now: TickReading
) -> Message | None:
    """Return why a tenant is an antagonist; None if the tenant is none or cannot be judged now."""
    look = now.tenants[label.id]
    if label.kind is DeviceKind.STORAGE and phase is A4Phase.STABLE:
        return _storage(look, now)
    if phase is A4Phase.STABLE or (label.high and label.id in launched):
        return _cores(look)
    return None


def _storage(look: TickRates, now: TickReading) -> Message | None:
    """Judge storage by DDIO's misses, the share of inbound bytes, and the tenant's own misses."""
    dma, share, llc = now.ddio_miss, now.storage_percent, look.llc_miss
    if dma is None or share is None or llc is None:
        return None
    guilty = (
        dma > t.DDIO_MISS_PERCENT and share > t.STORAGE_PERCENT and llc > t.STORAGE_LLC_MISS_PERCENT
    )
    if not guilty:
        return None
    return message("storage-leaks", ddio_percent=dma, storage_percent=share, llc_percent=llc)


def _cores(look: TickRates) -> Message | None:
    """Judge a tenant by high miss rates in both L2 and LLC."""
    l2, llc = look.l2_miss, look.llc_miss
    if l2 is None or llc is None or l2 <= t.L2_MISS_PERCENT or llc <= t.LLC_MISS_PERCENT:
        return None
    return message("cores-miss", l2_percent=l2, llc_percent=llc)


def another_load(memory: A4Memory, labels: Iterable[Label], now: TickReading) -> Found:
    """Compare a tick in STABLE with the stable reading.

    On a difference, the policy restarts at INIT.
    """
    base = memory.stable
    if memory.phase is not A4Phase.STABLE or base is None:
        return memory, ()
    by_id = {label.id: label for label in labels}
    hits = tuple(_hits(by_id.values(), base, now))
    freed = tuple(_released(memory, by_id, base, now))
    if not hits and not freed:
        return memory, ()
    cores = any(
        by_id[one].kind is not DeviceKind.STORAGE for one in memory.antagonists if one in by_id
    )
    gone = {step.subject for step in freed}
    flags = Flags(
        grow=memory.flags.grow or bool(hits),
        shrink=memory.flags.shrink or cores,
        restart=True,
    )
    left = tuple(one for one in memory.antagonists if one not in gone)
    after = dataclasses.replace(memory, phase=A4Phase.INIT, antagonists=left, flags=flags)
    return after, (*hits, *freed)


def _hits(labels: Iterable[Label], base: TickReading, now: TickReading) -> Iterator[Step]:
    """Yield the high-priority tenants with a changed LLC hit rate."""
    for label, before, after in guarded(labels, base, now):
        off = abs(after - before)
        if off > t.HIT_POINTS_STABLE and off > t.HIT_CHANGE * before:
            what = message("hits-changed", before_percent=before, after_percent=after)
            yield Step(Action.REFUSE, label.id, what)


def guarded(
    labels: Iterable[Label], base: TickReading, now: TickReading
) -> Iterator[tuple[Label, float, float]]:
    """Yield LLC hit rates before and after, of high-priority tenants without a device.

    Tenants confined to the trash ways still count.
    """
    for label in labels:
        before, after = base.tenants.get(label.id), now.tenants.get(label.id)
        if not label.high or label.io or before is None or after is None:
            continue
        if before.hit is not None and after.hit is not None:
            yield label, before.hit, after.hit


def unchanged(memory: A4Memory, labels: Iterable[Label], now: TickReading) -> tuple[Message, ...]:
    """Return the largest change of a guarded hit rate, below the limits, and DDIO's misses."""
    base = memory.stable or now
    found = max(guarded(labels, base, now), key=lambda one: abs(one[2] - one[1]), default=None)
    said = [message("a4-unguarded")]
    if found is not None:
        label, before, after = found
        rates = {"before_percent": round(before, 1), "after_percent": round(after, 1)}
        limits = {"share": t.HIT_CHANGE, "points": t.HIT_POINTS_STABLE}
        said = [message("a4-same-load", tenant=label.id, **rates, **limits)]
    if now.ddio_miss is not None:
        percent = round(now.ddio_miss, 1)
        said.append(message("a4-ddio", ddio_percent=percent, limit_percent=t.DDIO_MISS_PERCENT))
    return tuple(said)


def _released(
    memory: A4Memory, labels: dict[str, Label], base: TickReading, now: TickReading
) -> Iterator[Step]:
    """Yield antagonists whose rates differ from the stable reading."""
    for one in memory.antagonists:
        if one not in labels:
            continue
        if labels[one].kind is DeviceKind.STORAGE:
            why = _less(base.storage, now.storage)
        else:
            why = _differs(base.tenants.get(one), now.tenants.get(one))
        if why:
            yield Step(Action.GROW, one, message("antagonist-no-more", cause=why))


def _less(before: float | None, now: float | None) -> Message | None:
    if before is None or now is None or now >= (1.0 - t.STORAGE_CHANGE) * before:
        return None
    return message("storage-reads", before_bytes_per_s=before, after_bytes_per_s=now)


def _differs(before: TickRates | None, now: TickRates | None) -> Message | None:
    if before is None or now is None:
        return None
    pairs = (
        ("l2-misses-changed", before.l2_miss, now.l2_miss, t.L2_MISS_CHANGE_RELEASE),
        ("llc-misses-changed", before.llc_miss, now.llc_miss, t.MISS_CHANGE),
    )
    for code, then, here, share in pairs:
        if then is not None and here is not None and abs(here - then) > share * then:
            return message(code, before_percent=then, after_percent=here)
    return None
