# SPDX-License-Identifier: Apache-2.0
"""Draw a figure's chart: medians over seeds, with published values beside or behind."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from iat_nova.experiments.papers import claims
from iat_nova.experiments.papers.api import REFUSED, Row
from iat_nova.experiments.papers.definition import Definition, FigureChart, Mark, Panel

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

Values = Mapping[str, Mapping[Any, Sequence[float]]]
"""By series and x: a number for each seed."""

# Each series has the same colour in every figure.
_COLOURS = {
    "baseline": "tab:gray", "core-only": "tab:green", "io-iso": "tab:purple", "iat": "tab:blue",
    "dma": "tab:gray", "dca": "tab:blue", "adca": "tab:green",
    "off": "tab:red", "on": "tab:blue", "storage off": "tab:green",
}  # fmt: skip
_PUBLISHED = "tab:orange"
# Above this number, some ticks are left out.
_TICKS_MAX = 20


def draw(definition: Definition, canvas: Canvas, rows: Sequence[Row]) -> None:
    """Draw all panels, and one legend below them."""
    if any(REFUSED in row for row in rows):
        canvas.text(0.5, 0.5, "not measured", ha="center", va="center")
        return
    chart = definition.chart
    down = -(-len(chart.panels) // chart.across)
    grid = canvas.subplots(down, chart.across, sharex=True, squeeze=False)
    for axes, panel in zip(grid.flat, chart.panels, strict=True):
        _panel(axes, chart, panel, values(definition, panel, rows))
        for mark in panel.published:
            at = mark.at
            if mark.values:
                at = definition.function(mark.values)(rows, **mark.given)
            _mark(axes, dataclasses.replace(mark, at=at), values(definition, panel, rows))
    for axes in grid[-1]:
        axes.set_xlabel(chart.x_label)
    entries = {
        label: handle
        for axes in canvas.axes
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    canvas.legend(entries.values(), entries.keys(), loc="outside lower center", ncols=4, fontsize=8)


def values(definition: Definition, panel: Panel, rows: Sequence[Row]) -> Values:
    """Return the values of a panel."""
    if panel.values:
        found: Values = definition.function(panel.values)(rows, **panel.given)
        return found
    made: dict[str, dict[Any, list[float]]] = {}
    for row in rows:
        series = ", ".join(str(row[key]) for key in definition.chart.series) or "measured"
        for x, column in _columns(panel.y, row, definition.chart.x):
            number = row.get(column)
            if isinstance(number, int | float):
                made.setdefault(series, {}).setdefault(x, []).append(number * panel.times)
    return made


def _columns(pattern: str, row: Row, x: str) -> list[tuple[Any, str]]:
    """Return the x values of a row in a panel, each with its column."""
    before, star, after = pattern.partition("*")
    if not star:
        return [(row[x], pattern)]
    return [
        (column[len(before) : len(column) - len(after)], column)
        for column in row
        if column.startswith(before) and column.endswith(after)
    ]


def _places(found: Values) -> list[Any]:
    return list(dict.fromkeys(x for by_x in found.values() for x in by_x))


def _medians(found: Values) -> Mapping[str, Mapping[Any, float]]:
    return {
        series: {x: statistics.median(numbers) for x, numbers in by_x.items()}
        for series, by_x in found.items()
    }


def _panel(axes: Axes, chart: FigureChart, panel: Panel, found: Values) -> None:
    places, middles = _places(found), _medians(found)
    width = 0.8 / max(1, len(found))
    for number, (series, by_x) in enumerate(middles.items()):
        at = [places.index(x) for x in by_x]
        colour = _COLOURS.get(series, f"C{number}")
        if chart.lines:
            axes.plot(at, list(by_x.values()), "o-", color=colour, label=series, markersize=4)
            continue
        ends = [(y - min(found[series][x]), max(found[series][x]) - y) for x, y in by_x.items()]
        shift = (number - (len(found) - 1) / 2) * width
        axes.bar(
            [place + shift for place in at],
            list(by_x.values()),
            width,
            yerr=list(zip(*ends, strict=True)) if any(map(any, ends)) else None,
            capsize=2,
            color=colour,
            label=series,
        )
    for start, end in chart.spans:
        axes.axvspan(start, end, color=_PUBLISHED, alpha=0.25)
    shown = range(0, len(places), max(1, len(places) // _TICKS_MAX * 5))
    labels = [chart.x_format.format(places[place]) for place in shown]
    axes.set_xticks(list(shown), labels, fontsize=8)
    if sum(map(len, labels)) > 80:
        axes.tick_params(axis="x", labelrotation=60)
    axes.set_ylabel(panel.label, fontsize=8)
    axes.set_title(panel.title, fontsize=9)


def _mark(axes: Axes, mark: Mark, found: Values) -> None:
    """Draw published values."""
    places, middles = _places(found), _medians(found)
    colour = _COLOURS.get(str(mark.series), _PUBLISHED)
    if mark.band is not None:
        axes.axhspan(*_ends(mark.band), color=colour, alpha=0.25, label=mark.label)
        return
    numbers = dict(mark.at)
    if mark.over is not None:
        base = middles[mark.over]
        chosen = list(base)
        if mark.of is not None:
            mine = middles[mark.of]
            chosen = [max(chosen, key=lambda x: abs(mine[x] / base[x] - 1) if base[x] else 0)]
        percents = _ends(mark.change)
        numbers = {x: [base[x] * (1 + percent / 100) for percent in percents] for x in chosen}
    for x, published in numbers.items():
        low, high = _ends(published)
        axes.plot([places.index(x)] * 2, [low, high], "D-", color=colour, markeredgecolor="black",
                  zorder=3, markersize=4, label=mark.label)  # fmt: skip


def _ends(published: Any) -> tuple[float, float]:
    """Return both ends of a number, of a range, or of a claim's range."""
    if isinstance(published, str):
        return claims.ends(published)
    low, high = published if isinstance(published, Sequence) else (published, published)
    return float(low), float(high)
