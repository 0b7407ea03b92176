# SPDX-License-Identifier: Apache-2.0
"""Guests as named on the command line."""

from __future__ import annotations

from iat_nova.cmd.base import Failure
from iat_nova.report import escape
from iat_nova.report.subjects import Ambiguous, Subject, everybody, find
from iat_nova.store.reader import HistoryReader
from iat_nova.store.records import Inventory


def now(reader: HistoryReader, text: str) -> Subject:
    """Return the named subject among the present tenants. Raises `Failure`."""
    inventory = reader.latest_inventory()
    subject = _in(inventory, text) if inventory is not None else None
    if subject is None:
        raise Failure(_nobody(text, inventory))
    return subject


def anywhere(reader: HistoryReader, text: str) -> tuple[Subject, Inventory]:
    """Return the named subject, and the last inventory with this subject. Raises `Failure`."""
    latest = None
    for picture in reader.inventories():
        latest = latest or picture
        if (subject := _in(picture, text)) is not None:
            return subject, picture
    raise Failure(_nobody(text, latest))


def _in(picture: Inventory, text: str) -> Subject | None:
    try:
        return find(picture, text)
    except Ambiguous as error:
        raise Failure(str(error)) from error


def _nobody(text: str, picture: Inventory | None) -> str:
    """Return the message that no tenant has this name, with the present names."""
    if picture is None:
        return "no guest has been recorded yet"
    names = ", ".join(dict.fromkeys(escape.plain(one.name) for one in everybody(picture)))
    return f"nobody is called {escape.plain(text)!r} here, now or in the history; there are {names}"
