# SPDX-License-Identifier: Apache-2.0
"""Way maps: the tenants of each LLC way, drawn.

    0 [vswitch    ][pc1            ][be1        ][......][be2~~~ddio] 10

Way 0 is on the left. Each box is one set of tenants: all of them may fill its ways. ``.`` is an
idle way, ``x`` a reserved way. ``~`` is a way into which DDIO writes (beside a name: shared with
DDIO). ``1`` is a way into which the first set of ports with a class of its own writes, ``2`` of the
second (I/O RDT): `sets` names the ports. Ways guaranteed to no tenant and lent to the
host's class are a separate box: ``host lent``.
"""

from __future__ import annotations

import dataclasses
import enum
import re
from collections.abc import Iterator

from iat_nova.common import amounts as figures
from iat_nova.model import DDIO, DomainInventory, Layout, PortGroup, Priority, Sample, WayMask
from iat_nova.report import escape

LEAST_CELL, MOST_CELL = 3, 8
SET_LINES = 2  # for the names of a set of tenants
_SWATCHES = (153, 223, 157, 225, 229, 152, 216, 189, 194, 181)  # of the 256 terminal colours
_DDIO_SWATCH = 209
_SHARED_SWATCH, _SHARED_CRITICAL_SWATCH = 252, 110  # shared ways have a colour of their own
_RESET = "\x1b[0m"
_MARK = re.compile(r"~+(ddio)?|[1-9+]+")
_PORT_SIGNS = "123456789"


class RunKind(enum.Enum):
    """The use of a run of ways."""

    TENANTS = "tenants"
    DDIO = "ddio"  # of DDIO alone
    IDLE = "idle"
    LENT = "lent"  # to the host's class: guaranteed to no tenant
    RESERVED = "reserved"


@dataclasses.dataclass(frozen=True, slots=True)
class Segment:
    """A run of neighbouring ways with the same tenants. `ddio`: the ways shared with DDIO."""

    kind: RunKind
    lowest: int
    count: int
    tenants: tuple[str, ...]
    ddio: WayMask


def segments(layout: Layout, inventory: DomainInventory) -> tuple[Segment, ...]:
    """Divide the LLC of a domain into segments, way 0 first."""
    found: list[Segment] = []
    inbound = layout.inbound
    for way in range(inventory.domain.ways):
        bit = 1 << way
        owners = tuple(
            tenant for group in layout.groups if group.mask & bit for tenant in group.tenants
        )
        kind = _kind(bit, owners, layout, inventory)
        ddio = inbound & bit
        last = found[-1] if found else None
        if last is not None and (last.kind, last.tenants) == (kind, owners):
            found[-1] = dataclasses.replace(
                last, count=last.count + 1, ddio=WayMask(last.ddio | ddio)
            )
        else:
            found.append(Segment(kind, way, 1, owners, WayMask(ddio)))
    return tuple(found)


def label(segment: Segment, inventory: DomainInventory) -> str:
    """Return the names in a segment, harmless for a terminal; empty without tenants."""
    names = inventory.names
    whose = "+".join(escape.plain(names.get(tenant, tenant)) for tenant in segment.tenants)
    return f"{whose} lent" if segment.kind is RunKind.LENT else whose


def text(
    layout: Layout, inventory: DomainInventory, *, width: int = 80, colour: bool = False
) -> str:
    """Draw the map in one line of `width` columns at most, but of three columns a way at least."""
    ways = inventory.domain.ways
    margins = len(f"0  {ways - 1}") + 1
    cell = max(LEAST_CELL, min(MOST_CELL, (width - margins) // ways))
    boxes, marks = [], _marks(layout, ways)
    for segment in segments(layout, inventory):
        named = label(segment, inventory)
        for part in _parts(segment, marks) if named else (segment,):
            name, rest = _box(part, named, cell, marks)
            boxes.append(_painted(name, rest, part, inventory) if colour else f"[{name}{rest}]")
    return f"0 {''.join(boxes)} {ways - 1}"


def drawn(
    layout: Layout, inventory: DomainInventory, width: int, *, colour: bool = False
) -> list[str]:
    """Return the map, and the lines of `sets` if masks overlap."""
    return [text(layout, inventory, width=width, colour=colour), *sets(layout, inventory, width)]


def sets(layout: Layout, inventory: DomainInventory, width: int) -> list[str]:
    """Return a line per set of tenants with the same mask, one for DDIO, and one a set of ports.

    ``########...  8 ways 0xff   db, web``; no line if each way has one set of tenants at most, and
    no port has ways of its own.
    """
    if not layout.ports and not overlap(layout):
        return []
    ways, names = inventory.domain.ways, inventory.names
    same: dict[WayMask, list[str]] = {}
    for group in layout.groups:
        same.setdefault(group.mask, []).extend(escape.plain(names.get(t, t)) for t in group.tenants)
    rows = [(mask, "#", ", ".join(whose)) for mask, whose in sorted(same.items())]
    rows += [(layout.ddio, "~", "DDIO")] if layout.ddio else []
    rows += [
        (one.mask, port_sign(number), ports(one, inventory))
        for number, one in enumerate(layout.ports)
    ]
    wide = max(len(str(mask)) for mask, _, _ in rows)
    lines = []
    for mask, sign, whose in rows:
        drawn = "".join(sign if mask & (1 << way) else "." for way in range(ways))
        before = f"{drawn} {mask.count:>2} {mask!s:<{wide}} "
        lines += escape.hanging(whose, width, SET_LINES, before)
    return lines


def port_sign(number: int) -> str:
    """Return the sign of the ways of a set of ports, by its place in the layout: ``1``, ``2``."""
    return _PORT_SIGNS[number] if number < len(_PORT_SIGNS) else "+"


def overlap(layout: Layout) -> bool:
    """Return whether classes of service share ways."""
    filled = 0
    for group in layout.groups:
        if filled & group.mask:
            return True
        filled |= group.mask
    return False


def ports(group: PortGroup, inventory: DomainInventory) -> str:
    """Return ports with the tenants behind: ``port 0000:3b:00.0 (fw1, vswitch)``."""
    names = inventory.names
    texts = []
    for port in group.ports:
        behind = ", ".join(escape.plain(names[one.id]) for one in inventory.behind(port))
        texts.append(f"{escape.plain(names.get(port, port))} ({behind or 'no tenant'})")
    return ", ".join(texts)


def counted_ports(sample: Sample, inventory: DomainInventory) -> list[str]:
    """Return each counted port with the tenants behind: ``0000:3b:00.0 (fw1) 12 MB in the LLC``."""
    texts = []
    for port, rates in sample.ports.items():
        parts = []
        if rates.occupancy_bytes is not None:
            parts.append(f"{figures.size(rates.occupancy_bytes)} in the LLC")
        if rates.memory_bytes_per_s is not None:
            parts.append(f"{figures.size(rates.memory_bytes_per_s)}/s to and from memory")
        if parts:
            named = ports(PortGroup((port,), WayMask(0)), inventory)
            texts.append(f"{named} {', '.join(parts)}")
    return texts


def swatch(number: int) -> int:
    """Return the terminal colour of a tenant by its position in the inventory."""
    return _SWATCHES[number % len(_SWATCHES)]


def _kind(bit: int, owners: tuple[str, ...], layout: Layout, inventory: DomainInventory) -> RunKind:
    if inventory.domain.reserved_ways & bit:
        return RunKind.RESERVED
    if owners:
        own = layout.lent
        lent = own is not None and owners == own.tenants and not bit & own.mask
        return RunKind.LENT if lent else RunKind.TENANTS
    return RunKind.DDIO if layout.inbound & bit else RunKind.IDLE


def _marks(layout: Layout, ways: int) -> str:
    """Return a sign for each way: DDIO's, that of a set of ports, or a space."""
    marks = [" "] * ways
    written = [(one.mask, port_sign(number)) for number, one in enumerate(layout.ports)]
    written.append((layout.ddio or WayMask(0), "~"))
    for mask, sign in written:
        marks = [sign if mask & (1 << way) else one for way, one in enumerate(marks)]
    return "".join(marks)


def _parts(segment: Segment, marks: str) -> Iterator[Segment]:
    """Divide a segment where the sign of its ways changes, if the segment begins with marked ways.

    Otherwise the name would hide one of the signs.
    """
    way, end = segment.lowest, segment.lowest + segment.count
    while way < end:
        same = len(marks[way:end]) - len(marks[way:end].lstrip(marks[way]))
        count = same if marks[way].strip() else end - way
        ddio = WayMask(segment.ddio & WayMask.span(way, count))
        yield dataclasses.replace(segment, lowest=way, count=count, ddio=ddio)
        way += count


def _box(segment: Segment, name: str, cell: int, marks: str) -> tuple[str, str]:
    """Return the name and the rest of one segment with `cell` columns per way, less the brackets.

    If the segment has ways that DDIO does not share, the name stays within these ways. Each way is
    then visibly shared or not.
    """
    filling = {RunKind.RESERVED: "x", RunKind.IDLE: "."}.get(segment.kind, " ")
    ways = range(segment.lowest, segment.lowest + segment.count)
    inner = "".join((marks[way].strip() or filling) * cell for way in ways)[1:-1]
    private = len(inner) - len(inner.lstrip(filling))
    if private:
        name = escape.cut(name, private)
    else:  # all ways are shared: leave a mark, which begins inside a way
        name = escape.cut(name, min(max(3, len(inner) - len("~ddio")), len(inner) - 1))
        if (escape.width(name) + 1) % cell == 0:
            name = escape.cut(name, escape.width(name) - 1)
    rest = inner[escape.width(name) :]
    if rest.endswith("~~~~~"):
        rest = rest[: -len(DDIO)] + DDIO
    return name, rest


def _ground(segment: Segment, inventory: DomainInventory) -> int:
    if len(segment.tenants) > 1:
        best_effort = {one.id for one in inventory.tenants if one.priority is Priority.BE}
        critical = best_effort.isdisjoint(segment.tenants)
        return _SHARED_CRITICAL_SWATCH if critical else _SHARED_SWATCH
    order = [tenant.id for tenant in inventory.tenants]
    (owner,) = segment.tenants
    return swatch(order.index(owner) if owner in order else 0)


def _painted(name: str, rest: str, segment: Segment, inventory: DomainInventory) -> str:
    """Colour a box: its tenant's colour, the marks of DDIO and ports in red."""
    box = f"[{name}{rest}]"
    if segment.kind in (RunKind.IDLE, RunKind.RESERVED):
        return f"\x1b[2m{box}{_RESET}"
    if segment.kind is RunKind.DDIO:
        return f"\x1b[48;5;{_DDIO_SWATCH};38;5;16m{box}{_RESET}"
    ground = f"\x1b[48;5;{_ground(segment, inventory)};38;5;16m"
    marked = _MARK.sub("\x1b[38;5;160m\\g<0>\x1b[38;5;16m", rest)
    return f"{ground}[{name}{marked}]{_RESET}"
