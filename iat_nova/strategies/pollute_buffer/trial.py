# SPDX-License-Identifier: Apache-2.0
"""Evaluation of a trial's samples."""

from __future__ import annotations

import dataclasses
from collections.abc import Set

from iat_nova.model import DDIO, DomainInventory, Message, Parameters, message
from iat_nova.strategies import readings
from iat_nova.strategies.pollute_buffer import judge
from iat_nova.strategies.pollute_buffer.judge import Now
from iat_nova.strategies.pollute_buffer.state import State
from iat_nova.strategies.readings import Looks

LOOKS = 3  # largest number of samples of a trial
SUFFERS = 0.05  # share of speed; a trial is undone if a protected tenant loses more


@dataclasses.dataclass(frozen=True, slots=True)
class Shown:
    """What a trial has shown so far.

    `looks`, `counted`: mean of the trial's samples, and their number. `other`: a tenant, or `DDIO`,
    with a changed load, so that nothing can be concluded. `changed`: all tenants with a changed
    load. `keep`: whether to keep the move; None if the samples do not decide yet. `why`: the
    reason.
    """

    looks: Looks
    counted: int
    other: str | None
    changed: tuple[str, ...]
    keep: bool | None
    why: Message


def shown(state: State, now: Now, numbers: Parameters) -> Shown:
    """Return what the present trial has shown, with a further sample."""
    assert state.trial is not None
    tenants, plan = now.inventory.tenants, state.trial.plan
    switched = _switched(state, now.inventory)
    alike = [tenant for tenant in tenants if tenant.id not in switched]
    ports = plan.dca_off != state.plan.dca_off  # whose writes bypass the LLC
    changed = judge.other_loads(alike, state.looks, now.looks)
    other = changed[0] if changed else None
    counted = state.trial_counted + 1
    looks = readings.mean(state.trial_looks, now.looks, counted)
    protected = switched.union(plan.lenders) if ports else frozenset(plan.lenders)
    keep, why = _verdict(state, now, numbers, looks, counted)
    if lost := suffering(state, looks, protected):
        keep, why = False, lost
    if not ports and other is None and _doubtful(state, now, numbers, keep, switched):
        other = DDIO
    return Shown(looks, counted, other, changed, keep, why)


def _doubtful(
    state: State, now: Now, numbers: Parameters, keep: bool | None, switched: Set[str]
) -> bool:
    """Return whether other traffic may be the cause of what a trial shows.

    A loss with less traffic may be of the move. So may a gain with more traffic if devices write to
    other ways, or if a receiver at its limit takes as many packets as it can. Fewer lines than make
    DDIO busy vary by themselves, and stall nobody for long.
    """
    tenants, before, after = now.inventory.tenants, state.looks, now.looks
    if not judge.other_traffic(tenants, before, after, state.deviation):
        return False
    was, lines = before[DDIO].references_per_s, after[DDIO].references_per_s
    if max(was, lines) <= numbers.threshold_miss_low_per_s:
        return False
    if keep is False:
        return lines > was
    at_limit = any(one.io and one.id in before and before[one.id].overlaps for one in tenants)
    return not (switched or at_limit) or (keep is True and lines <= was)


def _verdict(
    state: State, now: Now, numbers: Parameters, looks: Looks, counted: int
) -> tuple[bool | None, Message]:
    """Return whether the gain of a trial decides to keep or to undo the move, and the reason."""
    assert state.trial is not None
    tenants = now.inventory.tenants
    minimum = judge.floors_in_force(state, tenants, numbers)
    speeds, with_floors, most = judge.gain(tenants, state.looks, looks, minimum)
    # Only a trial that gives back ways or bandwidth which the plan took may cost critical tenants
    # speed in favour of minimum speeds: they lose no more than on a host without the agent.
    was, plan = state.plan, state.trial.plan
    lifted = (was.clear and not plan.clear) or (was.limits and not plan.limits)
    releases = plan.confined < was.confined or lifted
    gain = with_floors if releases else min(speeds, with_floors)
    result = message("speeds", gain=speeds)
    if round(gain, 3) != round(speeds, 3):
        result = message("speeds-and-floors", gain=speeds, counted=gain)
    elif most:
        result = message("speeds-most", gain=speeds, tenant=most[0], change=most[1])
    unrest = judge.unrest(state.deviation)
    limit, obvious = judge.PAYS * unrest, judge.OBVIOUS * unrest
    if gain > (limit if counted == LOOKS else obvious):
        return True, result
    if gain <= 0.0:
        return False, result
    if counted == LOOKS:
        return False, message("gained-too-little", cause=result, samples=LOOKS, limit=limit)
    return None, message(
        "trial-goes-on",
        move=state.trial.what,
        cause=result,
        number=counted,
        samples=LOOKS,
        kept_above=obvious,
    )


def suffering(state: State, looks: Looks, protected: Set[str]) -> Message | None:
    """Return a protected tenant that has lost too much speed since `State.looks`, or None."""
    limit = max(SUFFERS, state.deviation)
    for tenant in sorted(protected):
        before, after = state.looks.get(tenant), looks.get(tenant)
        lost = 1.0 - readings.speedup(before, after) if before and after else 0.0
        if lost > limit:
            return message("would-lose", tenant=tenant, loss=lost, limit=limit)
    return None


def _switched(state: State, inventory: DomainInventory) -> frozenset[str]:
    """Return the tenants whose inbound lines the trial places elsewhere.

    References of such tenants depend on whether inbound lines are in the LLC.
    """
    assert state.trial is not None
    tenants, before, after = inventory.tenants, state.plan, state.trial.plan
    if before.ddio != after.ddio:
        return frozenset(one.id for one in tenants if one.io or one.has_device)
    moved, switched = before.aside ^ after.aside, {*before.dca_off} ^ {*after.dca_off}
    below = [inventory.below(one) for one in inventory.domain.dca_ports if one.address in switched]
    behind = map(inventory.behind, moved)
    return frozenset(one.id for owners in (*behind, *below) for one in owners)
