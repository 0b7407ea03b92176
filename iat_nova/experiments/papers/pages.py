# SPDX-License-Identifier: Apache-2.0
"""Write the results of figures: data, charts, verdicts, and a page with all of these."""

from __future__ import annotations

import csv
import dataclasses
import json
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import jinja2

from iat_nova.experiments.papers import claims
from iat_nova.experiments.papers.api import Figure, Row
from iat_nova.experiments.papers.claims import ClaimVerdict, DataSet, Published
from iat_nova.report import escape

VERDICTS = "verdicts.json"
PAGE = "index.html"
# Size of a chart, in inches at matplotlib's 72 points.
SIZE_IN = (9.0, 5.0)


class FigureRecordError(Exception):
    """A figure's record cannot be read; the text names the file and the reason."""


def write(
    folder: pathlib.Path, figures: Mapping[str, Figure], rows: Mapping[str, Sequence[Row]]
) -> list[ClaimVerdict]:
    """Write the files of the figures in `rows` to a folder; return the verdicts of these figures.

    Each figure has ``NAME.json``, ``NAME.csv`` and ``NAME.svg``. The page and ``verdicts.json``
    have all figures in the folder, also from earlier runs.
    """
    folder.mkdir(parents=True, exist_ok=True)
    verdicts = []
    for name, measured in rows.items():
        figure = figures[name]
        found = claims.judge(figure.judge(measured))
        found += claims.missing(name, found)
        verdicts += found
        _write_data(folder, figure, measured, found)
        _draw(folder / f"{name}.svg", figure, measured)
    _write_page(folder, [name for name in figures if (folder / f"{name}.json").exists()])
    return verdicts


def recorded(folder: pathlib.Path, names: Iterable[str]) -> dict[str, list[Row]]:
    """Return the recorded rows in a folder, by figure name. Raises `FigureRecordError`."""
    rows = {}
    for name in names:
        path = folder / f"{name}.json"
        if not path.exists():
            continue
        try:
            rows[name] = list(json.loads(path.read_text(encoding="utf-8"))["rows"])
        except (ValueError, LookupError, TypeError, RecursionError) as error:
            raise FigureRecordError(
                f"{path} is no record of a figure: {error}; measure it again"
            ) from None
    return rows


def counted(verdicts: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, int]]:
    """Return the numbers of verdicts, met and strictly met, by data set."""
    found = {one.value: {"total": 0, "met": 0, "strict": 0} for one in DataSet}
    for verdict in verdicts:
        counts = found[verdict["set"]]
        counts["total"] += 1
        counts["met"] += verdict["met"]
        counts["strict"] += verdict["strict"]
    return found


def shown(value: Published | bool, unit: str | None) -> str:
    """Return a published or measured value as text."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "holds" if value else "does not hold"
    numbers = " .. ".join(f"{end:.3g}" for end in (value if isinstance(value, tuple) else (value,)))
    return f"{numbers} {unit}" if unit else numbers


def _write_data(
    folder: pathlib.Path, figure: Figure, rows: Sequence[Row], found: Sequence[ClaimVerdict]
) -> None:
    record = {
        "figure": figure.name,
        "title": figure.title,
        "source": figure.source,
        "setup": figure.setup,
        "verdicts": [dataclasses.asdict(verdict) for verdict in found],
        "rows": list(rows),
    }
    text = json.dumps(record, indent=1)
    (folder / f"{figure.name}.json").write_text(text + "\n", encoding="utf-8")
    columns = list(dict.fromkeys(column for row in rows for column in row))
    with (folder / f"{figure.name}.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        for row in rows:
            writer.writerow({column: escape.csv_cell(value) for column, value in row.items()})


def _draw(path: pathlib.Path, figure: Figure, rows: Sequence[Row]) -> None:
    import matplotlib  # noqa: PLC0415 - half a second
    from matplotlib.figure import Figure as Canvas  # noqa: PLC0415

    # The same rows give the same file; text stays text and can be searched.
    with matplotlib.rc_context({"svg.hashsalt": figure.name, "svg.fonttype": "none"}):
        canvas = Canvas(figsize=SIZE_IN, layout="constrained")
        figure.draw(canvas, rows)
        canvas.savefig(path, format="svg", metadata={"Date": None, "Creator": "iat-nova"})


def _write_page(folder: pathlib.Path, names: Sequence[str]) -> None:
    records: list[dict[str, Any]] = [
        json.loads((folder / f"{name}.json").read_text(encoding="utf-8")) for name in names
    ]
    verdicts = [verdict for record in records for verdict in record["verdicts"]]
    (folder / VERDICTS).write_text(json.dumps(verdicts, indent=1) + "\n", encoding="utf-8")
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("iat_nova.experiments.papers", "."), autoescape=True
    )
    environment.globals["shown"] = _shown_json
    page = environment.get_template("page.html.j2").render(
        records=records,
        counts=counted(verdicts),
    )
    (folder / PAGE).write_text(page, encoding="utf-8")


def _shown_json(value: Any, unit: str | None) -> str:
    return shown(tuple(value) if isinstance(value, list) else value, unit)
