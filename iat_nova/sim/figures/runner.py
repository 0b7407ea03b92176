# SPDX-License-Identifier: Apache-2.0
"""Measures the points of figures side by side; what is measured is kept and not measured again."""

from __future__ import annotations

import concurrent.futures
import pathlib
from collections.abc import Callable, Sequence

from iat_nova.sim import parallel
from iat_nova.sim.figures.api import REFUSED, Figure, Point, Row
from iat_nova.sim.sources import digest, everything
from iat_nova.sim.store import Store, key

Progress = Callable[[int, int], None]
"""Called with how many points are done of how many."""

_FIGURES = pathlib.Path(__file__).parent
# What all figures share and their rows depend on; not what judges and draws.
_MEASURING = frozenset({"a4_testbed.j2", "bench.py", "constants.py", "definition.py", "measure.py"})


class PointError(Exception):
    """A point could not be measured; the text names the figure, the point and the reason."""


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
    `parallel.ParallelError`.
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
    """Return the sources that the figures of a stem depend on.

    Of the figures' folder those are theirs and what all figures share; of all others, all but those
    that only show.
    """
    return [
        source
        for source in everything()
        if source.parent != _FIGURES or source.stem == stem or source.name in _MEASURING
    ]
