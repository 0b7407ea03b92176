# SPDX-License-Identifier: Apache-2.0
"""What a figure is: points that can be measured apart, and what follows from all of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

Scalar = str | int | float | bool | None

Point = Mapping[str, Scalar]
"""The arguments of one measurement: what is varied, and ``seed``. Points are independent."""

NOT_MEASURED = "not measured"
"""The reason of a finding on a claim that no figure measures yet."""

Row = Mapping[str, Scalar]
"""What one measurement found, as flat columns with units in their names. The runner puts the
point's arguments in front; together they make a line of the CSV file."""

REFUSED = "refused"
"""The column of a row that says why this machine does not let its point be measured. Such a row
is not kept: it may be measured later."""


@dataclasses.dataclass(frozen=True, slots=True)
class Finding:
    """What was measured for one claim.

    `claim` is an id of ``claims.yaml``; a claim that is several ("each one a claim") gets one
    finding each, with `part` naming which (as ``4`` instances, or a mask). `measured`: a number in
    the claim's unit; the two ends of a spread where the published range is a spread over
    workloads; for an order, whether it holds; None when it was not measured. `reason` says in
    plain words what was seen and, where the claim is not met, why as far as that is known.
    `published` is given for a part whose number is not in ``claims.yaml``. Parts that are there
    come in its order. `points`: a value as near as this to the published one meets the claim, too,
    where the claim says so.
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

    `name` as in ``claims.yaml``. `setup` says in one or two sentences what is run and how it
    differs from the original (time compression, fewer seeds, what stands in for what).
    `points(seeds)` lists the measurements for so many runs (of seeds 1 to `seeds`); `measure`
    makes one (it must be a function at the top of a module, as it runs in another process);
    `judge` turns all rows (arguments and findings together) into findings; `draw` draws them in
    the form of the original, with the published range beside or behind. `alone`: nothing else may
    run while its points are measured, because they are times of this machine. `compression`: the
    share of each emulated second that is simulated, 0..1. `stem`: the name of the files beside this
    one that hold it.
    """

    name: str
    title: str
    source: str
    setup: str
    points: Callable[[int], Sequence[Point]]
    measure: Callable[[Point], Row]
    judge: Callable[[Sequence[Row]], Iterable[Finding]]
    draw: Callable[[Canvas, Sequence[Row]], None]
    alone: bool = False
    compression: float = 1.0
    stem: str = ""
