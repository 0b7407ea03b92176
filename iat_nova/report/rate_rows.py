# SPDX-License-Identifier: Apache-2.0
"""The report's rows of small curves: rates of tenants and of ports over time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from markupsafe import Markup

from iat_nova.common import amounts as figures
from iat_nova.model import PortRates, Rates
from iat_nova.report import charts, port_table
from iat_nova.report.charts import Axis, Curve
from iat_nova.report.view import DomainView
from iat_nova.store.records import Iteration


class RateColumn(NamedTuple):
    """A column of curves: title, attribute of `Rates` or `PortRates`, and values as texts."""

    title: str
    field: str
    unit: Callable[[float], str]


class Cell(NamedTuple):
    """A curve, its last value and its maximum."""

    curve: Markup
    last: str
    highest: str


def traffic(bytes_per_s: float) -> str:
    """Return a rate of bytes as text."""
    return f"{figures.size(bytes_per_s)}/s"


def percent(share: float) -> str:
    """Return a share, 0..1, as text."""
    return f"{share:.1%}"


COUNTED = (
    RateColumn("IPC", "ipc", "{:.2f}".format),
    RateColumn("LLC references", "references_per_s", figures.rate),
    RateColumn("LLC misses", "misses_per_s", figures.rate),
    RateColumn("Miss rate", "miss_ratio", percent),
)
"""The columns that all tenants have."""

MONITORED = (
    RateColumn("In the LLC", "occupancy_bytes", figures.size),
    RateColumn("Memory traffic", "memory_bytes_per_s", traffic),
)
"""The columns of monitored tenants and ports."""


def known(rates: Iterable[Rates | PortRates]) -> tuple[RateColumn, ...]:
    """Return the columns of `MONITORED` with any value."""
    every = list(rates)
    return tuple(
        column
        for column in MONITORED
        if any(getattr(one, column.field) is not None for one in every)
    )


def cells(
    axis: Axis,
    columns: Iterable[RateColumn],
    rates: Sequence[tuple[float, Rates | PortRates | None]],
    style: str,
    gap_s: float,
) -> list[Cell]:
    """Return a cell for each column; `rates` by wall-clock time, None: not counted then."""
    last = next((found for _, found in reversed(rates) if found is not None), None)
    made = []
    for title, field, unit in columns:
        points = [(at_s, getattr(found, field) if found else None) for at_s, found in rates]
        drawn = charts.small_curve(axis, Curve(title, style, points), unit=unit, gap_s=gap_s)
        latest = getattr(last, field) if last else None
        highest = max((value for _, value in points if value is not None), default=None)
        texts = ("-" if value is None else unit(value) for value in (latest, highest))
        made.append(Cell(drawn, *texts))
    return made


def ports(
    axis: Axis, samples: Sequence[Iteration], now: DomainView, gap_s: float
) -> dict[str, Any]:
    """Return the titles of counted columns, and for each port its texts and curves."""
    columns = known(rates for one in samples for rates in one.sample.ports.values())
    rows = []
    for port in now.ports():
        rates = [(one.wall_s, one.sample.ports.get(str(port["port"]))) for one in samples]
        drawn = cells(axis, columns, rates, "good", gap_s)
        rows.append({"texts": port_table.cells(now, port)[:4], "cells": drawn})
    return {"columns": [column.title for column in columns], "rows": rows}
