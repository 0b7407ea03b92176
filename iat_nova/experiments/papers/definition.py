# SPDX-License-Identifier: Apache-2.0
"""The definition of a figure in its file: varied values, runs, columns and chart.

A file ``NAME.yaml`` has one or several figures. The file names functions in the module NAME, if the
figures need code. ``let``: values for the file's texts, beside the values of a point. A scenario's
text may include a shipped scenario.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import importlib
import itertools
import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import cattrs
import jinja2
import yaml

from iat_nova.experiments.papers import constants
from iat_nova.experiments.papers.api import Point, Scalar
from iat_nova.experiments.scenarios.reader import read_scenario
from iat_nova.experiments.scenarios.scenario import Scenario
from iat_nova.experiments.scenarios.shipped import SHIPPED

FOLDER = pathlib.Path(__file__).parent
SEED = "seed"


class PointMethod(enum.StrEnum):
    """The ways to measure a point: with fixed masks, in the real loop, or by RFC 2544's search."""

    STEADY = "steady"
    LOOP = "loop"
    LOSSLESS = "lossless"


@dataclasses.dataclass(frozen=True)
class Run:
    """The settings of a run; times are in emulated seconds.

    `marks_s`: starts of the loop's windows after the first window. `options`: by strategy name.
    """

    way: PointMethod
    settle_s: float = 0.0
    measure_s: float = 0.0
    marks_s: tuple[float, ...] = ()
    options: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Column:
    """A column of a figure's rows: a number of the machine, or of workloads by name pattern.

    `of`: attributes of the result, which are added up; `over`: the attribute by which the sum is
    divided. Values of several workloads are added up, or combined as `take` says. `window`: number
    of the loop's window. The value is multiplied by `times`, added to `plus` and rounded. Without a
    matching workload there is no column; with `always`, the column is None.
    """

    of: tuple[str, ...]
    workload: str | None = None
    take: str = "sum"
    over: str | None = None
    times: float = 1.0
    plus: float = 0.0
    digits: int | None = None
    window: int = -1
    always: bool = False


@dataclasses.dataclass(frozen=True)
class Mark:
    """Published values in a panel: numbers or ranges by x (`at`), a band, or a change.

    `band` and `change` (in percent): a claim, whose range is drawn, or the two ends. A change is
    relative to the measured series `over`. It is drawn at each x, or at the x where the series `of`
    differs most from `over`. `values`: a function of the figure's module that returns `at` from the
    rows and `given`.
    """

    label: str = "published"
    at: Mapping[Any, Any] = dataclasses.field(default_factory=dict)
    series: str | None = None
    band: Any = None
    over: str | None = None
    change: Any = None
    of: str | None = None
    values: str | None = None
    given: Mapping[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Panel:
    """One pair of axes: the medians of a column over the varied values, lines or bars by series.

    A star in `y` stands for x: the columns ``a_ipc`` and ``b_ipc`` give the values at a and b.
    `values`: a function of the figure's module that returns the panel's values from the rows and
    `given`.
    """

    label: str
    y: str = ""
    times: float = 1.0
    title: str = ""
    values: str | None = None
    given: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    published: tuple[Mark, ...] = ()


@dataclasses.dataclass(frozen=True)
class FigureChart:
    """The chart of a figure. `spans`: marked periods, each with start and end."""

    panels: tuple[Panel, ...]
    x: str = ""
    x_label: str = ""
    x_format: str = "{}"
    series: tuple[str, ...] = ()
    lines: bool = False
    across: int = 1
    spans: tuple[tuple[float, float], ...] = ()


@dataclasses.dataclass(frozen=True)
class Definition:
    """One figure, as defined in its file.

    `grid` lists the varied values, from the slowest to the fastest; two keys in one string vary
    together. Seeds vary fastest unless `grid` has seeds. `order`: order of a row's columns. Columns
    may be names of functions. `prepare` returns further values for the scenario from a point.
    `judge` yields findings. `measure` replaces the whole measurement. `moved`: a constant of the
    emulated server and the factor for the constant (``constants.py``).
    """

    name: str
    title: str
    source: str
    setup: str
    stem: str
    grid: Mapping[str, tuple[Any, ...] | None]
    chart: FigureChart
    let: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    order: tuple[str, ...] = ()
    scenario: str = ""
    run: Run | None = None
    columns: Mapping[str, Column | str] = dataclasses.field(default_factory=dict)
    prepare: str | None = None
    measure: str | None = None
    judge: str | None = None
    compression: float = 1.0
    alone: bool = False
    moved: tuple[str, float] | None = None

    def function(self, name: str) -> Callable[..., Any]:
        """Return a function of the figure's module."""
        module = importlib.import_module(f"iat_nova.experiments.papers.{self.stem}")
        found: Callable[..., Any] = getattr(module, name)
        return found

    def points(self, seeds: int) -> list[Point]:
        """Return the points of all measurements with seeds 1 to `seeds`."""
        axes = {**self.grid} if SEED in self.grid else {**self.grid, SEED: None}
        values: list[Sequence[Any]] = [
            range(1, seeds + 1) if listed is None else listed for listed in axes.values()
        ]
        made: list[Point] = []
        for chosen in itertools.product(*values):
            point: dict[str, Scalar] = {}
            for keys, value in zip(map(str.split, axes), chosen, strict=True):
                point.update(zip(keys, value if len(keys) > 1 else (value,), strict=True))
            order = [*(self.order or (key for key in point if key != SEED)), SEED]
            made.append({key: point[key] for key in order})
        return made

    def context(self, point: Point) -> dict[str, Any]:
        """Return the values for the scenario's text."""
        more = self.function(self.prepare)(point) if self.prepare else {}
        return {**self.let, "compression": self.compression, **point, **more}

    def made(self, point: Point) -> Scenario:
        """Return the scenario of a point, rendered from the figure's template."""
        text = _ENVIRONMENT.from_string(self.scenario).render(self.context(point))
        scenario = read_scenario(text, self.name, f"{self.stem}.yaml")
        return constants.moved(scenario, *self.moved) if self.moved else scenario


_ENVIRONMENT = jinja2.Environment(
    loader=jinja2.FileSystemLoader([FOLDER, SHIPPED]),
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)  # not for HTML: no escaping


def _column(given: Any, _: type) -> Column | str:
    return given if isinstance(given, str) else _CONVERTER.structure(given, Column)


def _several(given: Any, of: Any) -> tuple[Any, ...]:
    """Return a tuple from a list, or from a single value."""
    item = of.__args__[0]
    listed = given if isinstance(given, list) else [given]
    return tuple(_CONVERTER.structure(one, item) for one in listed)


_CONVERTER = cattrs.Converter(forbid_extra_keys=True)
_CONVERTER.register_structure_hook_func(lambda of: of == Column | str, _column)
_CONVERTER.register_structure_hook_func(
    lambda of: of in (tuple[str, ...], tuple[Mark, ...]), _several
)


@functools.cache
def read(stem: str) -> tuple[Definition, ...]:
    """Return the figures of a file, in the file's order."""
    parsed = yaml.safe_load((FOLDER / f"{stem}.yaml").read_text(encoding="utf-8"))
    return tuple(_definitions(stem, parsed))


def _definitions(stem: str, parsed: Mapping[str, Any]) -> Iterator[Definition]:
    let = parsed.get("let", {})
    for name, given in parsed["figures"].items():
        texts = {**let, **given.get("let", {})}
        setup = _ENVIRONMENT.from_string(given["setup"]).render(texts)
        whole = {**given, "name": name, "stem": stem, "let": texts, "setup": setup}
        yield _CONVERTER.structure(whole, Definition)
