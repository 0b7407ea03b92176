# SPDX-License-Identifier: Apache-2.0
"""What the strategy remembers of one cache domain between two iterations."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping

from iat_nova.model import CacheDomain, Layout, Message, Priority, Sample, WayRequest
from iat_nova.strategies.pollute_buffer.judge import Look
from iat_nova.strategies.pollute_buffer.plan import Move, Plan


class Phase(enum.StrEnum):
    """What the next sample is for."""

    MEASURE = "measure"  # how fast tenants are under the plan that lies there
    TRIAL = "trial"  # whether a move pays
    REST = "rest"  # whether the load is still the one that was judged


@dataclasses.dataclass(frozen=True, slots=True)
class Member:
    """The facts of a tenant on which decisions rest; a change of one is a change of tenants."""

    id: str
    priority: Priority
    io: bool
    cpus: tuple[int, ...]
    ways: WayRequest


@dataclasses.dataclass(frozen=True, slots=True)
class Barred:
    """A plan that did not pay: it is not tried before `until_s`, after which a failure doubles."""

    plan: Plan
    delay_s: float
    until_s: float


@dataclasses.dataclass(frozen=True, slots=True)
class State:
    """All memory of one cache domain.

    `plan` is what has proved best, `looks` how tenants did under it (the mean of `counted` samples)
    and `base` the last of these. `trial` is the move that is tried now, `trial_looks` and
    `trial_counted` what it showed. `tried` are the plans that did not pay since the load last
    changed; `trials` counts those of this search, `failed` how many of the last
    did not pay, one after another, `refused` what these were, `lost` what they cost together
    (of a second's work), `paid` how many were kept. `doubted` are the moves that failed when
    they were last tried, under any load: others are tried before them. `barred` outlive the
    search: a load that changes back and forth must not have the same move tried at every turn.
    In rest, `deviation` is the usual largest deviation from `looks`, `strange` for how many
    samples in a row the load has looked changed, `rested` counts the first samples after a trial
    that was kept, which take the place of what it showed; no search begins before `wait_until_s`,
    and each that finds nothing doubles `wait_s`. The load has been what it is since `load_since_s`;
    if the last ones did not last, none is tried before it has done so for `calm_s`. Tenants last
    came, went or changed at `came_s`, `hurried` if soon after others had. `samples` counts those
    of this search's trials since one gained much. Tenants had ways of their own in samples at
    `references_at_s`, those of the last minute; `floors` is what they did there, the newest of
    each one's loads first. This search's are `referenced`, those since one of its moves was kept
    `late`.
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
