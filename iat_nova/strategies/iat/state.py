# SPDX-License-Identifier: Apache-2.0
"""What the controller remembers of one cache domain between two iterations.

Plain frozen values: a `State` together with the inventory and the sample it was stepped with
gives the same decision again, so a recorded iteration can be replayed.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping

from iat_nova.model import (
    Allocation,
    CacheDomain,
    DeviceModel,
    Layout,
    Priority,
    Rates,
    Sample,
    Tenant,
    TenantKind,
    WayRequest,
)


class FsmState(enum.StrEnum):
    """The five states of the paper's Mealy machine (Figure 6)."""

    LOW_KEEP = "low keep"
    IO_DEMAND = "I/O demand"
    CORE_DEMAND = "core demand"
    RECLAIM = "reclaim"
    HIGH_KEEP = "high keep"


class Cause(enum.StrEnum):
    """The demand for which a way was granted."""

    IO_DEMAND = "I/O demand"  # DDIO pressed (the machine's state of that name)
    CORE_DEMAND = "core demand"  # the stack or an I/O tenant pressed
    OWN_DEMAND = "own demand"  # the paper's exception 2: cache hunger that is not I/O's


@dataclasses.dataclass(frozen=True, slots=True)
class Member:
    """The facts of a tenant on which decisions rest; a change of one is a change of tenants."""

    id: str
    kind: TenantKind
    priority: Priority
    io: bool
    model: DeviceModel
    cpus: tuple[int, ...]
    ways: WayRequest

    @classmethod
    def of(cls, tenant: Tenant) -> Member:
        """Return what decides of a tenant; names, devices and warnings do not."""
        return cls(
            tenant.id,
            tenant.kind,
            tenant.priority,
            tenant.io,
            tenant.model,
            tenant.cpus,
            tenant.ways,
        )


@dataclasses.dataclass(frozen=True, slots=True)
class Grant:
    """One way given beyond what its subject started with.

    `demand_per_s` is the demand that earned it: DDIO hits + misses for DDIO, LLC references for
    a tenant. `giver` is the best-effort tenant the way was taken from, None for the idle pool;
    `giver_miss_ratio` was its LLC miss rate then. `given` is the giver's own latest grant, which
    went with the way: who gives a way gives the reason along for which he had it.
    """

    subject: str
    cause: Cause
    demand_per_s: float
    at_s: float
    giver: str | None = None
    giver_miss_ratio: float | None = None
    given: Grant | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Trial:
    """The latest grant for a cause, whose effect the next iteration judges.

    The figures are those before the grant; None where they could not be had.
    """

    subject: str
    cause: Cause
    ways: int
    ddio_misses_per_s: float | None
    miss_ratio: float | None


@dataclasses.dataclass(frozen=True, slots=True)
class Backoff:
    """A grant that brought nothing: not to be repeated for this demand before `until_s`."""

    subject: str
    demand_per_s: float
    delay_s: float
    until_s: float


@dataclasses.dataclass(frozen=True, slots=True)
class State:
    """All memory of the controller for one cache domain.

    `reference` is the one sample every change is measured against: the one at the last change
    that was acted on; None before the first step. `acted`: the last step moved masks, so the next
    iteration runs the machine in any case. `members` and `domain` tell a changed inventory.
    `grants` are ordered from the oldest to the latest. `ranking` holds the rates by whose
    references the present layout ranks the tenants; `pressing_per_s` the LLC misses when the
    tenants last changed, which choose until they change again who shares a partition.
    `mask_changes_at_s` are the times, within the last minute, at
    which masks moved; `retry_at_s`: by that limit nothing is done before this time.
    """

    domain: CacheDomain
    iteration: int
    fsm: FsmState
    allocation: Allocation
    layout: Layout | None = None
    members: tuple[Member, ...] = ()
    reference: Sample | None = None
    acted: bool = False
    grants: tuple[Grant, ...] = ()
    trials: tuple[Trial, ...] = ()
    backoffs: tuple[Backoff, ...] = ()
    ranking: Mapping[str, Rates] = dataclasses.field(default_factory=dict)
    pressing_per_s: Mapping[str, float] = dataclasses.field(default_factory=dict)
    mask_changes_at_s: tuple[float, ...] = ()
    retry_at_s: float | None = None
