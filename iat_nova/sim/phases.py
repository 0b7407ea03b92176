# SPDX-License-Identifier: Apache-2.0
"""The phases of a scenario, between its events, and the same scenario with each cut short."""

from __future__ import annotations

import bisect
import dataclasses
import itertools
import math
from collections.abc import Sequence

from iat_nova.sim import compare
from iat_nova.sim.scenario import Scenario, Stay


@dataclasses.dataclass(frozen=True, slots=True)
class Phase:
    """A stretch of a cut scenario, in emulated seconds, and how long it was in the whole one."""

    start_s: float
    end_s: float
    true_s: float

    @property
    def whole(self) -> bool:
        """Whether nothing was cut."""
        return self.end_s - self.start_s >= self.true_s


@dataclasses.dataclass(frozen=True, slots=True)
class Cut:
    """A scenario whose phases were cut short."""

    scenario: Scenario
    phases: tuple[Phase, ...]


def of(scenario: Scenario, most: int) -> tuple[float, ...]:
    """Return when each phase ends, the last with the scenario.

    A phase begins where something happens to the load. Of more than `most` the shortest ones are
    taken together with the shorter of their neighbours.
    """
    length_s = scenario.length_s
    inside = {at_s for at_s in compare.moments_of(scenario) if 0 < at_s < length_s}
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

    What happens within a phase happens after the same share of it.
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
            Phase(start, end, length)
            for start, end, length in zip(cut_starts, cut_ends, lengths, strict=True)
        ),
    )
