# SPDX-License-Identifier: Apache-2.0
"""Guests and ports of devices as named on the command line."""

from __future__ import annotations

from collections.abc import Iterable

from iat_nova.cmd.base import EXIT_USAGE, Failure
from iat_nova.model import DDIO, DevicePort, DomainInventory
from iat_nova.report import escape, port_account
from iat_nova.report.subjects import Ambiguous, Subject, everybody, find
from iat_nova.store.reader import HistoryReader
from iat_nova.store.records import Inventory

NO_PORTS = "ports have classes of service only with I/O RDT and ddio_interface = iordt"
"""Why no port of devices is listed."""


def check_domain(reader: HistoryReader, number: int | None) -> None:
    """Refuse a cache domain of which nothing is recorded. Raises `Failure`."""
    known = reader.domains()
    if number is not None and known and number not in known:
        raise no_domain(number, known)


def no_domain(number: int, known: Iterable[int]) -> Failure:
    """Return the error that there is no such cache domain."""
    there = ", ".join(map(str, sorted(known)))
    return Failure(f"no cache domain {number}; there are: {there}", EXIT_USAGE)


def now(reader: HistoryReader, text: str) -> Subject:
    """Return the named subject among the present tenants. Raises `Failure`."""
    inventory = reader.latest_inventory()
    subject = _in(inventory, text) if inventory is not None else None
    if subject is None:
        raise Failure(_nobody(text, inventory, "here now"))
    return subject


def anywhere(reader: HistoryReader, text: str) -> tuple[Subject, Inventory]:
    """Return the named subject, and the last inventory with this subject. Raises `Failure`."""
    latest = None
    for picture in reader.inventories():
        latest = latest or picture
        if (subject := _in(picture, text)) is not None:
            return subject, picture
    raise Failure(_nobody(text, latest))


def port(reader: HistoryReader, text: str) -> tuple[tuple[DomainInventory, DevicePort], float]:
    """Return the port with a device of this address, and when it was seen. Raises `Failure`."""
    ports: dict[str, None] = {}
    for picture in reader.inventories():
        if (found := port_account.find(picture, text)) is not None:
            return found, picture.wall_s
        if not ports:
            domains = [seen.domain for seen in picture.domains.values()]
            ports = dict.fromkeys(one.id for domain in domains for one in domain.device_ports)
    told = f"no port has the address {text!r} here, now or in the history"
    if ports:
        raise Failure(f"{told}; there are {', '.join(ports)}")
    raise Failure(f"{told}: {NO_PORTS}")


def _in(picture: Inventory, text: str) -> Subject | None:
    try:
        return find(picture, text)
    except Ambiguous as error:
        raise Failure(str(error)) from error


def _nobody(
    text: str, picture: Inventory | None, where: str = "here, now or in the history"
) -> str:
    """Return the message that no tenant has this name, with the present names."""
    if picture is None:
        return "no guest has been recorded yet"
    shown = escape.plain(text)
    if text.lower() == DDIO:
        return "ddio has ways and is not a guest: iat-nova decisions ddio lists what was done to it"
    hint = (
        f"; write '#{shown}' for the decision of this number"
        if text.isascii() and text.isdecimal()
        else ""
    )
    names = ", ".join(dict.fromkeys(escape.plain(one.name) for one in everybody(picture)))
    told = f"nobody is called {shown!r} {where}; there are {names}"
    return f"{told}{hint}"
