# SPDX-License-Identifier: Apache-2.0
"""What the judgements of several figures have in common."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from iat_nova.sim.figures.api import Row, Scalar


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


def by(rows: Sequence[Row], key: str, column: str) -> Mapping[int, float]:
    """Return the median over seeds of a column for each value of a key of whole numbers."""
    return {int(value): found for (value,), found in medians(rows, (key,), column).items()}


def changes(
    rows: Sequence[Row], key: str, of: str, column: str, now: str, before: str
) -> Mapping[int, float]:
    """Return by how many percent a column's median at `now` of a key differs from `before`.

    By the values of another key, which are whole numbers.
    """
    cells = medians(rows, (key, of), column)
    found = dict.fromkeys(value for value, _ in cells)
    return {value: change(cells[value, now], cells[value, before]) for value in found}
