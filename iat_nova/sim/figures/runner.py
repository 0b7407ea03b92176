# SPDX-License-Identifier: Apache-2.0
"""Measures the points of figures side by side; what is measured is kept and not measured again."""

from __future__ import annotations

import ast
import concurrent.futures
import json
import pathlib
from collections.abc import Callable, Sequence

from iat_nova.sim import pool
from iat_nova.sim.figures.api import REFUSED, Figure, Point, Row
from iat_nova.sim.sources import digest, everything

Progress = Callable[[int, int], None]
"""Called with how many points are done of how many."""

_FIGURES = pathlib.Path(__file__).parent


class PointError(Exception):
    """A point could not be measured; the text names the figure, the point and the reason."""


class Store:
    """The rows measured so far for one figure, in a file of one JSON object a line.

    A row counts for the sources it was measured with only: a change to the emulated server, to
    the controller or to the figure itself makes it worthless.
    """

    def __init__(self, folder: pathlib.Path, figure: Figure) -> None:
        self._path = folder / f"{figure.name}.jsonl"
        self._digest = digest(sources(figure.measure.__module__))
        self._rows: dict[str, Row] = {}
        folder.mkdir(parents=True, exist_ok=True)
        if self._path.exists():
            for line in self._path.read_text(encoding="utf-8").splitlines():
                self._take(line)

    def get(self, point: Point) -> Row | None:
        """Return what was measured at a point, None when nothing was."""
        return self._rows.get(_key(point))

    def put(self, point: Point, row: Row) -> None:
        """Keep what was measured, a refusal for this run only."""
        self._rows[_key(point)] = row
        if REFUSED in row:
            return
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"sources": self._digest, "point": point, "row": row}) + "\n")

    def _take(self, line: str) -> None:
        try:
            kept = json.loads(line)
        except json.JSONDecodeError:
            return  # the end of a run that was killed while it wrote
        if kept["sources"] == self._digest:
            self._rows[_key(kept["point"])] = kept["row"]


def measure(
    figures: Sequence[Figure],
    seeds: int,
    folder: pathlib.Path,
    jobs: int | None = None,
    progress: Progress = lambda done, total: None,
    scheduler: str | None = None,
) -> dict[str, list[Row]]:
    """Return each figure's rows, in the order of its points; measure those that are not kept.

    `jobs` processes at a time, one a core by default, or the cluster of a Dask `scheduler`; what
    is a time of this machine is measured here, one after the other. Raises `PointError`,
    `pool.PoolError`.
    """
    stores = {figure.name: Store(folder, figure) for figure in figures}
    points = {figure.name: list(figure.points(seeds)) for figure in figures}
    due = [
        (figure, point)
        for figure in figures
        for point in points[figure.name]
        if stores[figure.name].get(point) is None
    ]
    total = sum(map(len, points.values()))
    done = total - len(due)
    for alone in (False, True):
        part = [(f.name, f.measure, point) for f, point in due if f.alone is alone]
        if not part:
            continue
        with pool.executor(1) if alone else pool.executor(jobs, scheduler) as executor:
            for (name, _, point), future in pool.completed(executor, _measure, part):
                stores[name].put(point, _checked(name, point, future))
                done += 1
                progress(done, total)
    return {
        name: [{**point, **(stores[name].get(point) or {})} for point in points[name]]
        for name in points
    }


def _measure(due: tuple[str, Callable[[Point], Row], Point]) -> Row:
    _, function, point = due
    return function(point)


def _checked(name: str, point: Point, future: concurrent.futures.Future[Row]) -> Row:
    try:
        return future.result()
    except (ArithmeticError, LookupError, OSError, RuntimeError, ValueError) as error:
        where = f"figure {name}, {_key(point)}"
        raise PointError(f"{where}: {type(error).__name__}: {error}") from error


def _key(point: Point) -> str:
    return json.dumps(point, sort_keys=True)


def sources(module: str) -> list[pathlib.Path]:
    """Return the sources that a figure in `module` depends on.

    Of the figures' own it is the module and what it imports, directly or not, but the claims, which
    judge and measure nothing; of all others, all but those that only show.
    """
    judges = {"iat_nova.sim.figures.claims"}
    found = _with_imports(module, {"iat_nova.sim.figures.runner", *judges}) - judges
    return [
        source
        for source in everything()
        if source.parent != _FIGURES or f"iat_nova.sim.figures.{source.stem}" in found
    ]


def _with_imports(module: str, found: set[str]) -> set[str]:
    """Add a module and the figures' modules that it imports to those found."""
    source = _FIGURES / f"{module.rpartition('.')[2]}.py"
    if module in found or not source.exists():
        return found
    found.add(module)
    for node in ast.walk(ast.parse(source.read_bytes())):
        names = []
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.name for alias in node.names]
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{name}" for name in names)]
        for name in names:
            if name.startswith("iat_nova.sim.figures."):
                _with_imports(name, found)
    return found
