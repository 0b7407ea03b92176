# SPDX-License-Identifier: Apache-2.0
"""Search for the best layouts of a scenario: propose plans, take the results of their runs.

The search itself runs no plan. A plan has a placement for each phase; a fixed plan has the same
placement throughout. The result of a placement in a phase is a vector of totals. A plan is judged
by the sum over its phases. So one run measures all phases, and plans without a run can be ranked.
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
"""The number of best plans from which the search continues."""
DRAWN = 12
"""The number of random placements among the first placements."""


@dataclasses.dataclass(frozen=True, slots=True)
class Unit:
    """A set of CPUs of a socket with a common mask, and the workloads on these CPUs."""

    name: str
    socket: int
    priority: Priority
    cpus: tuple[int, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Space:
    """The possible layouts: each unit's ways, DDIO's ways of each socket, the ports' DCA.

    `ddio`: number of DDIO ways as found. `coerced`: ways that the hardware sets together.
    `distinct`: maximum number of masks per socket, besides the mask of all ways. `ports`: root
    ports whose DCA can be switched off.
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
        """Return the effective mask from way `lowest` to `highest`; None if impossible."""
        if not 0 <= lowest <= highest < self.ways:
            return None
        mask = WayMask.span(lowest, highest - lowest + 1)
        return WayMask(mask | self.coerced) if mask.overlaps(self.coerced) else mask

    def allows(self, placement: WayPlacement) -> bool:
        """Tell whether each socket has enough classes for a placement."""
        for socket in range(self.sockets):
            pairs = zip(self.units, placement.masks, strict=True)
            masks = {mask for unit, mask in pairs if unit.socket == socket}
            if len(masks - {self.everything}) > self.distinct:
                return False
        return True


@dataclasses.dataclass(frozen=True, slots=True, order=True)
class WayPlacement:
    """A layout of the whole machine: masks by unit, DDIO's ways by socket, ports without DCA."""

    masks: tuple[WayMask, ...]
    ddio: tuple[int, ...]
    dca_off: tuple[str, ...]


Plan = tuple[WayPlacement, ...]
"""One placement per phase."""
Totals = tuple[float, ...]
"""The totals of a phase, or their sum over several phases."""
Worth = tuple[float, float]
"""The shortfall below a limit (negative; 0: none), then the performance; more is better."""


class Search:
    """The results of each placement in each phase, and the next plans to try.

    Deterministic: equal arguments and equal results give equal proposals.
    """

    def __init__(
        self, space: Space, phases: int, worth: Callable[[Totals], Worth], seed: int
    ) -> None:
        self._space = space
        self._worth = worth
        self._random = random.Random(seed)
        self._known: list[dict[WayPlacement, Totals]] = [{} for _ in range(phases)]

    def tell(self, plan: Plan, found: Sequence[Totals]) -> None:
        """Record the totals of a plan in each phase."""
        for known, placement, totals in zip(self._known, plan, found, strict=True):
            known.setdefault(placement, totals)

    def starts(self) -> list[Plan]:
        """Return the fixed plans to begin with, the host without masks first."""
        return [self._fixed(placement) for placement in starts(self._space, self._random)]

    def fixed(self, count: int) -> list[Plan]:
        """Return the best fixed plans with known results, best first."""
        everywhere = set(self._known[0]).intersection(*self._known[1:])
        plans = [self._fixed(placement) for placement in everywhere]
        return sorted(plans, key=self._rank)[:count]

    def phased(self, count: int) -> list[Plan]:
        """Return the best plans that can be composed of known placements, best first.

        Starting from the best fixed plan, each phase in turn gets its best placement until the plan
        stays the same. The further plans differ from this plan in one phase.
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
        """Return untried neighbours of the best fixed plans."""
        beam = [plan[0] for plan in self.fixed(BEAM)]
        tried = set(self._known[0]).intersection(*self._known[1:])
        return [self._fixed(placement) for placement in self._untried(beam, tried)][:count]

    def next_phased(self, count: int) -> list[Plan]:
        """Return plans that replace each phase's placement of the best plans by a neighbour."""
        plans = self.phased(BEAM)
        columns = [
            self._untried(list(dict.fromkeys(plan[phase] for plan in plans)), known)[:count]
            for phase, known in enumerate(self._known)
        ]
        rows = itertools.islice(itertools.zip_longest(*columns), count)
        return [tuple(own or best for own, best in zip(row, plans[0], strict=True)) for row in rows]

    def _fixed(self, placement: WayPlacement) -> Plan:
        return (placement,) * len(self._known)

    def _substituted(self, plan: Plan, phase: int) -> Iterator[Plan]:
        for placement in self._known[phase]:
            yield (*plan[:phase], placement, *plan[phase + 1 :])

    def _rank(self, plan: Plan) -> tuple[float, float, Plan]:
        found = [known[placement] for known, placement in zip(self._known, plan, strict=True)]
        lacks, performance = self._worth(add(found))
        return -lacks, -performance, plan

    def _untried(
        self,
        placements: Sequence[WayPlacement],
        tried: set[WayPlacement] | dict[WayPlacement, Totals],
    ) -> list[WayPlacement]:
        """Return untried neighbours in random order, from each placement in turn."""
        columns = []
        for placement in placements:
            found = [one for one in neighbours(self._space, placement) if one not in tried]
            self._random.shuffle(found)
            columns.append(found)
        mixed = itertools.chain.from_iterable(itertools.zip_longest(*columns))
        return list(dict.fromkeys(one for one in mixed if one is not None))


def add(found: Sequence[Totals]) -> Totals:
    """Return the sum of several totals."""
    return tuple(map(sum, zip(*found, strict=True)))


def unmanaged(space: Space) -> WayPlacement:
    """Return the placement without an agent: all ways for every unit, DDIO as found."""
    masks = (space.everything,) * len(space.units)
    return WayPlacement(masks, (AS_FOUND,) * space.sockets, ())


def starts(space: Space, dice: random.Random) -> list[WayPlacement]:
    """Return the first placements: no masks, nested zones, partitions, and random placements."""
    free = unmanaged(space)
    top, below = space.ways - 1, space.ways - space.ddio - 1
    found = [free]
    zones = [(0, size - 1) for size in (2, 3, 4, 6)]  # away from DDIO
    zones += [(below - size + 1, below) for size in (2, 4)]  # next to DDIO
    zones += [(space.ways - size, top) for size in (2, 4)]  # within DDIO
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


def _zoned(space: Space, others: WayMask | None, best_effort: WayMask | None) -> WayPlacement:
    """Return a placement with one mask for best-effort units and one for all other units."""
    masks = tuple(
        (best_effort if unit.priority is Priority.BE else others) or space.everything
        for unit in space.units
    )
    return dataclasses.replace(unmanaged(space), masks=masks)


def _parts(space: Space, ways: int, best_effort_high: bool) -> WayPlacement:
    """Return a placement that divides the lowest `ways` evenly among the units of each socket."""
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


def neighbours(space: Space, placement: WayPlacement) -> list[WayPlacement]:
    """Return all placements one move away.

    A mask becomes one way wider or narrower at either end, moves up or down by one way, or becomes
    all ways, the ways below DDIO, or half of the ways. The move applies to one unit, or to all
    units of one priority on a socket. Other moves: DDIO one way more or less, a port's DCA on or
    off.
    """
    found: list[WayPlacement] = []
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


def _sound(space: Space, placement: WayPlacement) -> bool:
    return all(count == AS_FOUND or 1 <= count < space.ways for count in placement.ddio)


def _groups(space: Space) -> Iterator[tuple[int, ...]]:
    """Yield the groups of units that move together.

    Each unit alone; all best-effort units of a socket; all other units of a socket.
    """
    for number in range(len(space.units)):
        yield (number,)
    kinds: dict[tuple[int, bool], list[int]] = {}
    for number, unit in enumerate(space.units):
        kinds.setdefault((unit.socket, unit.priority is Priority.BE), []).append(number)
    yield from (tuple(numbers) for numbers in kinds.values() if len(numbers) > 1)


def _moves(space: Space) -> list[Callable[[WayMask], WayMask | None]]:
    """Return the moves of a mask; a move without room returns None."""

    def ends(low: int, high: int) -> Callable[[WayMask], WayMask | None]:
        def move(mask: WayMask) -> WayMask | None:
            highest = mask.highest
            # Ways that the hardware sets together are cleared together.
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
