# SPDX-License-Identifier: Apache-2.0
"""The report's charts as SVG: ways over time, states, curves. CSS classes give the colours.

All texts are escaped here; the results are safe HTML.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Sequence

from markupsafe import Markup, escape

from iat_nova.common import amounts
from iat_nova.model import DomainInventory, Layout, WayMask
from iat_nova.report import escape as terminal
from iat_nova.report import times, waymap
from iat_nova.report.stretches import Stretch

WIDTH, LEFT, RIGHT = 1000.0, 72.0, 12.0  # in the drawing's own units
LETTER_PX = 8.0  # of a bold 12 px name, in the widest of usual fonts (DejaVu Sans)
WAY_HEIGHT = 24.0
LANE_HEIGHT, LANE_NAME, LANE_GAP = 33.0, 16.0, 8.0  # all ways of a tenant, its name above
LANE_LETTERS = 80
NARROW = 6.0  # a narrower box has no edge: edges side by side would hide the colours
HUES = 7  # CSS classes hue0..hue6
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


@dataclasses.dataclass(frozen=True, slots=True)
class Span:
    """A period with an unchanged layout and an unchanged state."""

    begin_s: float
    end_s: float
    layout: Layout
    state: str
    inventory: DomainInventory


@dataclasses.dataclass(frozen=True, slots=True)
class Curve:
    """Values over time, None for missing values, and the CSS class for the colour."""

    name: str
    style: str
    points: Sequence[tuple[float, float | None]]


def hues(inventories: Iterable[DomainInventory]) -> dict[str, str]:
    """Assign a colour class to every tenant, in the order of first appearance."""
    found: dict[str, str] = {}
    for inventory in inventories:
        for tenant in inventory.tenants:
            found.setdefault(tenant.id, f"hue{len(found) % HUES}")
    return found


def way_bands(axis: Axis, spans: Sequence[Span], ways: int, colours: dict[str, str]) -> Markup:
    """Draw the tenants of each way over time: way 0 at the bottom, DDIO ways hatched."""
    height = ways * WAY_HEIGHT
    parts: list[Markup] = []
    for way in range(ways):
        parts.append(_label(LEFT - 8, (ways - way - 0.5) * WAY_HEIGHT + 4, str(way), "end"))
    for span in spans:
        parts += _span_boxes(axis, span, ways, colours)
    return _svg(parts, axis, height, "Ways over time")


def tenant_lanes(
    axis: Axis, spans: Sequence[Span], ways: int, tenants: Iterable[tuple[str, str, str, str]]
) -> Markup:
    """Draw each tenant's mask over time in a lane: its id, colour class, name and priority."""
    parts: list[Markup] = []
    tall, top = LANE_HEIGHT / ways, 0.0
    devices = _masks((span, span.layout.ddio) for span in spans)
    for tenant, style, called, priority in tenants:
        name = terminal.plain(called)
        shown = f"{terminal.cut(name, LANE_LETTERS)} {priority}"
        # At the right, where a narrow screen begins: there the earlier part is scrolled to.
        parts.append(_label(WIDTH - RIGHT, top + 12, shown, "end", "lane-name"))
        top += LANE_NAME
        whole = axis.x(axis.end_s) - axis.x(axis.begin_s)
        parts.append(_box(LEFT, top, whole, LANE_HEIGHT, "lane", name))
        masks = _masks((span, span.layout.mask_of(tenant)) for span in spans)
        for drawn, whose in ((masks, name), (devices, "DDIO")):
            box = "lane-hatch" if drawn is devices else f"way in-lane {style}"
            for begin_s, end_s, mask in drawn:
                begin, end = axis.x(begin_s), axis.x(end_s)
                y = top + (ways - mask.highest - 1) * tall
                words = f"{whose}: {amounts.ways(mask.count)} {mask}, "
                words += f"{_clock(begin_s)} to {_clock(end_s)}"
                parts.append(_box(begin, y, max(end - begin, 0.8), mask.count * tall, box, words))
        top += LANE_HEIGHT + LANE_GAP
    return _svg(parts, axis, top, "Ways of each tenant over time")


def _masks(spans: Iterable[tuple[Span, WayMask | None]]) -> list[tuple[float, float, WayMask]]:
    """Return the periods in which a mask stayed the same; those without a mask are left out."""
    found: list[tuple[float, float, WayMask]] = []
    for span, mask in spans:
        if found and found[-1][1:] == (span.begin_s, mask):
            found[-1] = (found[-1][0], span.end_s, found[-1][2])
        elif mask:
            found.append((span.begin_s, span.end_s, mask))
    return found


def state_strip(axis: Axis, spans: Sequence[Span], styles: dict[str, str]) -> Markup:
    """Draw the states of the strategy over time, with names where there is room."""
    parts: list[Markup] = [_label(LEFT - 8, 16, "state", "end")]
    merged: list[Span] = []
    for span in spans:
        if merged and merged[-1].state == span.state and merged[-1].end_s == span.begin_s:
            merged[-1] = dataclasses.replace(merged[-1], end_s=span.end_s)
        else:
            merged.append(span)
    for one in merged:
        begin, end = axis.x(one.begin_s), axis.x(one.end_s)
        words = f"{one.state}, from {_clock(one.begin_s)} to {_clock(one.end_s)}"
        box = Markup(
            '<rect class="{}" x="{:.1f}" y="1" width="{:.1f}" height="22" rx="2">'
            "<title>{}</title></rect>"
        )
        style = styles.get(one.state, "")
        parts.append(box.format(style, begin, max(end - begin, 0.8), words))
        if end - begin > 7.2 * len(one.state):
            parts.append(_label((begin + end) / 2, 16, one.state, "middle", f"on-{style}"))
    return _svg(parts, axis, 24, "States of the strategy", ticks=False)


def quiet_strip(axis: Axis, stretches: Iterable[Stretch]) -> Markup:
    """Draw the stretches without a decision; a title gives the reason of each."""
    parts: list[Markup] = [_label(LEFT - 8, 12, "quiet", "end")]
    for one in stretches:
        begin, end = axis.x(one.begin_s), axis.x(one.end_s)
        style = "quiet" if one.decided else "gap"
        words = f"{_clock(one.begin_s)} to {_clock(one.end_s)}: {one.text}"
        style += " busy" if one.busy else ""
        parts.append(_box(begin, 1, max(end - begin, 0.8), 14, style, words))
    return _svg(parts, axis, 16, "Stretches without a decision", ticks=False)


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
    known = [value for line in lines for _, value in line.points if value is not None]
    highest = max([*known, limit[0] * 1.1 if limit else 0.0], default=0.0)
    top = _nice(highest)
    parts: list[Markup] = []
    for part in (0.0, 0.5, 1.0):
        y = 8 + (height - 8) * (1 - part)
        parts.append(_rule("rule", y))
        parts.append(_label(LEFT - 8, y + 4, unit(top * part), "end"))
        if part:  # where a narrow screen begins
            parts.append(_label(WIDTH - RIGHT, y + 14, unit(top * part), "end", "note at-right"))
    for line in lines:
        path = _path(axis, line.points, top, height, gap_s)
        drawn = Markup('<path class="line {}" d="{}"><title>{}</title></path>')
        parts.append(drawn.format(line.style, path, line.name))
    if limit is not None:
        y = 8 + (height - 8) * (1 - limit[0] / top)
        parts.append(_rule("limit", y))
        parts.append(_label(WIDTH - RIGHT - 4, y - 5, limit[1], "end", "note"))
    return _svg(parts, axis, height, ", ".join(line.name for line in lines))


def small_curve(
    axis: Axis, line: Curve, *, unit: Callable[[float], str] = str, gap_s: float = math.inf
) -> Markup:
    """Draw one curve without axes, for a table's cell; its title has the maximum."""
    known = [value for _, value in line.points if value is not None]
    highest = max(known, default=0.0)
    path = _path(axis, line.points, highest or 1.0, 40.0, gap_s)
    words = f"{line.name}: at most {unit(highest)}" if known else f"{line.name}: not known"
    return Markup(
        '<svg class="small" viewBox="{:.0f} 4 {:.0f} 40" preserveAspectRatio="none" role="img" '
        'aria-label="{}"><title>{}</title><path class="line {}" d="{}"/></svg>'
    ).format(LEFT, WIDTH - LEFT - RIGHT, words, words, line.style, path)


def _style(segment: waymap.Segment, inventory: DomainInventory, colours: dict[str, str]) -> str:
    """Return the CSS class of a segment: its tenant's colour, or the colour of shared ways."""
    if not segment.tenants:
        return segment.kind.value
    if len(segment.tenants) == 1:
        return colours.get(segment.tenants[0], "")
    return "shared-critical" if waymap.only_critical(segment, inventory) else "shared"


def _span_boxes(axis: Axis, span: Span, ways: int, colours: dict[str, str]) -> list[Markup]:
    """Draw one period: a box per segment, and the hatch over the DDIO ways."""
    begin, end = axis.x(span.begin_s), axis.x(span.end_s)
    width = max(end - begin, 0.8)
    edge = " narrow" if width < NARROW else ""
    boxes: list[Markup] = []
    names: list[Markup] = []  # above the hatch
    for segment in waymap.segments(span.layout, span.inventory):
        name = waymap.label(segment, span.inventory) or segment.kind.value
        y = (ways - segment.lowest - segment.count) * WAY_HEIGHT
        tall = segment.count * WAY_HEIGHT
        style = _style(segment, span.inventory, colours)
        words = (
            f"{name}: ways {segment.lowest}..{segment.lowest + segment.count - 1}"
            f"{', shared with DDIO' if segment.ddio and segment.tenants else ''}, "
            f"{_clock(span.begin_s)} to {_clock(span.end_s)}"
        )
        boxes.append(_box(begin, y, width, tall, f"way {style}{edge}", words))
        letters = int((width - 8) / LETTER_PX)
        if segment.tenants and letters >= 3:
            shown = terminal.cut(name, letters)
            names.append(_label(begin + 5, y + tall / 2 + 4, shown, "start", f"in-way {style}"))
    devices = [(span.layout.ddio, "DDIO", "DDIO")] if span.layout.ddio else []
    for group in span.layout.ports:
        first, *others = group.ports
        name = f"{first} and {len(others)} more" if others else first
        devices.append((group.mask, waymap.ports(group, span.inventory), name))
    for mask, whose, name in devices:
        y = (ways - mask.highest - 1) * WAY_HEIGHT
        words = f"{whose}: {amounts.ways(mask.count)}, {mask}"
        boxes.append(_box(begin, y, width, mask.count * WAY_HEIGHT, f"hatch{edge}", words))
        if width > 11 * len(name):
            names.append(_label(begin + width - 6, y + 14, name, "end", "ddio-name"))
    return boxes + names


def _box(x: float, y: float, width: float, height: float, style: str, words: str) -> Markup:
    return Markup(
        '<rect class="{}" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}">'
        "<title>{}</title></rect>"
    ).format(style, x, y, width, height, words)


def _rule(style: str, y: float) -> Markup:
    line = Markup('<line class="{}" x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}"/>')
    return line.format(style, LEFT, y, WIDTH - RIGHT, y)


def _label(x: float, y: float, text: str, anchor: str, style: str = "tick") -> Markup:
    return Markup('<text class="{}" x="{:.1f}" y="{:.1f}" text-anchor="{}">{}</text>').format(
        style, x, y, anchor, text
    )


def _svg(
    parts: Sequence[Markup], axis: Axis, height: float, words: str, *, ticks: bool = True
) -> Markup:
    """Assemble a chart, with the time axis at the bottom."""
    drawn = list(parts)
    if ticks:
        for moment, text in axis.ticks():
            x = axis.x(moment)
            rule = Markup('<line class="tick-rule" x1="{0:.1f}" y1="0" x2="{0:.1f}" y2="{1:.1f}"/>')
            drawn.append(rule.format(x, height + 4))
            room = 4.0 * len(text)  # half of the label's width, to keep labels inside the drawing
            x = min(max(x, room), WIDTH - room)
            drawn.append(_label(x, height + 17, text, "middle"))
    total = height + (22 if ticks else 0)
    body = Markup("\n").join(drawn)
    return Markup('<svg viewBox="0 0 {:.0f} {:.0f}" role="img" aria-label="{}">{}</svg>').format(
        WIDTH, total, escape(words), body
    )


def _path(
    axis: Axis,
    points: Sequence[tuple[float, float | None]],
    top: float,
    height: float,
    gap_s: float,
) -> str:
    """Return the path of a curve, interrupted at gaps."""
    moves: list[str] = []
    last_s: float | None = None
    for wall_s, value in points:
        if value is None or not math.isfinite(value):
            last_s = None
            continue
        begin = last_s is None or wall_s - last_s > gap_s
        y = 8 + (height - 8) * (1 - min(value / top, 1.0))
        moves.append(f"{'M' if begin else 'L'}{axis.x(wall_s):.1f} {y:.1f}")
        last_s = wall_s
    return "".join(moves)


def _nice(value: float) -> float:
    """Return the next larger number among 1, 2, 3, 4, 5, 6, 8, 10 times a power of ten."""
    if value <= 0 or not math.isfinite(value):
        return 1.0
    power: float = 10.0 ** math.floor(math.log10(value))
    return next(factor * power for factor in (1, 2, 3, 4, 5, 6, 8, 10) if factor * power >= value)


def _clock(wall_s: float) -> str:
    return times.utc(wall_s, "%H:%M:%S")
