# SPDX-License-Identifier: Apache-2.0
"""Measure a point by the figure's file, and take the row's columns from the result."""

from __future__ import annotations

import fnmatch
import statistics
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from iat_nova.experiments.papers.api import Point, Row, Scalar
from iat_nova.experiments.papers.definition import Column, Definition, PointMethod
from iat_nova.experiments.papers.steady import Steady, steady
from iat_nova.experiments.runs import rfc2544
from iat_nova.experiments.runs.run import Result, Window, run

_TAKE: Mapping[str, Callable[[Iterable[float]], float]] = {
    "sum": sum,
    "mean": statistics.fmean,
    "max": max,
}


def measure(definition: Definition, point: Point) -> Row:
    """Return the row of a point."""
    if definition.measure:
        row: Row = definition.function(definition.measure)(definition, point)
        return row
    return taken(definition, execute(definition, point), point)


def taken(definition: Definition, found: Any, point: Point) -> Row:
    """Return the columns of a row, taken from the result of a run."""
    row: dict[str, Scalar] = {}
    for name, column in definition.columns.items():
        if isinstance(column, str):
            row[name] = definition.function(column)(found, point)
        elif _names(column, _part(found, column)) or column.workload is None:
            row[name] = _value(column, _part(found, column))
        elif column.always:
            row[name] = None
    return row


def execute(definition: Definition, point: Point) -> Any:
    """Run a point's scenario; return a `Steady`, a `Result` or the lossless share of the rate."""
    how = definition.run
    assert how is not None
    made, seed = definition.made(point), int(point["seed"] or 0)
    if how.way is PointMethod.STEADY:
        return steady(made, seed, how.settle_s, how.measure_s)
    if how.way is PointMethod.LOSSLESS:
        return rfc2544.throughput(made, seed)
    strategy = str(definition.context(point)["strategy"])
    return run(made, strategy, seed, marks=how.marks_s, options=how.options.get(strategy))


def _part(found: Any, column: Column) -> Steady | Window:
    part: Steady | Window = found.windows[column.window] if isinstance(found, Result) else found
    return part


def _names(column: Column, part: Steady | Window) -> list[str]:
    return fnmatch.filter(part.workloads, column.workload) if column.workload else []


def _value(column: Column, part: Steady | Window) -> Scalar:
    """Return a column's value; unknown values count as 0."""
    things: list[object] = [part.workloads[name] for name in _names(column, part)] or [part]

    def each(attribute: str) -> list[float]:
        return [_attribute(thing, attribute) for thing in things]

    if column.over:
        divisor = sum(each(column.over))
        value = sum(map(sum, map(each, column.of))) / divisor if divisor else 0.0
    else:
        value = sum(_TAKE[column.take](each(attribute)) for attribute in column.of)
    value = value * column.times + column.plus
    return round(value) if column.digits is None else round(value, column.digits)


def _attribute(thing: object, name: str) -> float:
    if isinstance(thing, Steady) and name in thing.lines_per_s:
        return thing.lines_per_s[name]
    return float(getattr(thing, name) or 0.0)
