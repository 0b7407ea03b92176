# SPDX-License-Identifier: Apache-2.0
"""At rest: detection of a changed load."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from iat_nova.model import Message, message
from iat_nova.strategies.pollute_buffer import judge
from iat_nova.strategies.pollute_buffer.judge import Looks, Now
from iat_nova.strategies.pollute_buffer.state import State

CHANGED = 0.10  # relative deviation; a larger, unusual deviation is a changed load
USUAL = 2.5  # times the usual largest deviation; a larger deviation is unusual
LEARNT = 8  # samples at rest in the usual deviation and in the means
SETTLING = 2  # first samples at rest; they replace the readings of trials
UNSETTLED = 0.30  # relative deviation; during the first SETTLING samples, instead of CHANGED
SURE = 2  # deviating samples in a row at which the load has changed


def watch(state: State, now: Now) -> tuple[State, Message | None]:
    """Compare a sample with the judged load; return the next state, and a cause or None.

    A cause is returned once the change of load is certain.
    """
    if other := judge.other_load(now.inventory.tenants, state.looks, now.looks):
        return state, message("another-load", tenant=other)
    deviation, tenant, what = max(_deviations(state.looks, now.looks), default=(0.0, "", ""))
    settling = state.counted < SETTLING
    if deviation > (UNSETTLED if settling else max(CHANGED, USUAL * state.deviation)):
        strange = state.strange + 1
        seen = dataclasses.replace(state, strange=strange)
        why = message(what, tenant=tenant, change=deviation)
        return seen, why if strange >= SURE else None
    count = min(state.counted + 1, LEARNT)
    usual = state.deviation
    if not settling:
        usual += (deviation - usual) / (LEARNT if usual else 1)
    return dataclasses.replace(
        state,
        strange=0,
        looks=judge.mean(state.looks, now.looks, count),
        counted=count,
        deviation=usual,
    ), None


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
        if old.stalled > judge.MATTERS or new.stalled > judge.MATTERS:
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
