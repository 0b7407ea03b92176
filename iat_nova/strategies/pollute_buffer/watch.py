# SPDX-License-Identifier: Apache-2.0
"""At rest: is the load still the one that was judged?"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from iat_nova.model import DomainInventory, Sample
from iat_nova.strategies.pollute_buffer import judge
from iat_nova.strategies.pollute_buffer.judge import Look
from iat_nova.strategies.pollute_buffer.state import State

CHANGED = 0.10  # relative; beyond it, and beyond what is usual here, the load is another
USUAL = 2.5  # times the usual largest deviation
LEARNT = 8  # samples at rest from which the usual deviation and the mean are taken
SURE = 2  # samples in a row


def watch(state: State, inventory: DomainInventory, sample: Sample) -> tuple[State, str | None]:
    """Compare a sample with what was judged; return what to remember and what changed, if sure."""
    now = judge.look(inventory.tenants, sample)
    if other := judge.other_load(inventory.tenants, state.looks, now):
        return state, f"{other}: another load"
    deviation, what = max(_deviations(state, now), default=(0.0, ""))
    if deviation > max(CHANGED, USUAL * state.deviation):
        strange = state.strange + 1
        seen = dataclasses.replace(state, strange=strange)
        return seen, f"{what} changed by {deviation:.0%}" if strange >= SURE else None
    count = min(state.counted + 1, LEARNT)
    return dataclasses.replace(
        state,
        strange=0,
        looks=judge.mean(state.looks, now, count),
        counted=count,
        deviation=state.deviation + (deviation - state.deviation) / count,
    ), None


def _deviations(state: State, now: judge.Looks) -> Iterator[tuple[float, str]]:
    """Yield by how much each quantity that matters differs from what was judged."""
    for tenant in state.looks.keys() | now.keys():
        before, after = state.looks.get(tenant), now.get(tenant)
        if before is None or after is None:
            yield 1.0, f"{tenant} {'fell asleep' if after is None else 'woke up'}: its load"
            continue
        yield from ((value, f"{tenant}: {name}") for value, name in _of(before, after))


def _of(before: Look, after: Look) -> Iterator[tuple[float, str]]:
    yield _relative(before.speed, after.speed), "speed"
    if max(before.stalled, after.stalled) > judge.MATTERS:
        yield _relative(before.misses_per_s, after.misses_per_s), "LLC misses"
        yield _relative(before.references_per_s, after.references_per_s), "LLC references"


def _relative(before: float, after: float) -> float:
    most = max(before, after)
    return abs(after - before) / most if most else 0.0
