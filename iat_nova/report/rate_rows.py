# SPDX-License-Identifier: Apache-2.0
"""The report's rows of small curves: rates of tenants and of ports over time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from iat_nova.common import amounts
from iat_nova.model import PortRates, Rates
from iat_nova.report import charts
from iat_nova.report.charts import Axis

Column = tuple[str, str, Callable[[float], str]]
"""A column of curves: title, attribute of `Rates` or `PortRates`, and values as texts."""


class Cell(NamedTuple):
    """A curve's column, path (SVG), last value and maximum."""

    title: str
    path: str
    last: str
    highest: str


COUNTED: tuple[Column, ...] = (
    ("IPC", "ipc", "{:.2f}".format),
    ("LLC references", "references_per_s", amounts.rate),
    ("LLC misses", "misses_per_s", amounts.rate),
    ("Miss rate", "miss_ratio", "{:.1%}".format),
)
"""The columns that all tenants have."""

MONITORED: tuple[Column, ...] = (
    ("In the LLC", "occupancy_bytes", amounts.size),
    ("Memory traffic", "memory_bytes_per_s", lambda rate: f"{amounts.size(rate)}/s"),
)
"""The columns of monitored tenants and ports."""


def monitored(rates: Iterable[Rates | PortRates]) -> tuple[Column, ...]:
    """Return the columns of `MONITORED` with any value."""
    samples = list(rates)
    return tuple(
        column
        for column in MONITORED
        if any(getattr(sample, column[1]) is not None for sample in samples)
    )


def cells(
    axis: Axis,
    columns: Iterable[Column],
    rates: Sequence[tuple[float, Rates | PortRates | None]],
    gap_s: float,
) -> list[Cell]:
    """Return a cell for each column; `rates` by wall-clock time, None: not counted then."""
    last = next((sample for _, sample in reversed(rates) if sample is not None), None)
    row = []
    for title, field, unit in columns:
        points = [(wall_s, getattr(sample, field) if sample else None) for wall_s, sample in rates]
        highest = max((value for _, value in points if value is not None), default=None)
        path = charts.path(axis, points, highest or 1.0, charts.CELL_HEIGHT, gap_s)
        values = (getattr(last, field) if last else None, highest)
        row.append(Cell(title, path, *("-" if value is None else unit(value) for value in values)))
    return row
