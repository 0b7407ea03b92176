# SPDX-License-Identifier: Apache-2.0
"""What a figure's file says: what is varied, what is run, what is taken from it and drawn.

A file ``NAME.yaml`` holds figures that share their code, if they have any: functions of the module
NAME, which the file names. ``let`` are values that its texts use beside a point's own. A scenario's
text may include a scenario that ships.
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

from iat_nova.sim.figures import constants
from iat_nova.sim.figures.api import Point, Scalar
from iat_nova.sim.reader import read_scenario
from iat_nova.sim.scenario import Scenario

FOLDER = pathlib.Path(__file__).parent
SEED = "seed"


class Way(enum.StrEnum):
    """How a point is measured: with fixed masks, in the real loop, or by searches of RFC 2544."""

    STEADY = "steady"
    LOOP = "loop"
    LOSSLESS = "lossless"


@dataclasses.dataclass(frozen=True)
class Run:
    """How a scenario is run; times are emulated seconds.

    `marks_s`: where the loop's windows begin beside its start. `options`: of strategies, by name.
    """

    way: Way
    settle_s: float = 0.0
    measure_s: float = 0.0
    marks_s: tuple[float, ...] = ()
    options: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Column:
    """A number of a row: of the machine, or of the workloads that match a pattern.

    `of` are attributes of what was found, added up; `over` the one by which their sum is divided.
    Several workloads are added up, or what `take` says. `window`: of the loop's. The result is
    multiplied by `times`, added to `plus` and rounded. Without such a workload there is no column,
    or with `always` one of None.
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
    """What was published, in a panel: numbers or ranges by x, a band, or a change.

    A band is a claim's range or the two ends; so is the change (in percent), which is drawn over
    what was measured of the series `over`, at each x, or where that of the series `of` is largest.
    `values` is a function of the figure's module that returns what `at` has, as a panel's.
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
    """One pair of axes: the medians of a column over what is varied, lines or bars by series.

    A star in `y` stands for x: of ``a_ipc`` and ``b_ipc`` the values at a and at b. `values` is a
    function of the figure's module that is called with the rows and `given` instead.
    """

    label: str
    y: str = ""
    times: float = 1.0
    title: str = ""
    values: str | None = None
    given: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    published: tuple[Mark, ...] = ()


@dataclasses.dataclass(frozen=True)
class Chart:
    """How a figure is drawn. `spans`: moments that are marked, each from and until."""

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
    """One figure as its file has it.

    `grid` lists the values of what is varied, from the slowest to the quickest; two keys in one
    vary together. Seeds are the quickest unless they are in it; `order` is that of a row's columns.
    A column may be a function's name. `prepare` returns what of a point the scenario needs beside,
    `judge` yields findings; `measure` does all of it. `moved`: a constant of the emulated server
    that is multiplied by a factor (``constants.py``).
    """

    name: str
    title: str
    source: str
    setup: str
    stem: str
    grid: Mapping[str, tuple[Any, ...] | None]
    chart: Chart
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
        module = importlib.import_module(f"iat_nova.sim.figures.{self.stem}")
        found: Callable[..., Any] = getattr(module, name)
        return found

    def points(self, seeds: int) -> list[Point]:
        """List the measurements for so many runs."""
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
        """Return what the scenario's text may use."""
        more = self.function(self.prepare)(point) if self.prepare else {}
        return {**self.let, "compression": self.compression, **point, **more}

    def made(self, point: Point) -> Scenario:
        """Return the scenario of a point."""
        text = _ENVIRONMENT.from_string(self.scenario).render(self.context(point))
        scenario = read_scenario(text, self.name, f"{self.stem}.yaml")
        return constants.moved(scenario, *self.moved) if self.moved else scenario


_ENVIRONMENT = jinja2.Environment(
    loader=jinja2.FileSystemLoader([FOLDER, FOLDER.parent / "scenarios"]),
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)  # not of HTML: nothing is escaped


def _column(given: Any, _: type) -> Column | str:
    return given if isinstance(given, str) else _CONVERTER.structure(given, Column)


def _several(given: Any, of: Any) -> tuple[Any, ...]:
    """Return a tuple; one value needs no list around it."""
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
    """Return the figures of a file, in its order."""
    parsed = yaml.safe_load((FOLDER / f"{stem}.yaml").read_text(encoding="utf-8"))
    return tuple(_definitions(stem, parsed))


def _definitions(stem: str, parsed: Mapping[str, Any]) -> Iterator[Definition]:
    let = parsed.get("let", {})
    for name, given in parsed["figures"].items():
        texts = {**let, **given.get("let", {})}
        setup = _ENVIRONMENT.from_string(given["setup"]).render(texts)
        whole = {**given, "name": name, "stem": stem, "let": texts, "setup": setup}
        yield _CONVERTER.structure(whole, Definition)
