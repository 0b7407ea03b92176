# SPDX-License-Identifier: Apache-2.0
"""Evaluation of a trial's samples."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Set
from typing import NamedTuple

from iat_nova.model import DomainInventory, Message, Tenant, message
from iat_nova.strategies import readings
from iat_nova.strategies.pollute_buffer import floors, judge
from iat_nova.strategies.pollute_buffer.judge import Now
from iat_nova.strategies.pollute_buffer.room import BUFFER_WAYS
from iat_nova.strategies.pollute_buffer.state import State
from iat_nova.strategies.readings import Looks

SUFFERS = 0.05  # largest loss of speed in a buffer of one way, or with DDIO off at the port
LENT = 0.02  # largest loss of speed of a lender; SUFFERS in the first sample


class Loss(NamedTuple):
    """A tenant that lost more of its speed than `limit`: 0.05 is 5 %."""

    tenant: str
    share: float
    limit: float

    @property
    def message(self) -> Message:
        """The loss as a reason to undo the move."""
        return message("would-lose", tenant=self.tenant, loss=self.share, limit=self.limit)


@dataclasses.dataclass(frozen=True, slots=True)
class Shown:
    """Mean of a trial's samples, and the total gain: 0.02 is 2 %.

    `speeds`: the gain without minimum speeds. `unsure`: a lender loses in the first sample,
    possibly only the cost of the move. `other`: a tenant with a changed load, so that nothing can
    be concluded. `suffers`: a tenant with a loss that no gain of others justifies. `most`: the
    tenant with the largest part in the gain or loss, and the tenant's own relative change of speed.
    """

    looks: Looks
    counted: int
    gain: float
    speeds: float
    unsure: bool
    other: str | None
    suffers: Loss | None
    most: tuple[str, float] | None

    @property
    def result(self) -> Message:
        """The gain in speeds, and the gain with minimum speeds if different."""
        gain = {"gain": self.speeds}
        if round(self.gain, 3) != round(self.speeds, 3):
            return message("speeds-and-floors", **gain, counted=self.gain)
        if self.most is None:
            return message("speeds", **gain)
        return message("speeds-most", **gain, tenant=self.most[0], change=self.most[1])


def shown(state: State, now: Now, tenants: Iterable[Tenant]) -> Shown:
    """Judge the present trial by `tenants`, with a further sample."""
    assert state.trial is not None
    tenants, lenders = tuple(tenants), state.trial.plan.lenders
    switched = _switched(state, now.inventory)
    alike = [tenant for tenant in tenants if tenant.id not in switched]
    counted = state.trial_counted + 1
    looks = readings.mean(state.trial_looks, now.looks, counted)
    speeds = judge.gain(tenants, state.looks, looks)
    gain = judge.gain(tenants, state.looks, looks, floors.known(state, tenants))
    return Shown(
        looks,
        counted,
        gain if gain < speeds or _releases(state) else speeds,
        speeds,
        counted == 1 and any(_slower(state, looks, one, LENT) for one in lenders),
        judge.other_load(alike, state.looks, now.looks),
        _suffers(state, looks, switched),
        judge.most(tenants, state.looks, looks),
    )


def _suffers(state: State, looks: Looks, switched: Set[str]) -> Loss | None:
    """Return a tenant that the move on trial slows too much, for any gain of the others, or None.

    Candidates are tenants in a smaller buffer, lenders, and owners of devices that now write to
    memory (`switched`).
    """
    assert state.trial is not None
    trial = state.trial.plan
    # The first sample includes the cost of the move.
    limits = dict.fromkeys(trial.lenders, LENT if state.trial_counted else SUFFERS)
    if len(trial.dca_off) > len(state.plan.dca_off):
        limits = dict.fromkeys(switched, SUFFERS) | limits
    if trial.buffer < min(state.plan.buffer, BUFFER_WAYS):
        limits = dict.fromkeys(trial.confined, SUFFERS) | limits
    for tenant, share in sorted(limits.items()):
        if _slower(state, looks, tenant, share):
            lost = 1.0 - looks[tenant].speed / state.looks[tenant].speed
            return Loss(tenant, lost, share)
    return None


def _slower(state: State, looks: Looks, tenant: str, share: float) -> bool:
    """Return whether a tenant has lost more than `share` of its speed."""
    before, after = state.looks.get(tenant), looks.get(tenant)
    return bool(before and after and after.speed < (1.0 - share) * before.speed)


def _releases(state: State) -> bool:
    """Return whether the trial gives back ways that the plan took from tenants.

    Only such a trial may cost critical tenants speed in favour of minimum speeds. Critical tenants
    thus lose no more than on a host without the agent.
    """
    assert state.trial is not None
    before, after = state.plan, state.trial.plan
    return after.confined < before.confined or (before.clear and not after.clear)


def _switched(state: State, inventory: DomainInventory) -> frozenset[str]:
    """Return the tenants whose devices write elsewhere during the trial, or to other ways.

    References of such tenants depend on whether inbound lines are in the LLC.
    """
    assert state.trial is not None
    tenants, before, after = inventory.tenants, state.plan, state.trial.plan
    if before.ddio != after.ddio:
        return frozenset(one.id for one in tenants if one.devices)
    moved = before.aside ^ after.aside
    if moved:
        return frozenset(one.id for one in tenants if not moved.isdisjoint(one.ports))
    ports = set(before.dca_off) ^ set(after.dca_off)
    switched = [port for port in inventory.domain.dca_ports if port.address in ports]
    devices = {device for port in switched for device in port.devices}
    return frozenset(one.id for one in tenants if not devices.isdisjoint(one.devices))
