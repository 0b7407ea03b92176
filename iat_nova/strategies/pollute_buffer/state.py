# SPDX-License-Identifier: Apache-2.0
"""The strategy's memory of one cache domain between two iterations."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping

from iat_nova.model import CacheDomain, Layout, Message, Priority, Sample, WayRequest
from iat_nova.strategies.pollute_buffer.judge import Look
from iat_nova.strategies.pollute_buffer.plan import Move, Plan


class Phase(enum.StrEnum):
    """Purpose of the next sample."""

    MEASURE = "measure"  # speeds of the tenants under the present plan
    TRIAL = "trial"  # gain of a move
    REST = "rest"  # whether the load is unchanged


@dataclasses.dataclass(frozen=True, slots=True)
class Member:
    """The facts of a tenant that decisions depend on; any change counts as a change of tenants."""

    id: str
    priority: Priority
    io: bool
    cpus: tuple[int, ...]
    ways: WayRequest


@dataclasses.dataclass(frozen=True, slots=True)
class Barred:
    """A plan that did not pay, not tried before `until_s`; another failure doubles `delay_s`."""

    plan: Plan
    delay_s: float
    until_s: float


@dataclasses.dataclass(frozen=True, slots=True)
class State:
    """All memory of one cache domain.

    The present plan:

    * `plan`: the best plan so far.
    * `looks`, `counted`, `base`: mean readings under `plan`, the number of samples in the mean, and
      the last sample.

    The search:

    * `trial`, `trial_looks`, `trial_counted`: the move on trial, mean readings, number of samples.
    * `tried`: plans that failed, or that a kept move replaced, since the load last changed.
    * `trials`, `failed`, `paid`: number of trials, of consecutive failures, and of kept moves.
    * `refused`, `lost`: the failed moves, and their total cost (of a second's work).
    * `samples`: number of trial samples since a kept move gained much.
    * `doubted`: moves that failed in their last trial, under any load; other moves come first.
    * `barred`: failed plans with a waiting time. Bars outlive the search, so that an alternating
      load does not cause the same trial each time.

    At rest:

    * `deviation`: the usual largest deviation from `looks`.
    * `strange`: number of consecutive samples with an apparently changed load.
    * `rested`: number of first samples after a kept trial, which replace the trial's readings.
    * `wait_s`, `wait_until_s`: no search begins before `wait_until_s`. Each search in which all
      trials fail doubles `wait_s`.

    Changes of load and tenants:

    * `load_since_s`, `calm_s`: start of the present load. After short loads, no trial begins before
      a load has lasted `calm_s`.
    * `came_s`, `hurried`: time of the last change of tenants, and whether another change came
      shortly before.

    Minimum speeds (see `floors`):

    * `references_at_s`: times within the last minute of samples in which tenants had own ways.
    * `floors`: readings from such samples by tenant, the newest first.
    * `referenced`, `late`: tenants measured in this search, and those measured after a move was
      kept.
    """

    iteration: int
    domain: CacheDomain
    members: tuple[Member, ...]
    plan: Plan
    phase: Phase = Phase.MEASURE
    layout: Layout | None = None
    looks: Mapping[str, Look] = dataclasses.field(default_factory=dict)
    counted: int = 0
    base: Sample | None = None
    trial: Move | None = None
    trial_looks: Mapping[str, Look] = dataclasses.field(default_factory=dict)
    trial_counted: int = 0
    tried: tuple[Plan, ...] = ()
    trials: int = 0
    failed: int = 0
    refused: tuple[Message, ...] = ()
    doubted: tuple[Message, ...] = ()
    lost: float = 0.0
    paid: int = 0
    deviation: float = 0.0
    strange: int = 0
    rested: int = 0
    wait_s: float = 0.0
    wait_until_s: float = 0.0
    changes_at_s: tuple[float, ...] = ()
    barred: tuple[Barred, ...] = ()
    load_since_s: float = 0.0
    calm_s: float = 0.0
    came_s: float | None = None
    hurried: bool = False
    samples: int = 0
    references_at_s: tuple[float, ...] = ()
    referenced: frozenset[str] = frozenset()
    late: frozenset[str] = frozenset()
    floors: Mapping[str, tuple[Look, ...]] = dataclasses.field(default_factory=dict)
