# SPDX-License-Identifier: Apache-2.0
"""Search for the best layouts of a scenario: proposes plans, takes what they were worth.

It runs nothing. A plan is a placement a phase, a fixed one the same throughout. What a placement
brings in a phase is a vector of totals; a plan is judged by the sum over its phases, so that one
run measures all phases at once, and plans that were never run can be ranked.
"""

from __future__ import annotations

import dataclasses
import itertools
import random
from collections.abc import Callable, Iterator, Sequence

from iat_nova.model import Priority, WayMask

AS_FOUND = 0
"""DDIO's ways as the host has them."""
BEAM = 3
"""From so many of the best plans the search goes on."""
DRAWN = 12
"""So many placements at random are among the first."""


@dataclasses.dataclass(frozen=True, slots=True)
class Unit:
    """A set of CPUs of a socket with a common mask, and the workloads on these CPUs."""

    name: str
    socket: int
    priority: Priority
    cpus: tuple[int, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Space:
    """What can be laid out: each unit's ways, DDIO's ways of each socket, the ports' DCA.

    `ddio`: how many ways it has as found. `coerced` ways come together. `distinct`: so many masks
    other than all ways a socket can have. `ports`: those whose DCA can be switched off.
    """

    units: tuple[Unit, ...]
    ways: int
    ddio: int
    sockets: int = 1
    coerced: WayMask = WayMask(0)
    distinct: int = 15
    ports: tuple[str, ...] = ()

    @property
    def everything(self) -> WayMask:
        """All ways."""
        return WayMask.span(0, self.ways)

    def span(self, lowest: int, highest: int) -> WayMask | None:
        """Return the mask from way to way as the hardware makes it; None when there is none."""
        if not 0 <= lowest <= highest < self.ways:
            return None
        mask = WayMask.span(lowest, highest - lowest + 1)
        return WayMask(mask | self.coerced) if mask.overlaps(self.coerced) else mask

    def allows(self, placement: Placement) -> bool:
        """Tell whether there are classes enough."""
        for socket in range(self.sockets):
            pairs = zip(self.units, placement.masks, strict=True)
            masks = {mask for unit, mask in pairs if unit.socket == socket}
            if len(masks - {self.everything}) > self.distinct:
                return False
        return True


@dataclasses.dataclass(frozen=True, slots=True, order=True)
class Placement:
    """A layout of the whole machine: a mask a unit, DDIO's ways a socket, ports without DCA."""

    masks: tuple[WayMask, ...]
    ddio: tuple[int, ...]
    dca_off: tuple[str, ...]


Plan = tuple[Placement, ...]
"""A placement a phase."""
Totals = tuple[float, ...]
"""What was done in a phase; of several phases it is the sum."""
Worth = tuple[float, float]
"""By how much a limit is broken (negative; 0: it is kept), then the performance; more is better."""


class Search:
    """What is known of each placement in each phase, and what to try next.

    Determined by its arguments and what it is given.
    """

    def __init__(
        self, space: Space, phases: int, worth: Callable[[Totals], Worth], seed: int
    ) -> None:
        self._space = space
        self._worth = worth
        self._random = random.Random(seed)
        self._known: list[dict[Placement, Totals]] = [{} for _ in range(phases)]

    def tell(self, plan: Plan, found: Sequence[Totals]) -> None:
        """Take what a plan brought in each phase."""
        for known, placement, totals in zip(self._known, plan, found, strict=True):
            known.setdefault(placement, totals)

    def starts(self) -> list[Plan]:
        """Return the fixed plans to begin with, the host without masks first."""
        return [self._fixed(placement) for placement in starts(self._space, self._random)]

    def fixed(self, count: int) -> list[Plan]:
        """Return the best fixed plans known, the best first."""
        everywhere = set(self._known[0]).intersection(*self._known[1:])
        plans = [self._fixed(placement) for placement in everywhere]
        return sorted(plans, key=self._rank)[:count]

    def phased(self, count: int) -> list[Plan]:
        """Return the best plans that can be made of what is known, the best first.

        From the best fixed one, the best placement of each phase in turn while that brings
        something; then those that differ from it in one phase.
        """
        (best,) = self.fixed(1)
        for _ in self._known:
            before = best
            for phase in range(len(self._known)):
                best = min(self._substituted(best, phase), key=self._rank)
            if best == before:
                break
        others = {
            plan
            for phase in range(len(self._known))
            for plan in sorted(self._substituted(best, phase), key=self._rank)[1:count]
        }
        return [best, *sorted(others, key=self._rank)][:count]

    def next_fixed(self, count: int) -> list[Plan]:
        """Return neighbours of the best fixed plans that have not been tried."""
        beam = [plan[0] for plan in self.fixed(BEAM)]
        tried = set(self._known[0]).intersection(*self._known[1:])
        return [self._fixed(placement) for placement in self._untried(beam, tried)][:count]

    def next_phased(self, count: int) -> list[Plan]:
        """Return plans with a neighbour of the best plan's placement in each phase at once."""
        plans = self.phased(BEAM)
        columns = [
            self._untried(list(dict.fromkeys(plan[phase] for plan in plans)), known)[:count]
            for phase, known in enumerate(self._known)
        ]
        rows = itertools.islice(itertools.zip_longest(*columns), count)
        return [tuple(own or best for own, best in zip(row, plans[0], strict=True)) for row in rows]

    def _fixed(self, placement: Placement) -> Plan:
        return (placement,) * len(self._known)

    def _substituted(self, plan: Plan, phase: int) -> Iterator[Plan]:
        for placement in self._known[phase]:
            yield (*plan[:phase], placement, *plan[phase + 1 :])

    def _rank(self, plan: Plan) -> tuple[float, float, Plan]:
        found = [known[placement] for known, placement in zip(self._known, plan, strict=True)]
        lacks, performance = self._worth(add(found))
        return -lacks, -performance, plan

    def _untried(
        self, placements: Sequence[Placement], tried: set[Placement] | dict[Placement, Totals]
    ) -> list[Placement]:
        """Return neighbours in random order, of each of the placements in turn."""
        columns = []
        for placement in placements:
            found = [one for one in neighbours(self._space, placement) if one not in tried]
            self._random.shuffle(found)
            columns.append(found)
        mixed = itertools.chain.from_iterable(itertools.zip_longest(*columns))
        return list(dict.fromkeys(one for one in mixed if one is not None))


def add(found: Sequence[Totals]) -> Totals:
    """Return the sum of totals."""
    return tuple(map(sum, zip(*found, strict=True)))


def unmanaged(space: Space) -> Placement:
    """Return the host without an agent: all ways for everybody, DDIO as found."""
    masks = (space.everything,) * len(space.units)
    return Placement(masks, (AS_FOUND,) * space.sockets, ())


def starts(space: Space, dice: random.Random) -> list[Placement]:
    """Return where to begin: no masks, zones one in the other, partitions, and some at random."""
    free = unmanaged(space)
    top, below = space.ways - 1, space.ways - space.ddio - 1
    found = [free]
    zones = [(0, size - 1) for size in (2, 3, 4, 6)]  # away from DDIO
    zones += [(below - size + 1, below) for size in (2, 4)]  # next to it
    zones += [(space.ways - size, top) for size in (2, 4)]  # in it
    for zone in zones:
        for others in ((0, top), (0, below)):
            found.append(_zoned(space, space.span(*others), space.span(*zone)))
    found.append(_zoned(space, space.span(0, below), space.span(0, top)))
    for size in (2, 3, 4, 6):  # apart
        found.append(_zoned(space, space.span(size, top), space.span(0, size - 1)))
        found.append(_zoned(space, space.span(0, top - size), space.span(top - size + 1, top)))
    found += [
        _parts(space, ways, first) for ways in (top + 1, below + 1) for first in (True, False)
    ]
    for placement in found[:3]:
        for count in (space.ddio + 2, space.ddio + 4):
            found.append(dataclasses.replace(placement, ddio=(count,) * space.sockets))
        if space.ports:
            found.append(dataclasses.replace(placement, dca_off=space.ports))
    for _ in range(DRAWN):
        ends = [sorted(dice.choices(range(space.ways), k=2)) for _ in space.units]
        masks = tuple(space.span(low, high) or space.everything for low, high in ends)
        found.append(dataclasses.replace(free, masks=masks))
    return [one for one in dict.fromkeys(found) if space.allows(one) and _sound(space, one)]


def _zoned(space: Space, others: WayMask | None, best_effort: WayMask | None) -> Placement:
    """Return one mask for best-effort units and one for all others."""
    masks = tuple(
        (best_effort if unit.priority is Priority.BE else others) or space.everything
        for unit in space.units
    )
    return dataclasses.replace(unmanaged(space), masks=masks)


def _parts(space: Space, ways: int, best_effort_high: bool) -> Placement:
    """Return a part for each unit of a socket, as equal as can be, of the lowest `ways`."""
    masks: dict[str, WayMask] = {}
    for socket in range(space.sockets):
        mine = [unit for unit in space.units if unit.socket == socket]
        mine.sort(key=lambda unit: (unit.priority is Priority.BE) is best_effort_high)
        for number, unit in enumerate(mine):
            low = number * ways // len(mine)
            high = max(low, (number + 1) * ways // len(mine) - 1)
            masks[unit.name] = space.span(low, high) or space.everything
    return dataclasses.replace(
        unmanaged(space), masks=tuple(masks[unit.name] for unit in space.units)
    )


def neighbours(space: Space, placement: Placement) -> list[Placement]:
    """Return all placements one move away.

    A move: a unit's mask, or those of all units of one priority on a socket, one way wider,
    narrower or further at either end, or all ways, or those that DDIO leaves, or half; DDIO one way
    more or less; a port's DCA.
    """
    found: list[Placement] = []
    for numbers in _groups(space):
        for move in _moves(space):
            masks = list(placement.masks)
            for number in numbers:
                masks[number] = move(masks[number]) or masks[number]
            found.append(dataclasses.replace(placement, masks=tuple(masks)))
    for socket in range(space.sockets):
        for step in (-1, 1):
            count = (placement.ddio[socket] or space.ddio) + step
            ddio = list(placement.ddio)
            ddio[socket] = AS_FOUND if count == space.ddio else count
            found.append(dataclasses.replace(placement, ddio=tuple(ddio)))
    for port in space.ports:
        off = set(placement.dca_off) ^ {port}
        found.append(dataclasses.replace(placement, dca_off=tuple(sorted(off))))
    return [
        one
        for one in dict.fromkeys(found)
        if one != placement and space.allows(one) and _sound(space, one)
    ]


def _sound(space: Space, placement: Placement) -> bool:
    return all(count == AS_FOUND or 1 <= count < space.ways for count in placement.ddio)


def _groups(space: Space) -> Iterator[tuple[int, ...]]:
    """Yield which units move together: each alone, all best-effort ones of a socket, all others."""
    for number in range(len(space.units)):
        yield (number,)
    kinds: dict[tuple[int, bool], list[int]] = {}
    for number, unit in enumerate(space.units):
        kinds.setdefault((unit.socket, unit.priority is Priority.BE), []).append(number)
    yield from (tuple(numbers) for numbers in kinds.values() if len(numbers) > 1)


def _moves(space: Space) -> list[Callable[[WayMask], WayMask | None]]:
    """Return the moves of a mask; each gives None where there is no room for it."""

    def ends(low: int, high: int) -> Callable[[WayMask], WayMask | None]:
        def move(mask: WayMask) -> WayMask | None:
            highest = mask.highest
            # Ways that come together leave together.
            if high < 0 and space.coerced and mask.overlaps(space.coerced):
                highest = space.coerced.lowest
            return space.span(mask.lowest + low, highest + high)

        return move

    steps = ((-1, 0), (0, 1), (1, 0), (0, -1), (1, 1), (-1, -1))
    half = space.ways // 2
    fixed = (
        space.everything,
        space.span(0, space.ways - space.ddio - 1),
        space.span(0, half - 1),
        space.span(half, space.ways - 1),
    )
    return [
        *(ends(low, high) for low, high in steps),
        *((lambda _, mask=mask: mask) for mask in fixed),
    ]
