# SPDX-License-Identifier: Apache-2.0
"""The lines of `iat-nova top`; the terminal is in `cmd.full_screen`."""

from __future__ import annotations

import collections
import dataclasses
import time
from collections.abc import Callable, Sequence

from iat_nova.common import amounts as figures
from iat_nova.model import DomainInventory, Layout, Priority, Rates, Tenant, WayMask
from iat_nova.report import escape, status, times, view, waymap, words
from iat_nova.report.top_screen import HELP, Mode, Screen
from iat_nova.report.view import DomainView, HostView
from iat_nova.store.heartbeat import AgentState
from iat_nova.store.reader import HistoryReader, Recorded
from iat_nova.store.records import Iteration

KEYS = "q quit  h help  up/down choose  enter explain  left/right look back  p pause"
TRACE = 512  # iterations remembered for the curves
TRAIL = 64  # decisions remembered for the trail of way maps
ROOMY = 30  # lines from which on blank ones set the parts off
WIDE = 100  # columns from which on there is room for what is monitored
NARROW = 72  # below which mask and references give way to names
LEAST = 4  # lines of the table of tenants, before the curves give way
REASON = 3  # lines of a decision's reason, where it does not fit beside the map
_BARS = "▁▂▃▄▅▆▇█"
_BOLD, _DIM, _ALARM, _TITLE = "\x1b[1m", "\x1b[2m", "\x1b[1;31m", "\x1b[7m"
_RESET = "\x1b[0m"


@dataclasses.dataclass(frozen=True, slots=True)
class PastDecision:
    """A decision in the list of latest decisions: time, layout and text."""

    wall_s: float
    layout: Layout
    inventory: DomainInventory
    text: str


class Trace:
    """The latest decisions of one cache domain; each refresh reads only new iterations."""

    def __init__(self, domain: int) -> None:
        self.domain = domain
        self.hits: collections.deque[float | None] = collections.deque(maxlen=TRACE)
        self.misses: collections.deque[float | None] = collections.deque(maxlen=TRACE)
        self.decisions: collections.deque[PastDecision] = collections.deque(maxlen=TRAIL)
        self._row = 0

    def look(self, reader: HistoryReader, now: DomainView) -> None:
        """Add the iterations recorded since the last call."""
        newest = now.latest.row if now.latest else 0
        if newest < self._row:  # the history was begun anew
            for remembered in (self.hits, self.misses, self.decisions):
                remembered.clear()
            self._row = 0
        if not self._row:
            for old in reversed(reader.decisions(TRAIL, self.domain)):
                self._remember(old, reader, now.inventory)
        for one in reader.newer(self.domain, self._row, TRACE // 4):
            self._add(one)
            if self._row and one.iteration.eventful:
                self._remember(one, reader, now.inventory)
        self._row = newest

    def until(self, reader: HistoryReader, then: DomainView, wall_s: float) -> None:
        """Add the iterations recorded until a moment, instead of the latest."""
        begin_s = wall_s - TRACE
        for one in reader.between(begin_s, wall_s, self.domain):
            self._add(one)
        for old in reversed(reader.decisions(TRAIL // 4, self.domain, end_s=wall_s)):
            self._remember(old, reader, then.inventory)

    def _add(self, recorded: Recorded) -> None:
        self.hits.append(recorded.iteration.sample.ddio_hits_per_s)
        self.misses.append(recorded.iteration.sample.ddio_misses_per_s)

    def _remember(self, recorded: Recorded, reader: HistoryReader, now: DomainInventory) -> None:
        iteration = recorded.iteration
        inventory = self._tenants_then(iteration, reader, now)
        text = words.deeds(iteration, inventory)
        layout = iteration.decision.layout
        self.decisions.append(PastDecision(iteration.wall_s, layout, inventory, text))

    def _tenants_then(
        self, iteration: Iteration, reader: HistoryReader, now: DomainInventory
    ) -> DomainInventory:
        """Return the iteration's own inventory, which has all names, if a tenant left since."""
        here = {tenant.id for tenant in now.tenants}
        if all(here.issuperset(group.tenants) for group in iteration.decision.layout.groups):
            return now
        return reader.domain_inventory(iteration) or now


def frame(
    seen: HostView,
    domain: DomainView | None,
    trace: Trace | None,
    screen: Screen,
    page: Sequence[str] = (),
) -> list[str]:
    """Return the lines of one screen, within the screen's width and height.

    `page`: lines shown instead of the tenants in `Mode.PAGE`.
    """
    lines = _header(seen, screen)
    if screen.mode is Mode.PAGE:
        first, last = _part(seen, screen, page)
        lines += [escape.cut(f" {text}", screen.width) for text in page[first:last]]
    elif domain is None or trace is None:
        lines += ["", " No tenants were recorded yet."]
    else:
        lines += _domain_lines(seen, domain, screen)
        curves = _curves(trace, screen)
        if curves and screen.height - len(lines) - len(curves) - 2 >= LEAST:
            lines += [*curves, ""]
        shown = 2 if screen.height >= ROOMY else 1
        trail = 2 + min(len(trace.decisions), shown) * REASON
        room = screen.height - len(lines) - 1
        lines += _tenant_lines(domain, screen, max(min(LEAST, room), room - trail))
        lines += _trail_lines(trace, screen, screen.height - len(lines) - 1)
    lines = lines[: screen.height - 1]
    lines += [""] * (screen.height - 1 - len(lines))
    return [*lines, _bottom(seen, screen, page)]


def _part(seen: HostView, screen: Screen, page: Sequence[str]) -> tuple[int, int]:
    """Return the first line of a page that is shown, and the line after the last."""
    room = max(1, screen.height - len(_header(seen, screen)) - 1)
    first = min(screen.offset, max(0, len(page) - room))
    return first, min(first + room, len(page))


def bounded(seen: HostView, screen: Screen, page: Sequence[str]) -> Screen:
    """Return the screen with the page scrolled no further than its end."""
    return dataclasses.replace(screen, offset=_part(seen, screen, page)[0])


def help_page() -> list[str]:
    """Return the lines of the help."""
    wide = max(len(keys) for keys, _ in HELP)
    lines = ["Keys", "", *(f"{keys:<{wide}}   {text}" for keys, text in HELP), ""]
    lines += ["[a+b] ways that tenants a and b may fill; ~ DDIO writes here too; . idle"]
    return [*lines, "> the chosen tenant; ~ddio: it shares ways with DDIO; held: by iat-nova hold"]


def listed(domain: DomainView, screen: Screen) -> list[Tenant]:
    """Return the listed tenants in their order."""
    names, wanted = words.Names(domain.inventory), screen.pattern.casefold()
    tenants = _sorted(domain, screen.sort)
    return [one for one in tenants if wanted in names(one.id).casefold()]


def _bottom(seen: HostView, screen: Screen, page: Sequence[str]) -> str:
    """Return the last line: a question, a note, the typed text, or the keys."""
    if screen.mode is Mode.CONFIRM:
        paused = view.pause(seen) is not None
        asked = "resume" if paused else "hold all masks as they are until `iat-nova resume`"
        return _styled(f" {asked}? y: yes, any other key: no", _ALARM, screen)
    if screen.mode is Mode.FILTER:
        return _styled(
            f" /{escape.plain(screen.pattern)}_   Enter keeps it, Esc shows all", _BOLD, screen
        )
    if screen.note:
        return _styled(f" {escape.plain(screen.note)}", _ALARM, screen)
    if screen.mode is Mode.PAGE:
        first, last = _part(seen, screen, page)
        place = f"lines {first + 1} to {last} of {len(page)}   up/down scroll   "
        shown = place if last - first < len(page) else ""
        return _styled(f" {shown}q back", _DIM, screen)
    marks = "FROZEN   " if screen.frozen else ""
    if screen.pattern:
        marks += f"only /{escape.plain(screen.pattern)}, Esc: all   "
    return _styled(f" {marks}{KEYS}", _DIM, screen)


def sparkline(values: Sequence[float | None], width: int) -> str:
    """Draw the last `width` values as bars against their maximum; unknown values are blank."""
    shown = list(values)[-width:] if width > 0 else []
    highest = max((value for value in shown if value is not None), default=0.0)
    return "".join(_bar(value, highest) for value in shown)


def _bar(value: float | None, highest: float) -> str:
    if value is None:
        return " "
    return _BARS[min(len(_BARS) - 1, int(value / highest * len(_BARS)))] if highest else _BARS[0]


def _header(seen: HostView, screen: Screen) -> list[str]:
    """Return host, mode and age of the data, then problems, pause and holds."""
    age = f"data {times.duration(seen.now.age_s)} old" if seen.now else "no data"
    then = f"   {view.mode(seen)}   {age}"
    if screen.past_s is not None:
        ago = times.duration(max(0.0, time.time() - screen.past_s))
        then = f"   AT {times.moment(screen.past_s)}, {ago} ago"
    clock = times.utc(time.time(), " %H:%M:%S UTC")
    room = screen.width - escape.width(f" iat-nova   {then}{clock}")
    left = f" iat-nova   {escape.middle(escape.plain(seen.hostname), max(8, room))}{then}"
    title = escape.fit(left, screen.width - len(clock)) + clock
    lines = [_styled(title, _TITLE, screen)]
    alarms = []
    if view.pause(seen) is not None:
        alarms.append(f"masks held {status.pause_words(seen, time.time())}")
    if seen.now is None or seen.agent.state is AgentState.FAILED:
        alarms.append(f"the agent is {view.agent_words(seen)}")
    alarms += [f"held: {status.hold_words(seen, hold, time.time())}" for hold in seen.holds]
    if seen.now is not None and seen.running:
        said = seen.now.status
        alarms += words.texts((*said.reasons, *said.problems))
    alarms += [seen.damage] if seen.damage else []
    for alarm in alarms[:3]:
        wrapped = escape.wrap(escape.plain(alarm), screen.width - 2, 2)
        lines += [_styled(f" {text}", _ALARM, screen) for text in wrapped]
    return lines


def _domain_lines(seen: HostView, domain: DomainView, screen: Screen) -> list[str]:
    cache = domain.inventory.domain
    of = f" of {len(seen.domains)}" if len(seen.domains) > 1 else ""
    if domain.latest is None or domain.layout is None:
        return [_styled(f" domain {cache.id}{of}   no iteration yet", _BOLD, screen)]
    latest = domain.latest.iteration
    ddio = domain.ddio or domain.layout.ddio
    state = words.phase(latest.decision.phase)
    text = (
        f" domain {cache.id}{of}   {state}   DDIO {words.ddio_place(ddio)}"
        f"{_asked(ddio, domain.layout.ddio)}   {words.inbound(latest.sample)}"
    )
    drawn = _map(domain.layout, domain.inventory, screen.width - 2, screen)
    gap = [""] if screen.height >= ROOMY else []
    pmd = _pmd_lines(seen, domain, screen)
    ports = _port_lines(domain, screen)
    return [*gap, _styled(text, _BOLD, screen), *gap, f" {drawn}", *ports, *pmd, ""]


def _port_lines(domain: DomainView, screen: Screen) -> list[str]:
    """Return the ports with ways of their own, a line per mask, and the counted ports."""
    groups = domain.layout.ports if domain.layout is not None else ()
    lines = []
    for number, group in enumerate(groups):
        mask = domain.mask_of(group.ports[0]) or group.mask
        sign = waymap.port_sign(number)
        text = f"{sign}: {words.ddio_place(mask)}, {waymap.ports(group, domain.inventory)}"
        lines.append(f" {escape.cut(text, screen.width - 2)}")
    latest = domain.latest
    counted = waymap.counted_ports(latest.iteration.sample, domain.inventory) if latest else []
    return lines + [f" {escape.cut(text, screen.width - 2)}" for text in counted]


def _pmd_lines(seen: HostView, domain: DomainView, screen: Screen) -> list[str]:
    """Return the activity of PMD threads on this domain, within the available lines."""
    threads = words.pmd_threads(seen.switch, domain.inventory.domain.cpus)
    if not threads or screen.past_s is not None:  # it is of now
        return []
    assert seen.switch is not None
    drops = seen.switch.drops_per_s
    told = [*threads, *([] if drops is None else [f"ports drop {figures.rate(drops)}"])]
    most = 3 if screen.height >= ROOMY else 1
    lines = escape.wrap(f"PMD threads: {'; '.join(told)}", screen.width - 2, 4)
    if len(lines) > most:
        lines = [*lines[: most - 1], escape.cut(f"{lines[most - 1]} …", screen.width - 2)]
    return [f" {line}" for line in lines]


def _map(layout: Layout, inventory: DomainInventory, width: int, screen: Screen) -> str:
    """Draw a way map in colours; cut, without them, where the terminal is too narrow."""
    plain = waymap.text(layout, inventory, width=width)
    if not screen.colour or escape.width(plain) > width:
        return escape.cut(plain, width)
    return waymap.text(layout, inventory, width=width, colour=True)


def _curves(trace: Trace, screen: Screen) -> list[str]:
    """DDIO's misses and hits over the last iterations, the newest on the right."""
    lines = []
    for name, values in (("misses", trace.misses), ("hits", trace.hits)):
        known = [value for value in values if value is not None]
        room = screen.width - 38
        if not known or room < 8:
            continue
        highest = max(list(known)[-room:])
        drawn = sparkline(values, room)
        lines.append(f" DDIO {name:<6} {drawn:>{room}} at most {figures.rate(highest)}")
    return lines


@dataclasses.dataclass(frozen=True, slots=True)
class _Column:
    """A column of the table of tenants: heading, width, and the figure of a tenant."""

    heading: str
    width: int
    value: Callable[[Rates], str]


_FIGURES = {
    "ipc": _Column("IPC", 5, lambda rates: f"{rates.ipc:.2f}"),
    "references": _Column("REFERENCES", 11, lambda rates: figures.rate(rates.references_per_s)),
    "misses": _Column("MISSES", 9, lambda rates: figures.rate(rates.misses_per_s)),
    "rate": _Column("RATE", 6, lambda rates: f"{rates.miss_ratio:.1%}"),
    "held": _Column("IN LLC", 9, lambda rates: _size(rates.occupancy_bytes, "")),
    "memory": _Column("MEMORY", 11, lambda rates: _size(rates.memory_bytes_per_s, "/s")),
}


def _size(value: float | None, unit: str) -> str:
    return "-" if value is None else figures.size(value) + unit


def _columns(domain: DomainView, screen: Screen) -> list[str]:
    """Return the columns that fit. The mask is the first column to be left out."""
    chosen = ["ipc", "references", "misses", "rate"]
    if screen.width >= WIDE and domain.monitored:
        chosen += ["held", "memory"]
    if screen.width < NARROW:
        chosen.remove("references")
    return chosen


def _tenant_lines(domain: DomainView, screen: Screen, room: int) -> list[str]:
    """Lines of the tenants around the chosen tenant; the last line counts the hidden tenants."""
    columns = _columns(domain, screen)
    masks = screen.width >= NARROW
    taken = 16 + (9 if masks else 0) + sum(_FIGURES[one].width + 1 for one in columns)
    name_width = max(12, min(32, screen.width - taken - 6))
    mask = f" {'MASK':>8}" if masks else ""
    head = f" {_heading('TENANT', 'name', screen):<{name_width}} {'PRIORITY':<9} {'WAYS':>4}{mask}"
    for one in columns:
        head += f" {_heading(_FIGURES[one].heading, one, screen):>{_FIGURES[one].width}}"
    lines = [_styled(head, _BOLD, screen)]
    tenants, names = listed(domain, screen), words.Names(domain.inventory)
    if not tenants and screen.pattern:
        return [
            *lines,
            _styled(f" no tenant matches: {escape.plain(screen.pattern)}", _DIM, screen),
        ]
    count = len(tenants) if len(tenants) < room else max(0, room - 2)
    ids = [tenant.id for tenant in tenants]
    place = ids.index(screen.chosen) if screen.chosen in ids else 0
    first = max(0, min(place - count // 2, len(tenants) - count))
    for tenant in tenants[first : first + count]:
        name = escape.fit(names.cut(tenant.id, name_width), name_width)
        here = tenant.id == screen.chosen
        text = f"{'>' if here else ' '}{name} {_tenant_line(domain, tenant, masks, columns)}"
        lines.append(_styled(text, _TITLE, screen) if here else escape.cut(text, screen.width))
    if count < len(tenants):
        hidden = ((first, "above"), (len(tenants) - first - count, "below"))
        where = ", ".join(f"{number} {side}" for number, side in hidden if number)
        del lines[max(0, room - 1) :]
        lines.append(_styled(f" … {where}, of {len(tenants)} tenants", _DIM, screen))
    return lines


def _heading(text: str, key: str, screen: Screen) -> str:
    """Return a column's heading, marked where the tenants are sorted by it."""
    return f"{text}▾" if key == screen.sort else text


def _tenant_line(domain: DomainView, tenant: Tenant, masks: bool, columns: Sequence[str]) -> str:
    mask, ddio = domain.mask_of(tenant.id), domain.inbound
    rates = _rates(domain, tenant)
    shared = " ~ddio" if mask and ddio and mask.overlaps(ddio) else ""
    shared += " held" if tenant.ways.held else ""
    shared += _asked(mask, domain.decided_mask(tenant.id))
    priority = tenant.priority + (" I/O" if tenant.io else "")
    ways, shown = (str(mask.count), str(mask)) if mask is not None else ("-", "-")
    text = f"{priority:<9} {ways:>4}" + (f" {shown:>8}" if masks else "")
    for one in columns:
        column = _FIGURES[one]
        text += f" {column.value(rates) if rates else '-':>{column.width}}"
    return text + shared


def _asked(has: WayMask | None, decided: WayMask | None) -> str:
    """Return the decided mask, in brackets, if the machine has another mask."""
    return f" (asked for {decided})" if has and decided and has != decided else ""


def _sorted(domain: DomainView, key: str) -> list[Tenant]:
    """Return the tenants by descending `key`, or by name: a small screen shows the first ones.

    By name, best-effort tenants come last.
    """
    tenants = list(domain.inventory.tenants)
    if key == "name":
        return sorted(tenants, key=lambda one: one.priority is Priority.BE)

    def weight(tenant: Tenant) -> float:
        rates = _rates(domain, tenant)
        if rates is None:
            return -1.0
        return {
            "misses": rates.misses_per_s,
            "references": rates.references_per_s,
            "ipc": rates.ipc,
        }[key]

    return sorted(tenants, key=weight, reverse=True)


def _rates(domain: DomainView, tenant: Tenant) -> Rates | None:
    return domain.latest.iteration.sample.tenants.get(tenant.id) if domain.latest else None


def _trail_lines(trace: Trace, screen: Screen, room: int) -> list[str]:
    """Return the latest decisions, newest first, with their layouts and reasons."""
    if room < 4 or not trace.decisions:
        return []
    lines = ["", _styled(" LAST DECISIONS", _BOLD, screen)]
    for past in reversed(trace.decisions):
        left = room - len(lines)
        if left < 2:  # a map and its reason
            break
        lines += _decision_lines(past, screen, min(REASON, left - 1))
    return lines


def _decision_lines(past: PastDecision, screen: Screen, most: int) -> list[str]:
    """Return a decision's time, way map and reason, the reason in at most `most` lines."""
    map_width, plain = min(screen.width - 11, 76), dataclasses.replace(screen, colour=False)
    drawn = _map(past.layout, past.inventory, map_width, screen)
    taken = 10 + escape.width(_map(past.layout, past.inventory, map_width, plain))
    moment = times.utc(past.wall_s, "%H:%M:%S")
    if taken + 2 + escape.width(past.text) <= screen.width:
        return [f" {moment} {drawn}  {past.text}"]
    reason = escape.wrap(past.text, screen.width - 11, most)
    return [f" {moment} {drawn}", *(f"{'':10}{text}" for text in reason)]


def _styled(text: str, style: str, screen: Screen) -> str:
    text = escape.cut(text, screen.width)
    return f"{style}{text}{_RESET}" if screen.colour else text
