# SPDX-License-Identifier: Apache-2.0
"""Many scenarios at a glance: the winners by scenario, and their chart."""

from __future__ import annotations

import dataclasses
import pathlib
import statistics
from collections.abc import Iterator, Sequence

import matplotlib
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D

from iat_nova.experiments.compare.compare import REFERENCE, Row

TIE = 0.01
"""A smaller difference does not count: counters have 1 % of noise."""
MARKERS = "os^Dvp*X"
PANELS = (
    ("pc_performance", "PC performance (alone: 1)"),
    ("be_throughput", "BE throughput ({against}: 1)"),
)


@dataclasses.dataclass(frozen=True, slots=True)
class ScenarioStanding:
    """One scenario under one strategy: medians over the seeds.

    `pc_of_best`: PC performance relative to the best strategy. None without a measurement.
    """

    scenario: str
    strategy: str
    seeds: int
    pc_performance: float | None
    pc_of_best: float | None
    be_throughput: float | None
    way_changes_per_minute: float
    settle_s: float

    @property
    def wins(self) -> bool:
        """Whether no strategy is better by more than `TIE`."""
        return self.pc_of_best is not None and self.pc_of_best >= 1.0 - TIE


def standings(rows: Sequence[Row]) -> tuple[ScenarioStanding, ...]:
    """Return the medians of each strategy in each scenario, in the order of the rows."""
    return tuple(
        standing
        for scenario in dict.fromkeys(row.scenario for row in rows)
        for standing in _of_one([row for row in rows if row.scenario == scenario])
    )


def _of_one(rows: Sequence[Row]) -> Iterator[ScenarioStanding]:
    runs = {name: [r for r in rows if r.strategy == name] for name in _strategies(rows)}
    worth = {name: _median(mine, "pc_performance") for name, mine in runs.items()}
    best = max((value for value in worth.values() if value is not None), default=None)
    for name, mine in runs.items():
        value = worth[name]
        yield ScenarioStanding(
            scenario=mine[0].scenario,
            strategy=name,
            seeds=len(mine),
            pc_performance=value,
            pc_of_best=value / best if best and value is not None else None,
            be_throughput=_median(mine, "be_throughput"),
            way_changes_per_minute=_median(mine, "way_changes_per_minute") or 0.0,
            settle_s=_median(mine, "settle_s") or 0.0,
        )


def draw(path: pathlib.Path, rows: Sequence[Row], against: str = REFERENCE) -> None:
    """Draw one row per scenario: medians as marks, the range of seeds as lines; axes from 0."""
    scenarios = list(dict.fromkeys(row.scenario for row in rows))
    strategies = _strategies(rows)
    with matplotlib.rc_context({"svg.hashsalt": "overview", "svg.fonttype": "none"}):
        canvas = Canvas(figsize=(12.0, 1.6 + 0.42 * len(scenarios)), layout="constrained")
        panels = canvas.subplots(1, len(PANELS), sharey=True)
        for axes, (name, label) in zip(panels, PANELS, strict=True):
            axes.set_xlabel(label.format(against=against))
            axes.set_ylim(len(scenarios) - 0.5, -0.5)
            axes.set_yticks(range(len(scenarios)), scenarios)
            axes.grid(axis="x", alpha=0.3)
            axes.axvline(1.0, color="0.6", lw=1)
            for number, strategy in enumerate(strategies):
                offset = (number - (len(strategies) - 1) / 2) * 0.7 / max(1, len(strategies))
                for at, scenario in enumerate(scenarios):
                    mine = [r for r in rows if (r.scenario, r.strategy) == (scenario, strategy)]
                    values = [v for v in (getattr(r, name) for r in mine) if v is not None]
                    if not values:
                        continue
                    y = at + offset
                    axes.plot([min(values), max(values)], [y, y], color=f"C{number}", lw=1)
                    axes.plot(
                        statistics.median(values),
                        y,
                        MARKERS[number % len(MARKERS)],
                        color=f"C{number}",
                        ms=5,
                    )
            axes.set_xlim(left=0)
            for line in axes.lines:
                line.set_clip_on(False)  # a symbol at the end of the axis is whole
        handles = [
            Line2D([], [], color=f"C{n}", marker=MARKERS[n % len(MARKERS)], lw=1, ms=5)
            for n in range(len(strategies))
        ]
        canvas.legend(handles, strategies, loc="outside upper center", ncols=8, frameon=False)
        canvas.savefig(path, format="svg", metadata={"Date": None, "Creator": "iat-nova"})


def _strategies(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(row.strategy for row in rows))


def _median(rows: Sequence[Row], name: str) -> float | None:
    values = [value for value in (getattr(row, name) for row in rows) if value is not None]
    return statistics.median(values) if values else None
