# SPDX-License-Identifier: Apache-2.0
"""The types of a figure: points to measure independently, and findings from all points."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

Scalar = str | int | float | bool | None

Point = Mapping[str, Scalar]
"""The arguments of one measurement: the varied values, and ``seed``. Points are independent."""

NOT_MEASURED = "not measured"
"""The reason of a finding on a claim that no figure measures yet."""

Row = Mapping[str, Scalar]
"""The result of one measurement, as flat columns with units in their names. The runner puts the
point's arguments in front; arguments and result together are a line of the CSV file."""

REFUSED = "refused"
"""The column of a row with the reason why this machine cannot measure the point. Such a row is not
kept, so that the point can be measured later."""


@dataclasses.dataclass(frozen=True, slots=True)
class ClaimFinding:
    """The measured value for one claim.

    `claim` is an id of ``claims.yaml``. A claim with several parts has a finding for each, with the
    name of the part (such as ``4`` instances, or a mask). `measured`: a number in the claim's unit;
    the two ends of a spread if the published range is a spread over workloads; for an order,
    whether the order holds; None if not measured. `reason`: the observation in plain words and, for
    a missed claim, the known cause. `published`: the number of a part that ``claims.yaml`` does
    not list. `points`: a larger tolerance, in the unit of
    the claim, where the claim has one.
    """

    claim: str
    measured: float | tuple[float, float] | bool | None
    reason: str
    part: str | None = None
    published: float | tuple[float, float] | None = None
    points: float = 0.0


@dataclasses.dataclass(frozen=True, slots=True)
class Figure:
    """One published figure, or a table.

    `name` as in ``claims.yaml``. `setup`: one or two sentences on the run and its differences from
    the original (time compression, fewer seeds, substitutes). `points(seeds)` lists the
    measurements for seeds 1 to `seeds`. `measure` makes one measurement and must be picklable,
    because another process runs it. `judge` turns all rows (arguments and results) into findings.
    `draw` draws the rows in the form of the original, with the published range beside or behind.
    `alone`: points are measured one at a time without other runs, because the results are times of
    this machine. `compression`: the simulated share of each emulated second, 0..1. `stem`: the name
    of the figure's files in this folder.
    """

    name: str
    title: str
    source: str
    setup: str
    points: Callable[[int], Sequence[Point]]
    measure: Callable[[Point], Row]
    judge: Callable[[Sequence[Row]], Iterable[ClaimFinding]]
    draw: Callable[[Canvas, Sequence[Row]], None]
    alone: bool = False
    compression: float = 1.0
    stem: str = ""
