# SPDX-License-Identifier: Apache-2.0
"""A strategy's closed loop on a host, phase by phase, compared with the best partition."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from random import Random

from iat_nova.experiments.plant import draw
from iat_nova.experiments.plant.best import best_static
from iat_nova.experiments.plant.formula_host import FormulaHost
from iat_nova.model import DomainInventory, Layout, Priority
from iat_nova.strategies.api import Strategy

PHASE_S = 90
ARRIVAL_S = 5  # between two guests at boot
REST_S = 30  # at the end of a phase, long after the last change: mask changes here are unrest
SEED = 1
STARVED = 0.9  # of the speed with idle ways and ways of best-effort tenants


@dataclasses.dataclass(frozen=True, slots=True)
class SteadyPhase:
    """A stretch of steady load.

    `hosts`: the hosts in turn, each with a tenant more, `ARRIVAL_S` seconds apart; the last host
    stays. `restart`: the strategy begins without state.
    """

    name: str
    hosts: tuple[FormulaHost, ...]
    restart: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Lost:
    """Loss of a strategy in a phase on a host.

    `regret`: lost share of the best partition's utility, the mean from the last arrival to the end.
    `starved`: at the end, a PC tenant or the stack runs below `STARVED` of the possible speed (see
    `starved`). `changes`: decisions that moved masks in the last `REST_S` seconds.
    """

    host: int
    phase: str
    regret: float
    starved: bool
    changes: int


def phases(number: int, seed: int = SEED) -> list[SteadyPhase]:
    """Return the four phases of a host.

    The phases are boot, a change of one tenant, a change of half the tenants and traffic, a
    restart.
    """
    dice = Random(f"iat-nova plant {seed} {number}")
    first = draw.host(dice)
    ids = [tenant.id for tenant in first.inventory.tenants]
    second = draw.changed(first, dice, (dice.choice(ids),), traffic=False)
    half = tuple(dice.sample(ids, (len(ids) + 1) // 2))
    third = draw.changed(second, dice, half, traffic=True)
    last = _whole(third)
    return [
        SteadyPhase("boot", tuple(_booting(first))),
        SteadyPhase("one changes", (_whole(second),)),
        SteadyPhase("half change", (last,)),
        SteadyPhase("restart", (last,), restart=True),
    ]


def _whole(drawn: draw.Drawn) -> FormulaHost:
    return FormulaHost(drawn.inventory, drawn.loads, drawn.inbound)


def _booting(drawn: draw.Drawn) -> Iterator[FormulaHost]:
    tenants = drawn.inventory.tenants
    for count in range(1, len(tenants) + 1):
        inventory = DomainInventory(drawn.inventory.domain, tenants[:count])
        yield FormulaHost(inventory, drawn.loads, drawn.inbound)


Make = Callable[[], Strategy]


@dataclasses.dataclass(frozen=True, slots=True)
class Course:
    """A random host: phases, and the best partition's utility in each phase.

    Hosts of a `seed` have different numbers. Each seed has different hosts.
    """

    number: int
    seed: int
    phases: tuple[SteadyPhase, ...]
    best: tuple[float, ...]

    @classmethod
    def of(cls, number: int, seed: int = SEED) -> Course:
        """Draw a host and search for the best partitions."""
        found = tuple(phases(number, seed))
        known: dict[int, float] = {}
        for phase in found:
            host = phase.hosts[-1]
            if id(host) not in known:
                known[id(host)] = best_static(host).utility
        return cls(number, seed, found, tuple(known[id(phase.hosts[-1])] for phase in found))


def losses(course: Course, make: Make, noise: float) -> list[Lost]:
    """Run a strategy through the phases of a host. The result is deterministic."""
    dice = Random(f"iat-nova plant noise {course.seed} {course.number}")
    found = []
    strategy, state, layout, at_s = make(), None, None, 0.0
    for phase, best in zip(course.phases, course.best, strict=True):
        host = phase.hosts[-1]
        if phase.restart:
            strategy, state, layout = make(), None, None
        utilities: list[float] = []
        moved: list[bool] = []
        for second in range(PHASE_S):
            now = phase.hosts[min(second // ARRIVAL_S, len(phase.hosts) - 1)]
            if state is None:
                state = strategy.initial(now.inventory, at_s)
            at_s += 1.0
            if now is host:
                utilities.append(host.under(layout).utility)
            sample = now.sample(layout, at_s, dice, noise)
            state, decision = strategy.step(state, now.inventory, sample)
            layout = decision.layout
            moved.append(bool(decision.moved))
        regret = 1.0 - sum(utilities) / len(utilities) / best
        changes = sum(moved[-REST_S:])
        found.append(Lost(course.number, phase.name, regret, starved(host, layout), changes))
    return found


def starved(host: FormulaHost, layout: Layout | None) -> bool:
    """Return whether a PC tenant or the stack is slow while best-effort or idle ways could help.

    Slow: below the share `STARVED` of the tenant's possible speed. The possible speed is the speed
    with all ways that no other PC tenant and no stack occupies. Excluded are as many ways as DDIO
    has, or a way per best-effort tenant if more.
    """
    outcome = host.under(layout)
    ddio = layout.ddio.bit_count() if layout is not None else 2
    best_effort = sum(tenant.priority is Priority.BE for tenant in host.tenants)
    open_ways = host.ways - max(ddio, best_effort)
    important = [n for n, t in enumerate(host.tenants) if t.priority is not Priority.BE]
    for number in important:
        others = sum(outcome.occupied[other] for other in important if other != number)
        could = host.loads[number].instructions_per_s(
            max(open_ways - others, outcome.occupied[number]), outcome.ddio_misses
        )
        if outcome.speeds[number] < STARVED * could:
            return True
    return False


def quantile(values: Sequence[float], share: float) -> float:
    """Return the value at quantile `share` (0..1)."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
