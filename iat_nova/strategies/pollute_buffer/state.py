# SPDX-License-Identifier: Apache-2.0
"""The strategy's memory of one cache domain between two iterations."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping

from iat_nova.model import CacheDomain, DomainInventory, Layout, Message, Priority, WayRequest
from iat_nova.strategies.pollute_buffer.plan import Move, Plan
from iat_nova.strategies.readings import Look


class Phase(enum.StrEnum):
    """Purpose of the next sample."""

    MEASURE = "measure"  # speeds of the tenants under the present plan
    TRIAL = "trial"  # gain of a move
    REST = "rest"  # whether the load is unchanged


@dataclasses.dataclass(frozen=True, slots=True)
class Member:
    """The facts of a tenant that decisions depend on; any change counts as a change of tenants.

    `ports`: of `CacheDomain.device_ports`. States of earlier versions lack `ports` and `weight`.
    """

    id: str
    priority: Priority
    io: bool
    cpus: tuple[int, ...]
    ways: WayRequest
    ports: tuple[str, ...] = ()
    weight: float = 1.0


def members_of(inventory: DomainInventory) -> tuple[Member, ...]:
    """Return the facts of all tenants that decisions depend on."""
    return tuple(
        Member(t.id, t.priority, t.io, t.cpus, t.ways, t.ports, t.weight) for t in inventory.tenants
    )


@dataclasses.dataclass(frozen=True, slots=True)
class Failure:
    """A plan that did not pay, not tried before `until_s`; another failure doubles `delay_s`.

    `plan`: see `Plan.barred`. `what`: the move; None for a plan that a kept move replaced. `why`:
    the reason to undo the move.
    """

    plan: Plan
    what: Message | None
    delay_s: float
    until_s: float
    why: Message | None = None

    @property
    def at_s(self) -> float:
        """Time of the failure, seconds of the loop's clock."""
        return self.until_s - self.delay_s


@dataclasses.dataclass(frozen=True, slots=True)
class State:
    """All memory of one cache domain.

    The present plan:

    * `plan`: the best plan so far.
    * `looks`, `counted`: mean readings under `plan`, and the number of samples in the mean.

    The search:

    * `trial`, `trial_looks`, `trial_counted`: the move on trial, mean readings, number of samples.
    * `failures`: plans that failed, or that a kept move replaced. Failures outlive the search, so
      that an alternating load does not cause the same trial each time.

    At rest:

    * `deviation`: the usual largest deviation from `looks`.
    * `strange`: number of consecutive samples with an apparently changed load.

    Changes of load:

    * `load_since_s`, `calm_s`: start of the present load. After short loads, no trial begins before
      a load has lasted `calm_s`.

    Minimum speeds (see `judge`):

    * `found`: reading of each tenant before any move took ways from it.
    """

    iteration: int
    domain: CacheDomain
    members: tuple[Member, ...]
    plan: Plan
    phase: Phase = Phase.MEASURE
    layout: Layout | None = None
    looks: Mapping[str, Look] = dataclasses.field(default_factory=dict)
    counted: int = 0
    trial: Move | None = None
    trial_looks: Mapping[str, Look] = dataclasses.field(default_factory=dict)
    trial_counted: int = 0
    failures: tuple[Failure, ...] = ()
    deviation: float = 0.0
    strange: int = 0
    changes_at_s: tuple[float, ...] = ()
    load_since_s: float = 0.0
    calm_s: float = 0.0
    found: Mapping[str, Look] = dataclasses.field(default_factory=dict)

    @property
    def in_force(self) -> Plan:
        """The plan on the hardware: the plan on trial, if any."""
        return self.plan if self.trial is None else self.trial.plan
