# SPDX-License-Identifier: Apache-2.0
"""At rest: detection of a changed load, and the reasons for leaving the ways as they are."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from iat_nova.model import DDIO, Message, Parameters, TenantKind, message
from iat_nova.strategies import readings
from iat_nova.strategies.pollute_buffer import judge
from iat_nova.strategies.pollute_buffer.judge import Now
from iat_nova.strategies.pollute_buffer.state import State
from iat_nova.strategies.readings import OTHER_LOAD

CHANGED = 0.10  # relative deviation; a larger deviation, if unusual, shows a changed load
LEARNT = 8  # samples at rest in the usual deviation and in the means


Watched = tuple[State, Message | None, tuple[Message, ...]]
"""Result of a sample outside of trials: next state, cause of a new search, or why there is none.

A cause is given once the change of load is certain.
"""


def watch(state: State, now: Now) -> Watched:
    """Compare a sample outside of trials with the load for which the present masks were chosen."""
    found = max(_deviations(state, now), default=None, key=lambda one: one[:2])
    deviation, changed = 0.0, message("no-tenant-awake")
    if found:
        deviation, tenant, code, amounts = found
        values = {name: _short(one) for name, one in amounts.items()}
        changed = message(code, tenant=tenant, change=_short(deviation), **values)
    settling = state.counted < judge.ENOUGH
    limit = OTHER_LOAD if settling else judge.unusual(CHANGED, state.deviation)
    if deviation > limit:
        strange = state.strange + 1
        seen = dataclasses.replace(state, strange=strange)
        if strange >= judge.ENOUGH:
            return seen, changed, ()
        return seen, None, (message("changed-once", largest=changed, limit=limit),)
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
    same = message("same-load", largest=changed, limit=_short(limit)) if found else changed
    return seen, None, (same,)


def ddio(now: Now, parameters: Parameters) -> tuple[Message, ...]:
    """Return the tenant with I/O that a busy DDIO stalls most; nothing if DDIO is not busy."""
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


def _deviations(state: State, now: Now) -> Iterator[tuple[float, str, str, dict[str, float]]]:
    """Yield each tenant's deviation from the judged load, the tenant, and its message and amounts.

    Message and amounts are of the quantity with the largest deviation among the quantities that
    matter. The host's own processes are left out (`judge.other_loads`).
    """
    before, after = state.looks, now.looks
    own = {one.id for one in now.inventory.tenants if one.kind is TenantKind.HOST}
    for tenant in (before.keys() | after.keys()) - own - {DDIO}:
        old, new = before.get(tenant), after.get(tenant)
        if old is None or new is None:
            code = "woke-up" if old is None else "fell-asleep"
            yield 1.0, tenant, code, {}
            continue
        matter = [("speed-changed", old.speed, new.speed)]
        if max(old.stalled, new.stalled) > judge.PAYS:
            matter += [
                ("misses-changed", old.misses_per_s, new.misses_per_s),
                ("references-changed", old.references_per_s, new.references_per_s),
            ]
        change, code, was, present = max(
            (readings.change(a, b), code, a, b) for code, a, b in matter
        )
        yield change, tenant, code, {"before": was, "after": present}
