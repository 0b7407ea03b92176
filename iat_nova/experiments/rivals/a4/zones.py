# SPDX-License-Identifier: Apache-2.0
"""INIT, ADJUST, STABLE: sizes of the low-priority zone and of the trash ways.

A numbered rule applies in each tick. ADJUST grows the low-priority zone by a way per tick while no
high-priority tenant loses. Then ADJUST takes ways from the antagonists while the loss of ways costs
nothing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from iat_nova.experiments.rivals.a4 import thresholds as t
from iat_nova.experiments.rivals.a4.detection import guarded
from iat_nova.experiments.rivals.a4.state import (
    A4Memory,
    A4Phase,
    DeviceKind,
    Label,
    TickReading,
    Zones,
)
from iat_nova.model import Message, message

RESTART, GROW, SHRINK, SHRUNK, NOTHING, LARGER, TURN, GROWN, SMALLER, DONE = range(1, 11)
CHANGED, DETECTED = 11, 12
LAUNCHED = {A4Phase.INIT: 13, A4Phase.ADJUST: 14, A4Phase.STABLE: 15}
_INIT, _ADJUST, _STABLE = A4Phase.INIT, A4Phase.ADJUST, A4Phase.STABLE
TRANSITIONS: tuple[tuple[int, A4Phase, A4Phase, str], ...] = (
    (RESTART, _INIT, _INIT, "a4-restart"),
    (GROW, _INIT, _ADJUST, "a4-grow"),
    (SHRINK, _INIT, _ADJUST, "a4-shrink"),
    (SHRUNK, _INIT, _STABLE, "a4-shrunk"),
    (NOTHING, _INIT, _STABLE, "a4-nothing"),
    (LARGER, _ADJUST, _ADJUST, "a4-larger"),
    (TURN, _ADJUST, _ADJUST, "a4-turn"),
    (GROWN, _ADJUST, _STABLE, "a4-grown"),
    (SMALLER, _ADJUST, _ADJUST, "a4-smaller"),
    (DONE, _ADJUST, _STABLE, "a4-done"),
    (CHANGED, _STABLE, _INIT, "a4-changed"),
    (DETECTED, _STABLE, _INIT, "a4-detected"),
    (LAUNCHED[_INIT], _INIT, _INIT, "a4-launched"),
    (LAUNCHED[_ADJUST], _ADJUST, _INIT, "a4-launched"),
    (LAUNCHED[_STABLE], _STABLE, _INIT, "a4-launched"),
)
_CODES = {number: code for number, _, _, code in TRANSITIONS}

Next = tuple[A4Memory, int, tuple[Message, ...]]
"""The memory after a tick, the rule, and what was against another step."""


def meaning(rule: int) -> Message:
    """Return the message that explains a numbered rule."""
    return message(_CODES[rule])


def size(memory: A4Memory, labels: Iterable[Label], now: TickReading, most: int) -> Next | None:
    """Return the next step of INIT or ADJUST, None in STABLE. `most`: maximum low-priority ways."""
    if memory.phase is A4Phase.STABLE:
        return None
    if memory.phase is A4Phase.INIT:
        return _init(memory, now, most)
    if memory.flags.grow:
        return _grow(memory, labels, now, most)
    return _shrink(memory, labels, now)


def _init(memory: A4Memory, now: TickReading, most: int) -> Next:
    flags, zones = memory.flags, memory.zones
    if flags.restart:
        low = t.LEAST_WAYS if flags.grow or flags.shrink else zones.low
        trash = t.LEAST_WAYS if flags.shrink else zones.trash
        flags = dataclasses.replace(flags, restart=False)
        return dataclasses.replace(memory, flags=flags, zones=Zones(low, trash)), RESTART, ()
    if flags.grow:
        low = min(t.FIRST_WAYS, most)
        zones = Zones(low, low if flags.shrink else zones.trash)
        after = dataclasses.replace(memory, phase=A4Phase.ADJUST, zones=zones, initial=now)
        return after, GROW, ()
    if flags.shrink:
        after = _begin_shrink(memory, now, undone=False)
        return after, SHRINK if after.phase is A4Phase.ADJUST else SHRUNK, ()
    zones = Zones(zones.low, 0)
    return dataclasses.replace(memory, phase=A4Phase.STABLE, zones=zones, stable=now), NOTHING, ()


def _grow(memory: A4Memory, labels: Iterable[Label], now: TickReading, most: int) -> Next:
    flags, zones = memory.flags, memory.zones
    bad = harm(labels, memory.initial or now, now)
    if not bad and zones.low < most:
        low = zones.low + 1
        larger = Zones(low, low if flags.shrink else zones.trash)
        return dataclasses.replace(memory, zones=larger), LARGER, ()
    if bad:
        zones = Zones(max(t.LEAST_WAYS, zones.low - 1), zones.trash)
    flags = dataclasses.replace(flags, grow=False)
    after = dataclasses.replace(memory, zones=zones, flags=flags)
    if not flags.shrink:
        return _stable(after, now, undone=bool(bad)), GROWN, bad
    after = _begin_shrink(after, now, undone=bool(bad))
    return after, TURN if after.phase is A4Phase.ADJUST else GROWN, bad


def _shrink(memory: A4Memory, labels: Iterable[Label], now: TickReading) -> Next:
    zones = memory.zones
    bad = cost(memory, labels, memory.initial or now, now)
    if not bad and zones.trash > t.LEAST_WAYS:
        return dataclasses.replace(memory, zones=Zones(zones.low, zones.trash - 1)), SMALLER, ()
    if bad:
        zones = Zones(zones.low, zones.trash + 1)
    flags = dataclasses.replace(memory.flags, shrink=False)
    after = dataclasses.replace(memory, zones=zones, flags=flags)
    return _stable(after, now, undone=bool(bad)), DONE, bad


def _begin_shrink(memory: A4Memory, now: TickReading, undone: bool) -> A4Memory:
    """Take the first way from the antagonists, if the zone is large enough."""
    zones = memory.zones
    if zones.low > t.FIRST_WAYS:
        return dataclasses.replace(
            memory,
            phase=A4Phase.ADJUST,
            zones=Zones(zones.low, zones.low - 1),
            initial=memory.previous or now,
        )
    flags = dataclasses.replace(memory.flags, shrink=False)
    small = Zones(zones.low, t.LEAST_WAYS)
    return _stable(dataclasses.replace(memory, zones=small, flags=flags), now, undone)


def _stable(memory: A4Memory, now: TickReading, undone: bool) -> A4Memory:
    """Enter STABLE with the reading of the sizes in force.

    If the last step was undone, the reading is that of the tick before.
    """
    shown = (memory.previous or now) if undone else now
    return dataclasses.replace(memory, phase=A4Phase.STABLE, stable=shown)


def harm(labels: Iterable[Label], initial: TickReading, now: TickReading) -> tuple[Message, ...]:
    """Return the harm of a larger low-priority zone: fewer LLC hits, or more DDIO misses."""
    found = [
        message("tenant-hits-changed", tenant=label.id, before_percent=before, after_percent=after)
        for label, before, after in guarded(labels, initial, now)
        if after < (1.0 - t.HIT_CHANGE) * before and before - after > t.HIT_POINTS_GROW
    ]
    if _beyond(initial.ddio_miss, now.ddio_miss, 1.0 + t.DDIO_MISS_CHANGE):
        found.append(
            message(
                "ddio-misses-changed",
                before_percent=initial.ddio_miss or 0.0,
                after_percent=now.ddio_miss or 0.0,
            )
        )
    return tuple(found)


def cost(
    memory: A4Memory, labels: Iterable[Label], initial: TickReading, now: TickReading
) -> tuple[Message, ...]:
    """Return the cost of fewer trash ways for memory, antagonists, storage and network."""
    found = []
    if _beyond(initial.memory, now.memory, 1.0 + t.MEMORY_CHANGE):
        found.append(message("more-memory-traffic"))
    kinds = {label.kind for label in labels if label.id in memory.antagonists}
    if kinds - {DeviceKind.STORAGE} and initial.pool and now.pool:
        most = 1.0 + t.MISS_CHANGE
        if _beyond(initial.pool.l2_miss, now.pool.l2_miss, most):
            found.append(message("antagonists-miss-l2"))
        if _beyond(initial.pool.llc_miss, now.pool.llc_miss, most):
            found.append(message("antagonists-miss-llc"))
    if DeviceKind.STORAGE in kinds:
        if _below(initial.storage, now.storage, 1.0 - t.STORAGE_CHANGE):
            found.append(message("storage-reads-less"))
        if _below(initial.network, now.network, 1.0 - t.NETWORK_CHANGE):
            found.append(message("network-less"))
    return tuple(found)


def _beyond(before: float | None, now: float | None, times: float) -> bool:
    """Return whether a rate exceeds `times` its former value; false if a rate is unknown."""
    return before is not None and now is not None and now > times * before


def _below(before: float | None, now: float | None, times: float) -> bool:
    """Return whether a rate is below `times` its former value; false if a rate is unknown."""
    return before is not None and now is not None and now < times * before
