# SPDX-License-Identifier: Apache-2.0
"""What judging and drawing of several figures have in common."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from iat_nova.sim.figures.api import Row, Scalar

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas


def number(row: Row, column: str) -> float:
    """Return a column of numbers' value. Raises `TypeError` where it is none."""
    value = row[column]
    if not isinstance(value, int | float):
        raise TypeError(f"{column} is {value!r}, not a number")
    return float(value)


def medians(
    rows: Sequence[Row], keys: Sequence[str], column: str
) -> Mapping[tuple[Any, ...], float]:
    """Return the median over seeds of a column for each combination of the `keys`' values."""
    groups: dict[tuple[Scalar, ...], list[float]] = {}
    for row in rows:
        groups.setdefault(tuple(row[key] for key in keys), []).append(number(row, column))
    return {key: statistics.median(values) for key, values in groups.items()}


def change(now: float, before: float) -> float:
    """Return a relative change in percent."""
    return 100.0 * (now / before - 1.0)


def spread(values: Iterable[float]) -> tuple[float, float]:
    """Return the least and the largest."""
    listed = list(values)
    return min(listed), max(listed)


def published(axes: Any, places: Sequence[float], values: Sequence[float]) -> None:
    """Mark published numbers."""
    style = {"color": "tab:orange", "markeredgecolor": "black", "linestyle": ""}
    axes.plot(places, values, marker="D", label="published", zorder=3, **style)


def legend_below(canvas: Canvas) -> None:
    """Put one legend of all axes below them, where it hides nothing."""
    entries = {
        label: handle
        for axes in canvas.axes
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    canvas.legend(entries.values(), entries.keys(), loc="outside lower center", ncols=4, fontsize=8)
