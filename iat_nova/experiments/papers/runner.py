# SPDX-License-Identifier: Apache-2.0
"""Measure the points of figures in parallel; keep the rows and do not measure again."""

from __future__ import annotations

import concurrent.futures
import pathlib
from collections.abc import Callable, Sequence

from iat_nova.experiments.papers.api import REFUSED, Figure, Point, Row
from iat_nova.experiments.runs import parallel
from iat_nova.experiments.runs.sources import digest, everything
from iat_nova.experiments.runs.store import Store, key

Progress = Callable[[int, int], None]
"""Called with the number of finished points and the number of all points."""

_FIGURES = pathlib.Path(__file__).parent
# Common files of all figures that affect rows, without files that judge and draw.
_MEASURING = frozenset({"a4_testbed.j2", "bench.py", "constants.py", "definition.py", "measure.py"})


class PointError(Exception):
    """A point cannot be measured; the text names the figure, the point and the reason."""


def measure(
    figures: Sequence[Figure],
    seeds: int,
    folder: pathlib.Path,
    jobs: int | None = None,
    progress: Progress = lambda done, total: None,
    scheduler: str | None = None,
) -> dict[str, list[Row]]:
    """Return each figure's rows in the order of its points; measure rows without a valid record.

    The measurements run in `jobs` processes, by default one per CPU, or on the cluster of a Dask
    `scheduler`. Figures with times of this machine are measured on this machine, one point at a
    time. Raises `PointError`, `parallel.ParallelError`.
    """
    stores = {
        figure.name: Store(folder / f"{figure.name}.jsonl", digest(sources(figure.stem)))
        for figure in figures
    }
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
        with parallel.executor(1) if alone else parallel.executor(jobs, scheduler) as executor:
            for (name, _, point), future in parallel.completed(executor, _measure, part):
                row = _checked(name, point, future)
                stores[name].put(point, row, keep=REFUSED not in row)
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
        where = f"figure {name}, {key(point)}"
        raise PointError(f"{where}: {type(error).__name__}: {error}") from error


def sources(stem: str) -> list[pathlib.Path]:
    """Return the sources that affect the rows of a stem's figures.

    In the folder of figures these are the stem's own files and the common files. In other folders
    these are all sources except the packages that only show results.
    """
    return [
        source
        for source in everything()
        if source.parent != _FIGURES or source.stem == stem or source.name in _MEASURING
    ]
