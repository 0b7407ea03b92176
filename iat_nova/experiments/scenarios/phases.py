# SPDX-License-Identifier: Apache-2.0
"""The phases of a scenario between its events, and the scenario with shortened phases."""

from __future__ import annotations

import bisect
import dataclasses
import itertools
import math
from collections.abc import Sequence

from iat_nova.experiments.scenarios.scenario import Scenario, Stay


@dataclasses.dataclass(frozen=True, slots=True)
class CutPhase:
    """A phase of a shortened scenario in emulated seconds, with its length before the cut."""

    start_s: float
    end_s: float
    true_s: float

    @property
    def whole(self) -> bool:
        """Whether the phase has its full length."""
        return self.end_s - self.start_s >= self.true_s


@dataclasses.dataclass(frozen=True, slots=True)
class Cut:
    """A scenario with shortened phases."""

    scenario: Scenario
    phases: tuple[CutPhase, ...]


def moments_of(scenario: Scenario) -> list[float]:
    """Return the moments of change: start, events, guests' arrivals and departures, restarts."""
    stays = scenario.stays.values()
    return [
        0.0,
        *(event.at_s for event in scenario.events),
        *scenario.restarts_s,
        *(at_s for stay in stays for at_s in (stay.arrives_s, stay.leaves_s)),
    ]


def of(scenario: Scenario, most: int) -> tuple[float, ...]:
    """Return the end of each phase; the last phase ends with the scenario.

    A phase begins at each moment of change (`moments_of`). While there are more than `most`
    phases, the shortest phase is merged with the shorter of its neighbours.
    """
    length_s = scenario.length_s
    inside = {at_s for at_s in moments_of(scenario) if 0 < at_s < length_s}
    ends = [*sorted(inside), length_s]
    while len(ends) > most:
        lengths = [end - start for start, end in itertools.pairwise((0.0, *ends))]
        shortest = lengths.index(min(lengths))
        before = lengths[shortest - 1] if shortest else math.inf
        after = lengths[shortest + 1] if shortest + 1 < len(lengths) else math.inf
        del ends[shortest - 1 if before <= after else shortest]
    return tuple(ends)


def cut(scenario: Scenario, ends: Sequence[float], most_s: float) -> Cut:
    """Return the scenario with no phase longer than `most_s`.

    Events within a phase keep their relative position in the phase.
    """
    starts = (0.0, *ends[:-1])
    lengths = [end - start for start, end in zip(starts, ends, strict=True)]
    cut_ends = (
        tuple(itertools.accumulate(min(length, most_s) for length in lengths))
        if max(lengths) > most_s
        else tuple(ends)
    )
    cut_starts = (0.0, *cut_ends[:-1])

    def moved(at_s: float) -> float:
        if at_s >= ends[-1]:
            return at_s  # after the end, or never
        phase = bisect.bisect_right(starts, at_s) - 1
        share = (at_s - starts[phase]) / lengths[phase]
        return cut_starts[phase] + share * (cut_ends[phase] - cut_starts[phase])

    shorter = dataclasses.replace(
        scenario,
        length_s=cut_ends[-1],
        events=tuple(dataclasses.replace(one, at_s=moved(one.at_s)) for one in scenario.events),
        stays={
            uuid: Stay(moved(stay.arrives_s), moved(stay.leaves_s))
            for uuid, stay in scenario.stays.items()
        },
    )
    return Cut(
        shorter,
        tuple(
            CutPhase(start, end, length)
            for start, end, length in zip(cut_starts, cut_ends, lengths, strict=True)
        ),
    )
