# SPDX-License-Identifier: Apache-2.0
"""At rest: detection of a changed load, and the reasons for leaving the ways as they are."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import NamedTuple

from iat_nova.model import Message, Parameters, message
from iat_nova.strategies import readings
from iat_nova.strategies.pollute_buffer import judge
from iat_nova.strategies.pollute_buffer.judge import Now
from iat_nova.strategies.pollute_buffer.state import State
from iat_nova.strategies.readings import OTHER_LOAD, Looks

CHANGED = 0.10  # relative deviation; a larger, unusual deviation is a changed load
USUAL = 2.5  # times the usual largest deviation; a larger deviation is unusual
LEARNT = 8  # samples at rest in the usual deviation and in the means

_FIELDS = {
    "speed-changed": "speed",
    "misses-changed": "misses_per_s",
    "references-changed": "references_per_s",
}
"""By code of the message, the compared field of a reading."""


class Watched(NamedTuple):
    """Result of a sample at rest: the next state, the cause of a new search, or why there is none.

    A cause is given once the change of load is certain.
    """

    state: State
    cause: Message | None
    why: tuple[Message, ...] = ()


def watch(state: State, now: Now) -> Watched:
    """Compare a sample with the judged load."""
    if other := judge.other_load(now.inventory.tenants, state.looks, now.looks):
        return Watched(state, message("another-load", tenant=other))
    deviation, tenant, what = max(_deviations(state.looks, now.looks), default=(0.0, "", ""))
    settling = state.counted < judge.ENOUGH
    limit = OTHER_LOAD if settling else max(CHANGED, USUAL * state.deviation)
    changed = _changed(state.looks, now.looks, deviation, tenant, what)
    if deviation > limit:
        strange = state.strange + 1
        seen = dataclasses.replace(state, strange=strange)
        if strange >= judge.ENOUGH:
            return Watched(seen, changed)
        return Watched(seen, None, (message("changed-once", largest=changed, limit=limit),))
    count = min(state.counted + 1, LEARNT)
    usual = state.deviation
    if not settling:
        usual += (deviation - usual) / (LEARNT if usual else 1)
    seen = dataclasses.replace(
        state,
        strange=0,
        looks=readings.mean(state.looks, now.looks, count),
        counted=count,
        deviation=usual,
    )
    if changed is None:
        return Watched(seen, None, (message("no-tenant-awake"),))
    return Watched(seen, None, (message("same-load", largest=changed, limit=_short(limit)),))


def _changed(
    before: Looks, after: Looks, deviation: float, tenant: str, what: str
) -> Message | None:
    """Return a tenant's deviation with the values before and after; None without a tenant."""
    if not what:
        return None
    change, field = _short(deviation), _FIELDS.get(what)
    if field is None:
        return message(what, tenant=tenant, change=change)
    was, now = getattr(before[tenant], field), getattr(after[tenant], field)
    return message(what, tenant=tenant, change=change, before=_short(was), after=_short(now))


def ddio(now: Now, parameters: Parameters) -> tuple[Message, ...]:
    """Return which tenant with I/O most feels that DDIO is busy; nothing if DDIO is not busy."""
    misses_per_s, low_per_s = now.sample.ddio_misses_per_s, parameters.threshold_miss_low_per_s
    if misses_per_s is None or misses_per_s <= low_per_s:
        return ()
    values = {"misses_per_s": _short(misses_per_s), "low_per_s": low_per_s}
    readers = (one.id for one in now.inventory.tenants if one.io and one.id in now.looks)
    most = max(readers, key=lambda one: now.looks[one].stalled, default=None)
    if most is None:
        return (message("ddio-busy-unread", **values),)
    stalled = _short(now.looks[most].stalled)
    return (message("ddio-busy", **values, tenant=most, stalled=stalled),)


def _short(value: float) -> float:
    """Return four digits of a number: the history stores every digit of each iteration."""
    return float(f"{value:.4g}")


def _deviations(before: Looks, after: Looks) -> Iterator[tuple[float, str, str]]:
    """Yield each tenant's deviation from the judged load, the tenant, and a message code.

    The code names the quantity with the largest deviation among the quantities that matter.
    """
    for tenant, old in before.items():
        new = after.get(tenant)
        if new is None:
            yield 1.0, tenant, "fell-asleep"
            continue
        most, name = _relative(old.speed, new.speed), "speed-changed"
        if old.stalled > judge.PAYS or new.stalled > judge.PAYS:
            misses = _relative(old.misses_per_s, new.misses_per_s)
            if misses > most:
                most, name = misses, "misses-changed"
            references = _relative(old.references_per_s, new.references_per_s)
            if references > most:
                most, name = references, "references-changed"
        yield most, tenant, name
    for tenant in after.keys() - before.keys():
        yield 1.0, tenant, "woke-up"


def _relative(before: float, after: float) -> float:
    if before == after:
        return 0.0
    return (after - before) / after if after > before else (before - after) / before
