# SPDX-License-Identifier: Apache-2.0
"""Explain a device port: tenants behind the port, class of service, ways and changes."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

from iat_nova.common import amounts as figures
from iat_nova.model import (
    Action,
    DevicePort,
    DomainInventory,
    Layout,
    PortGroup,
    Priority,
    Tenant,
    WayMask,
    pci_address,
)
from iat_nova.report import account, escape, port_table, times, turns, view, waymap, words
from iat_nova.report.subjects import last_seen
from iat_nova.report.turns import Turn
from iat_nova.report.view import DomainView, HostView
from iat_nova.store.reader import HistoryReader
from iat_nova.store.records import Inventory
from iat_nova.strategies import readings
from iat_nova.strategies.pollute_buffer import masks
from iat_nova.strategies.pollute_buffer.plan import BUFFER_WAYS, Plan
from iat_nova.strategies.pollute_buffer.trial import SUFFERS
from iat_nova.strategies.pollute_buffer.view import View
from iat_nova.strategies.readings import Looks
from iat_nova.strategies.registry import DEFAULT


@dataclasses.dataclass(frozen=True, slots=True)
class PortAccount:
    """The explanation of a port.

    `here`: the port is in the latest inventory. `turns`: decisions about the port, newest first.
    `since`: the last move of the port, `kept`: the decision since then that kept the port's ways;
    None if not recorded.
    """

    port: DevicePort
    seen: DomainView
    view: HostView
    here: bool
    seen_s: float
    turns: tuple[Turn, ...]
    since: Turn | None
    kept: Turn | None

    @property
    def owners(self) -> tuple[Tenant, ...]:
        """The tenants with devices behind the port, the virtual switch included."""
        return self.seen.inventory.behind(self.port.id)

    @property
    def group(self) -> PortGroup | None:
        """The ports in the port's class of service; None if it is in the class of all devices."""
        layout = self.seen.layout
        groups = layout.ports if layout is not None else ()
        return next((one for one in groups if self.port.id in one.ports), None)


def find(picture: Inventory, address: str) -> tuple[DomainInventory, DevicePort] | None:
    """Return the port with a device of this PCI address, and its cache domain, or None."""
    full = pci_address(address)
    for _, inventory in sorted(picture.domains.items()):
        for port in inventory.domain.device_ports:
            if full in (port.id, *port.devices):
                return inventory, port
    return None


def give(
    reader: HistoryReader,
    seen: HostView,
    found: tuple[DomainInventory, DevicePort],
    seen_s: float,
) -> PortAccount:
    """Return the explanation of a port, from the history; `seen_s`: of the port's inventory."""
    inventory, port = found
    number = inventory.domain.id
    now = seen.domain(number)
    present = now.inventory.domain.device_ports if now is not None else ()
    here = next((one for one in present if one.id == port.id), None)  # other devices, perhaps
    turns, since = _turns(reader, port.id, number)
    kept = next((one for one in turns if one.kind == Action.KEEP), None)
    if kept is not None and since is not None and kept.row <= since.row:
        kept = None
    domain = now if now is not None and here is not None else DomainView(inventory)
    seen_s = seen_s if here is not None else last_seen(reader, seen_s)
    told = tuple(turns[: account.SHOWN])
    return PortAccount(here or port, domain, seen, here is not None, seen_s, told, since, kept)


def _turns(reader: HistoryReader, port: str, domain: int) -> tuple[list[Turn], Turn | None]:
    """Return the newest actions on a port, and the action that moved the port last."""
    found: list[Turn] = []
    since = None
    for recorded in reader.decisions(account.SCANNED, domain):
        done = [one for one in turns.of(reader, recorded) if _concerns(port, one)]
        if since is None and port in recorded.iteration.decision.moved:
            since = next((one for one in done if one.subject == port), None)
        found += done
        if len(found) >= account.SHOWN and since is not None:
            break
    return found, since


def _concerns(port: str, turn: Turn) -> bool:
    """Return whether an action has a port as its subject, or names the port in its reason."""
    return turn.acts and (turn.subject == port or port in turn.ports)


def why(one: PortAccount) -> list[str]:
    """Return the reasons for a port's ways, the plainest first."""
    found = list(_why(one))
    if one.since is not None:
        found.append(
            f"since {times.moment(one.since.wall_s)}, by decision #{one.since.iteration} "
            f"({one.since.kind}): {one.since.reason}"
        )
    elif one.here:
        found.append("no recorded decision moved it")
    if one.kept is not None and one.since is not None:
        when = times.moment(one.kept.wall_s)
        found.append(f"{when}, decision #{one.kept.iteration}: kept: {one.kept.reason}")
    return found


def _why(one: PortAccount) -> Iterator[str]:
    if not one.here:
        yield "it is not on this host now"
        return
    said = one.view.now
    yield from view.at_rest(one.view)
    strategy = said.status.strategy if said is not None else None
    if one.group is not None:
        return
    if strategy is not None and strategy != DEFAULT:
        yield f"the strategy {strategy} gives no port ways of its own"
    elif not one.seen.inventory.owns_all(one.port.devices):
        yield (
            "an owner of its devices is unknown, or has no CPU in this cache domain: such a port "
            "stays in DDIO's ways"
        )
    elif not one.owners:
        yield "no tenant has a device on it: the host's own, which stays in DDIO's ways"
    elif critical := [_name(one, its) for its in one.owners if _reads(its)]:
        names = ", ".join(critical)
        yield f"packets for {names} come through it: such a port stays in DDIO's ways"
    else:
        yield from _untried(one) or (
            "it gets a way of its own if a trial shows that critical tenants gain by it",
        )


def _untried(one: PortAccount) -> list[str]:
    """Return why the default strategy tries no way of its own now, by the latest sample."""
    number, latest = one.seen.inventory.domain.id, one.seen.latest
    if latest is None or one.view.now is None:
        return []
    sample, numbers = latest.iteration.sample, one.view.now.status.parameters.of(number)
    looks = readings.look(one.seen.inventory.tenants, sample)
    seen = View(one.seen.inventory, numbers, sample, looks)
    found = []
    if not _has_room(one, looks):
        found.append("DDIO's ways and the own ways of tenants leave no way for it")
    found += [
        f"LLC hits save {_name(one, its)} {seen.hits_save(its.id):.1%} of its cycles: such a port "
        f"stays in DDIO's ways (tried below {SUFFERS:.0%})"
        for its in one.owners
        if its.priority is not Priority.BE and seen.hits_save(its.id) >= SUFFERS
    ]
    if not seen.busy:
        low = figures.rate(numbers.threshold_miss_low_per_s)
        found.append(
            f"{figures.rate(seen.inbound)} DDIO misses: too few for a trial of a way of its own "
            f"(threshold_miss_low {low})"
        )
    return found


def _has_room(one: PortAccount, looks: Looks) -> bool:
    """Return whether a way below DDIO's ways remains for a port."""
    layout, inventory = one.seen.layout, one.seen.inventory
    if layout is None:
        return True
    ddio = layout.ddio.count
    promised = masks.promised(inventory, ddio, looks)
    own = tuple(its for its in promised if not _lends(layout, its.tenant))
    return bool(masks.aside(inventory.domain, Plan(frozenset(), BUFFER_WAYS, ddio, own=own)))


def _lends(layout: Layout, tenant: str) -> bool:
    """Return whether another tenant may fill all ways of this tenant, the guaranteed ones too."""
    mask = layout.mask_of(tenant) or WayMask(0)
    return sum(len(one.tenants) for one in layout.groups if not mask & ~one.mask) > 1


def _reads(tenant: Tenant) -> bool:
    return tenant.io and tenant.priority is not Priority.BE


def _name(one: PortAccount, tenant: Tenant) -> str:
    return one.seen.inventory.names[tenant.id]


def _behind(one: PortAccount) -> list[str]:
    return [
        f"{_name(one, its)} ({its.priority}: {view.PRIORITIES[its.priority]}"
        f"{', with I/O' if its.io and its.priority is not Priority.STACK else ''})"
        for its in one.owners
    ] or [
        "no tenant: the host's kernel has it"
        if one.seen.inventory.owns_all(one.port.devices)
        else "no known tenant of this cache domain"
    ]


def _class(one: PortAccount) -> str:
    group = one.group
    if group is None:
        return "that of all devices, with DDIO's ways"
    others = [port for port in group.ports if port != one.port.id]
    return "one of its own" if not others else f"one of its own, with {_ports(others)}"


def _ports(ports: Sequence[str]) -> str:
    return f"port{'s' if len(ports) > 1 else ''} {', '.join(ports)}"


def page(one: PortAccount, *, width: int = 80, colour: bool = False) -> str:
    """Return the explanation in lines for a terminal."""
    inventory = one.seen.inventory
    port = [one.port.id]
    if others := [device for device in one.port.devices if device != one.port.id]:
        port.append(f"with {', '.join(others)}")
    if not one.here:
        port.append(f"not here now; last seen {times.moment(one.seen_s)}")
    lines = [*_field("Port", port, width), *_field("Behind it", _behind(one), width)]
    if one.here:
        row = next(row for row in one.seen.ports() if row["port"] == one.port.id)
        lines += _field("Class", [_class(one)], width)
        told = port_table.sentence(one.seen, row)
        lines += _field(f"Domain {inventory.domain.id}", [told], width)
    if one.seen.layout is not None:
        drawn = waymap.drawn(one.seen.layout, inventory, width - words.TITLE, colour=colour)
        lines += [f"{'':{words.TITLE}}{line}" for line in drawn]
    lines += ["", "Why"]
    for text in why(one):
        lines += escape.hanging(escape.plain(text), width, 8, "  - ")
    if one.turns:
        lines += ["", "Decisions about it"]
    for turn in one.turns:
        lines += turns.lines(turn, width)
    return "\n".join(lines)


def _field(title: str, texts: Sequence[str], width: int) -> list[str]:
    return words.titled(title, map(escape.plain, texts), width, 4)


def record(one: PortAccount) -> dict[str, Any]:
    """Return the explanation as plain values."""
    (row,) = (row for row in port_table.rows((one.seen,)) if row["port"] == one.port.id)
    return {
        **row,
        "behind": [
            {"id": its.id, "name": _name(one, its), "priority": its.priority, "io": its.io}
            for its in one.owners
        ],
        "own_class": one.group is not None,
        "ports_of_class": list(one.group.ports) if one.group is not None else [],
        "here": one.here,
        "seen_s": one.seen_s,
        "why": why(one),
        "since": turns.record(one.since) if one.since is not None else None,
        "kept": turns.record(one.kept) if one.kept is not None else None,
        "turns": [turns.record(turn) for turn in one.turns],
    }
