# SPDX-License-Identifier: Apache-2.0
"""The controller's memory of one cache domain between two iterations.

All values are plain and frozen. The same `IatState`, inventory and sample give the same decision
again, so a recorded iteration can be replayed.
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

    IO_DEMAND = "I/O demand"  # DDIO pressed (the state of the same name)
    CORE_DEMAND = "core demand"  # the stack or an I/O tenant pressed
    OWN_DEMAND = "own demand"  # the paper's exception 2: demand for cache without I/O


@dataclasses.dataclass(frozen=True, slots=True)
class RosterMember:
    """The facts of a tenant that decisions depend on; any change counts as a change of tenants."""

    id: str
    kind: TenantKind
    priority: Priority
    io: bool
    model: DeviceModel
    cpus: tuple[int, ...]
    ways: WayRequest

    @classmethod
    def of(cls, tenant: Tenant) -> RosterMember:
        """Return a tenant's facts for decisions: no name, devices or warnings."""
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
    """A way beyond the subject's initial ways.

    `demand_per_s`: the demand that earned the way, DDIO hits + misses for DDIO, LLC references for
    a tenant. `giver`: the best-effort tenant that gave the way, None for the idle pool.
    `giver_miss_ratio`: the giver's LLC miss rate at the grant. `given`: the giver's own latest
    grant, which moved along with the way.
    """

    subject: str
    cause: Cause
    demand_per_s: float
    at_s: float
    giver: str | None = None
    giver_miss_ratio: float | None = None
    given: Grant | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class GrantTrial:
    """The latest grant for a cause, which the next iteration judges.

    The figures are those before the grant; None if unknown.
    """

    subject: str
    cause: Cause
    ways: int
    ddio_misses_per_s: float | None
    miss_ratio: float | None


@dataclasses.dataclass(frozen=True, slots=True)
class Backoff:
    """A grant without effect: not to be repeated for this demand before `until_s`."""

    subject: str
    demand_per_s: float
    delay_s: float
    until_s: float


@dataclasses.dataclass(frozen=True, slots=True)
class IatState:
    """All memory of the controller for one cache domain.

    `reference`: the base of all comparisons, usually the sample at the last action (see
    `change.rebase`); None before the first step. `acted`: the last step changed something, so the
    state machine takes a step in the next iteration in any case. `members`, `domain`: to detect a
    changed inventory. `grants`: from the oldest to the latest. `ranking`: the rates from which the
    present layout was made; tenants are ordered by their LLC references. `pressing_per_s`: LLC
    misses at the last change of tenants, to choose the tenants that share a partition.
    `mask_changes_at_s`: times of mask changes within the last minute. `retry_at_s`: nothing is done
    before this time, because masks moved too often.
    """

    domain: CacheDomain
    iteration: int
    fsm: FsmState
    allocation: Allocation
    layout: Layout | None = None
    members: tuple[RosterMember, ...] = ()
    reference: Sample | None = None
    acted: bool = False
    grants: tuple[Grant, ...] = ()
    trials: tuple[GrantTrial, ...] = ()
    backoffs: tuple[Backoff, ...] = ()
    ranking: Mapping[str, Rates] = dataclasses.field(default_factory=dict)
    pressing_per_s: Mapping[str, float] = dataclasses.field(default_factory=dict)
    mask_changes_at_s: tuple[float, ...] = ()
    retry_at_s: float | None = None

    def granted(self, subject: str) -> int:
        """Return the number of grants of a subject."""
        return sum(grant.subject == subject for grant in self.grants)
