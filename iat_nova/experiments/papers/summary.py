# SPDX-License-Identifier: Apache-2.0
"""Common functions of the figures' judgements."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from iat_nova.experiments.papers.api import Row, Scalar


def number(row: Row, column: str) -> float:
    """Return a number from a column of a row. Raises `TypeError` for other values."""
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
    """Return the smallest and the largest value."""
    listed = list(values)
    return min(listed), max(listed)


def by(rows: Sequence[Row], key: str, column: str) -> Mapping[int, float]:
    """Return the median over seeds of a column for each value of a key of whole numbers."""
    return {int(value): found for (value,), found in medians(rows, (key,), column).items()}


def changes(
    rows: Sequence[Row], key: str, of: str, column: str, now: str, before: str
) -> Mapping[int, float]:
    """Return the change of a column's median from `before` to `now`, in percent.

    `before` and `now` are values of the key `of`. The result is by the values of `key`, which are
    whole numbers.
    """
    cells = medians(rows, (key, of), column)
    found = dict.fromkeys(value for value, _ in cells)
    return {value: change(cells[value, now], cells[value, before]) for value in found}
