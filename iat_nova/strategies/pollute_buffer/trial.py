# SPDX-License-Identifier: Apache-2.0
"""Evaluation of a trial's samples."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Set

from iat_nova.model import (
    DDIO,
    DomainInventory,
    Message,
    Parameters,
    Tenant,
    message,
)
from iat_nova.strategies import readings
from iat_nova.strategies.pollute_buffer import floors, judge
from iat_nova.strategies.pollute_buffer.judge import Now
from iat_nova.strategies.pollute_buffer.state import State
from iat_nova.strategies.readings import Looks

LOOKS = 3  # largest number of samples of a trial
SUFFERS = 0.05  # loss of speed of a lender, or with DDIO off at the own port


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
    changed: frozenset[str]
    keep: bool | None
    why: Message


def shown(state: State, now: Now, numbers: Parameters) -> Shown:
    """Return what the present trial has shown, with a further sample."""
    assert state.trial is not None
    tenants, plan = now.inventory.tenants, state.trial.plan
    switched = _switched(state, now.inventory)
    alike = [tenant for tenant in tenants if tenant.id not in switched]
    ports = plan.dca_off != state.plan.dca_off  # whose writes bypass the LLC
    changed = tuple(judge.other_loads(alike, state.looks, now.looks))
    other = changed[0] if changed else None
    counted = state.trial_counted + 1
    looks = readings.mean(state.trial_looks, now.looks, counted)
    protected = plan.lenders | (switched if ports else frozenset())
    keep, why = _verdict(state, now, numbers, looks, counted)
    if lost := suffering(state, looks, protected):
        keep, why = False, lost
    may_rise = bool(switched) or _at_limit(tenants, state.looks)
    if not ports and other is None and _doubtful(state, now, numbers, keep, may_rise):
        other = DDIO
    return Shown(looks, counted, other, frozenset(changed), keep, why)


def _at_limit(tenants: Iterable[Tenant], looks: Looks) -> bool:
    """Return whether a tenant with I/O has so many misses that it takes fewer packets than come."""
    return any(one.io and one.id in looks and looks[one.id].overlaps for one in tenants)


def _doubtful(
    state: State, now: Now, numbers: Parameters, keep: bool | None, may_rise: bool
) -> bool:
    """Return whether other traffic may be the cause of what a trial shows.

    A loss with less traffic may be of the move. So may a gain with more traffic if it `may_rise`:
    devices write to other ways, or a receiver at its limit takes as many packets as it can.
    Fewer lines than make DDIO busy vary by themselves, and stall nobody for long.
    """
    before, after = (
        looks[DDIO].references_per_s if DDIO in looks else 0.0 for looks in (state.looks, now.looks)
    )
    if max(before, after) <= numbers.threshold_miss_low_per_s or not judge.other_traffic(
        now.inventory.tenants, state.looks, now.looks, state.deviation
    ):
        return False
    if keep is False:
        return after > before
    return not may_rise or (keep is True and after <= before)


def _verdict(
    state: State, now: Now, numbers: Parameters, looks: Looks, counted: int
) -> tuple[bool | None, Message]:
    """Return whether the gain of a trial decides to keep or to undo the move, and the reason."""
    assert state.trial is not None
    tenants = now.inventory.tenants
    speeds, most = judge.gain(tenants, state.looks, looks)
    with_floors, _ = judge.gain(tenants, state.looks, looks, floors.known(state, tenants, numbers))
    # Only a trial that gives back ways or bandwidth which the plan took may cost critical tenants
    # speed in favour of minimum speeds: they lose no more than on a host without the agent.
    was, plan = state.plan, state.trial.plan
    lifted = (was.clear and not plan.clear) or (was.limits and not plan.limits)
    releases = plan.confined < was.confined or lifted
    gain = with_floors if with_floors < speeds or releases else speeds
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
    """Return which protected tenant has lost too much speed since `State.looks`, or None."""
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
    moved = before.aside ^ after.aside
    if moved:
        return frozenset(one.id for one in tenants if not moved.isdisjoint(one.ports))
    ports = set(before.dca_off) ^ set(after.dca_off)
    switched = [port for port in inventory.domain.dca_ports if port.address in ports]
    devices = {device for port in switched for device in port.devices}
    return frozenset(one.id for one in tenants if not devices.isdisjoint(one.devices))
