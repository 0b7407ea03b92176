# SPDX-License-Identifier: Apache-2.0
"""The report: a self-contained HTML file made from the record alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from markupsafe import Markup

from iat_nova.checks.qualify.run import TESTS
from iat_nova.common import amounts
from iat_nova.report import charts, page, times

_HEIGHT = 220.0
_UNITS: Mapping[str, Callable[[float], str]] = {
    "share": lambda value: f"{value:.0%}",
    "count": lambda value: f"{value / 1e6:.1f} M" if value >= 1e6 else f"{value:.0f}",
    "seconds": lambda value: f"{value * 1e3:.3g} ms",
    "bytes_per_s": lambda value: f"{value / 1e9:.3g} GB/s",
}


@dataclasses.dataclass(frozen=True, slots=True)
class _Along(charts.Axis):
    marks: tuple[tuple[float, str], ...] = ()

    def ticks(self) -> list[tuple[float, str]]:
        return list(self.marks)


def write(record: Mapping[str, Any]) -> str:
    """Return the HTML page of a record (`record.as_data`)."""
    return page.template("iat_nova.checks.qualify", "qualify.html.j2").render(
        record=record,
        taken=times.moment(record["taken_at_s"]),
        questions={name: one.question for name, one in TESTS.items()},
        drawn={one["name"]: _drawn(one["chart"]) for one in record["tests"] if one["chart"]},
        size=amounts.size,
        duration=times.duration,
    )


def _drawn(chart: Mapping[str, Any]) -> dict[str, Any]:
    marks = tuple((float(x), str(word)) for x, word in chart["ticks"])
    xs = [x for _, points in chart["lines"] for x, _ in points]
    lines = [
        charts.Curve(name, f"hue{number % charts.HUES}", [(x, y) for x, y in points])
        for number, (name, points) in enumerate(chart["lines"])
    ]
    drawing: Markup = charts.curves(
        _Along(min(xs), max(xs), marks), lines, height=_HEIGHT, unit=_UNITS[chart["unit"]]
    )
    return {
        "title": chart["title"],
        "x": chart["x"],
        "svg": drawing,
        "legend": [(line.style, line.name) for line in lines] if len(lines) > 1 else [],
    }
