# SPDX-License-Identifier: Apache-2.0
"""The report's charts as SVG: ways over time, states, curves. CSS classes give the colours.

All texts are escaped here; the results are safe HTML.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

from markupsafe import Markup
from markupsafe import escape as escape_html

from iat_nova.common import amounts
from iat_nova.model import DDIO, Layout, WayMask
from iat_nova.report import escape, times
from iat_nova.report.stretches import Stretch

WIDTH, LEFT, RIGHT = 1000.0, 132.0, 12.0  # in the drawing's own units
LETTER_PX = 9.0  # of a bold 13 px name, in the widest of usual fonts (DejaVu Sans)
ROW_HEIGHT, ROW_GAP = 33.0, 15.0  # all ways of a tenant; a narrow screen has names in the gap
ROW_LETTERS = 13  # of a name, left of the row
CELL_HEIGHT = 40.0  # of a small curve in a table
HUES = 7  # CSS classes hue0..hue6
Period = tuple[float, float]  # begin and end, wall clock
Points = Sequence[tuple[float, float | None]]  # wall clock and value
_Value = TypeVar("_Value")
_STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400)


@dataclasses.dataclass(frozen=True, slots=True)
class Axis:
    """The common time axis of all charts of a page, on the wall clock."""

    begin_s: float
    end_s: float

    def x(self, wall_s: float) -> float:
        """Return the position of a time."""
        part = (wall_s - self.begin_s) / max(self.end_s - self.begin_s, 1e-9)
        return LEFT + min(max(part, 0.0), 1.0) * (WIDTH - LEFT - RIGHT)

    def moment(self, wall_s: float) -> str:
        """Return date and time, without the date on the only day of the axis."""
        whole, day = times.moment(wall_s), times.moment(self.begin_s)[:11]
        return whole.removeprefix(day) if times.moment(self.end_s).startswith(day) else whole

    def ticks(self) -> list[tuple[float, str]]:
        """Return up to about eight round times with labels, in UTC."""
        span = self.end_s - self.begin_s
        step = next((step for step in _STEPS if span / step <= 8), 86400 * math.ceil(span / 691200))
        first = math.ceil(self.begin_s / step) * step
        form = "%H:%M:%S" if step < 60 else "%H:%M" if span < 86400 else "%d %b %H:%M"
        count = int((self.end_s - first) // step) + 1 if first <= self.end_s else 0
        moments = [first + number * step for number in range(count)]
        return [(moment, times.utc(moment, form)) for moment in moments]


class Span(NamedTuple):
    """A period with an unchanged layout and an unchanged state."""

    begin_s: float
    end_s: float
    layout: Layout
    state: str


class Curve(NamedTuple):
    """Values over time, None for missing values, and the CSS class for the colour."""

    name: str
    style: str
    points: Points


class Row(NamedTuple):
    """The row of a tenant, a port or DDIO: id, CSS class for the colour, name and kind."""

    subject: str
    style: str
    name: str
    kind: str


def way_rows(axis: Axis, spans: Sequence[Span], ways: int, rows: Iterable[Row]) -> Markup:
    """Draw the mask of each row's subject over time, way 0 at the bottom; devices' ways hatched."""
    parts: list[Markup] = []
    ports = dict.fromkeys(port for span in spans for port in span.layout.port_masks)
    hatches = [("hatch", "DDIO", _masks(spans, DDIO))]
    hatches += [("hatch", escape.plain(port), _masks(spans, port)) for port in ports]
    top, tall = ROW_GAP, ROW_HEIGHT / ways
    for row in rows:
        name, masks = escape.plain(row.name), _masks(spans, row.subject)
        shown = escape.middle(name, ROW_LETTERS)
        parts.append(_label(LEFT - 8, top + 14, shown, "end", "row-name"))
        parts.append(_label(LEFT - 8, top + 29, row.kind, "end", "tick row-kind"))
        parts.append(_bar(axis, (axis.begin_s, axis.end_s), top, ROW_HEIGHT, "row", name))
        for style, owner, periods in ((f"way {row.style}", name, masks), *hatches):
            for period_s, mask in periods:
                y, words = top + (ways - mask.highest - 1) * tall, amounts.ways(mask.count)
                height = mask.count * tall
                parts.append(_bar(axis, period_s, y, height, style, f"{owner}, {words} {mask}"))
        for period_s, mask in masks:  # above the hatch
            parts += _middle(axis, period_s, top + 21, str(mask.count), "count")
        top += ROW_HEIGHT + ROW_GAP
    return _svg(parts, axis, top - ROW_GAP, "Ways of DDIO and of each tenant over time")


def strips(
    axis: Axis, spans: Sequence[Span], styles: Mapping[str, str], stretches: Iterable[Stretch]
) -> Markup:
    """Draw the strategy's states, named where there is room, and stretches without a decision."""
    parts = [_label(LEFT - 8, 16, "state", "end"), _label(LEFT - 8, 40, "quiet", "end")]
    for period_s, state in _unchanged(((one.begin_s, one.end_s), one.state) for one in spans):
        style = styles.get(state, "")
        parts.append(_bar(axis, period_s, 1, 22, style, state))
        parts += _middle(axis, period_s, 16, state, f"on-{style}")
    for one in stretches:
        style = ("quiet" if one.decided else "gap") + (" busy" if one.busy else "")
        parts.append(_bar(axis, (one.begin_s, one.end_s), 29, 14, style, one.text))
    return _svg(parts, axis, 46, "States, and stretches without a decision", ticks=False)


def _masks(spans: Iterable[Span], subject: str) -> list[tuple[Period, WayMask]]:
    """Return the periods in which a mask stayed the same; those without a mask are left out."""
    masks = _unchanged(((one.begin_s, one.end_s), one.layout.mask_of(subject)) for one in spans)
    return [(period_s, mask) for period_s, mask in masks if mask]


def _unchanged(periods: Iterable[tuple[Period, _Value]]) -> list[tuple[Period, _Value]]:
    """Join neighbouring periods with the same value."""
    joined: list[tuple[Period, _Value]] = []
    for (begin_s, end_s), value in periods:
        if joined and (joined[-1][0][1], joined[-1][1]) == (begin_s, value):
            begin_s = joined.pop()[0][0]  # noqa: PLW2901 - the joined period's
        joined.append(((begin_s, end_s), value))
    return joined


def curves(
    axis: Axis,
    lines: Sequence[Curve],
    *,
    height: float = 120.0,
    unit: Callable[[float], str] = str,
    limit: tuple[float, str] | None = None,
    gap_s: float = math.inf,
) -> Markup:
    """Draw curves from zero. A line breaks at missing values and at gaps longer than `gap_s`."""
    values = [value for line in lines for _, value in line.points if value is not None]
    top = _nice(max([*values, limit[0] * 1.1 if limit else 0.0], default=0.0))
    parts: list[Markup] = []
    for part in (0.0, 0.5, 1.0):
        y = 8 + (height - 8) * (1 - part)
        parts.append(_rule("rule", y))
        style = "tick high" if part else "tick"  # which a narrow screen shows at the right
        parts.append(_label(LEFT - 8, y + 4, unit(top * part), "end", style))
    for line in lines:
        drawn = path(axis, line.points, top, height, gap_s)
        parts.append(_shape("path", f"line {line.style}", line.name, d=drawn))
    if limit is not None:
        y = 8 + (height - 8) * (1 - limit[0] / top)
        parts.append(_rule("limit", y))
        parts.append(_label(WIDTH - RIGHT - 4, y - 5, limit[1], "end", "note"))
    return _svg(parts, axis, height, ", ".join(line.name for line in lines))


def path(axis: Axis, points: Points, top: float, height: float, gap_s: float) -> str:
    """Return the path of a curve, interrupted at gaps."""
    moves: list[str] = []
    last_s = -math.inf
    for wall_s, value in points:
        if value is None or not math.isfinite(value):
            last_s = -math.inf
            continue
        y = 8 + (height - 8) * (1 - min(value / top, 1.0))
        begins = math.isinf(last_s) or wall_s - last_s > gap_s
        moves.append(f"{'M' if begins else 'L'}{axis.x(wall_s):.1f} {y:.1f}")
        last_s = wall_s
    return "".join(moves)


def _bar(axis: Axis, period_s: Period, y: float, height: float, style: str, words: str) -> Markup:
    """Draw a period; its title has the times and `words`."""
    begin, end = map(axis.x, period_s)
    clock = " to ".join(times.utc(moment_s, "%H:%M:%S") for moment_s in period_s)
    width = max(end - begin, 0.8)
    return _shape("rect", style, f"{clock}: {words}", x=begin, y=y, width=width, height=height)


def _middle(axis: Axis, period_s: Period, y: float, text: str, style: str) -> Iterator[Markup]:
    """Yield a label in the middle of a period if the period is wide enough."""
    begin, end = map(axis.x, period_s)
    if end - begin > LETTER_PX * len(text):
        yield _label((begin + end) / 2, y, text, "middle", style)


def _rule(style: str, y: float) -> Markup:
    return _shape("line", style, x1=LEFT, y1=y, x2=WIDTH - RIGHT, y2=y)


def _label(x: float, y: float, text: str, anchor: str, style: str = "tick") -> Markup:
    return _shape("text", style, text, x=x, y=y, **{"text-anchor": anchor})


def _shape(tag: str, style: str, words: str = "", **place: float | str) -> Markup:
    """Return an element of SVG; `words`, alone escaped: the content of a text, else the title."""
    attributes = "".join(
        f' {name}="{value}"' if isinstance(value, str) else f' {name}="{value:.1f}"'
        for name, value in place.items()
    )
    content = escape_html(words)
    if words and tag != "text":
        content = Markup("<title>{}</title>").format(words)
    return Markup(f'<{tag} class="{style}"{attributes}>{content}</{tag}>')


def _svg(
    parts: Sequence[Markup], axis: Axis, height: float, words: str, *, ticks: bool = True
) -> Markup:
    """Assemble a chart, with the time axis at the bottom."""
    drawn = list(parts)
    for moment, text in axis.ticks() if ticks else ():
        x, room = axis.x(moment), 4.0 * len(text)  # half of the label's width: it stays inside
        drawn.append(_shape("line", "tick-rule", x1=x, y1=0, x2=x, y2=height + 4))
        drawn.append(_label(min(max(x, room), WIDTH - room), height + 17, text, "middle"))
    total = height + (22 if ticks else 0)
    body = Markup("\n").join(drawn)
    return Markup('<svg viewBox="0 0 {:.0f} {:.0f}" role="img" aria-label="{}">{}</svg>').format(
        WIDTH, total, words, body
    )


def _nice(value: float) -> float:
    """Return the next larger number among 1, 2, 3, 4, 5, 6, 8, 10 times a power of ten."""
    if value <= 0 or not math.isfinite(value):
        return 1.0
    power: float = 10.0 ** math.floor(math.log10(value))
    return next(factor * power for factor in (1, 2, 3, 4, 5, 6, 8, 10) if factor * power >= value)
