# SPDX-License-Identifier: Apache-2.0
"""The rows of a history file: iterations and events, and the values that their rows refer to.

An inventory, the settings and the dictionary of a cache domain's iterations are rows of their own;
iterations refer to the newest row of each kind.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import sqlite3
from collections.abc import Callable, Iterator

from iat_nova.model import Message
from iat_nova.store import database as db
from iat_nova.store import packing, records
from iat_nova.store.records import Event, Inventory, Iteration, SettingsInForce

LOG = logging.getLogger("iat_nova")

MINUTE_S = 60.0  # one iteration per this period is kept, also without an action
BASE_EVERY = 2048  # iterations of a cache domain compressed with the same dictionary
BASE_LEAST = 64  # at least as many, if tenants change


@dataclasses.dataclass(frozen=True, slots=True)
class _Dictionary:
    """The dictionary that compresses a cache domain's iterations, and its inventory."""

    row: int
    inventory: int  # the loop's id
    seen: bytes
    state: bytes


@dataclasses.dataclass(slots=True)
class _Last:
    """The newest iteration of a cache domain in the file."""

    number: int
    minute: float
    base: _Dictionary
    since_base: int = 0  # iterations


@dataclasses.dataclass(frozen=True, slots=True)
class _Stored:
    """The newest inventory in the file: the loop's id, the row, and the content."""

    number: int
    row: int
    inventory: Inventory


@dataclasses.dataclass(frozen=True, slots=True)
class Queued:
    """An iteration with the values that its row refers to."""

    iteration: Iteration
    inventory: tuple[int, Inventory]
    settings: SettingsInForce | None


class Rows:
    """Inserts rows through the connection of the file's writer; knows the newest rows of the file.

    `sentence` makes the text for log lines on values that cannot be stored.
    """

    def __init__(self, sentence: Callable[[Message], str]) -> None:
        self._sentence = sentence
        self._unstorable: set[Message] = set()  # already reported
        self.forget()

    def forget(self) -> None:
        """Forget the rows of the previous file: the next file has other rows."""
        self._inventory_row: _Stored | None = None
        self._settings_row: tuple[SettingsInForce, int] | None = None
        self._last: dict[int, _Last] = {}  # by cache domain

    @property
    def inventory_row(self) -> int | None:
        """The row id of the newest inventory, None before the first."""
        return None if self._inventory_row is None else self._inventory_row.row

    @property
    def oldest_base(self) -> int | None:
        """The oldest dictionary that further iterations need, None without iterations."""
        return min((last.base.row for last in self._last.values()), default=None)

    @contextlib.contextmanager
    def transaction(self, connection: sqlite3.Connection) -> Iterator[None]:
        """Write the rows of the block, all or nothing."""
        rows_before = (self._inventory_row, self._settings_row)
        last_before = {domain: dataclasses.replace(one) for domain, one in self._last.items()}
        try:
            with db.transaction(connection):
                yield
        except BaseException:
            self._inventory_row, self._settings_row = rows_before
            self._last = last_before
            raise

    def insert(self, connection: sqlite3.Connection, queued: Queued) -> None:
        """Insert a row; an iteration that cannot be stored is left out and reported."""
        iteration = queued.iteration
        number, last = iteration.decision.iteration, self._last.get(iteration.domain)
        follows = iteration.follows and last is not None and last.number == number - 1
        minute = iteration.wall_s // MINUTE_S
        kept = iteration.eventful or not follows or last is None or last.minute != minute
        packed = packing.pack_iteration(iteration, whole=kept)
        for said, error in packed.lost.items():
            if said not in self._unstorable:
                self._unstorable.add(said)
                LOG.error("history: %s", self._sentence(said), exc_info=error)
                insert_event(connection, Event(iteration.wall_s, "error", said))
        if packed.seen is None:
            return
        if last is None or _outdated(last, queued.inventory[0], packed):
            base = _insert_base(connection, queued.inventory[0], packed)
            last = self._last[iteration.domain] = _Last(number, minute, base)
        last.number, last.since_base = number, last.since_base + 1
        last.minute = minute if kept else last.minute
        row = _inserted(
            connection,
            "INSERT INTO iteration (wall_s, domain, number, inventory_id, settings_id, base_id,"
            " eventful, kept, body) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            iteration.wall_s,
            iteration.domain,
            number,
            self._inventory_id(connection, queued.inventory),
            self._settings_id(connection, queued.settings, iteration.wall_s),
            last.base.row,
            iteration.eventful,
            kept,
            records.squeeze(packed.seen, last.base.seen),
        )
        if packed.state is not None:
            connection.execute(
                "INSERT OR REPLACE INTO state (id, body) VALUES (?, ?)",
                (row, records.squeeze(packed.state, last.base.state)),
            )

    def _inventory_id(self, connection: sqlite3.Connection, numbered: tuple[int, Inventory]) -> int:
        number, inventory = numbered
        if self._inventory_row is None or self._inventory_row.number != number:
            insert = "INSERT INTO inventory (wall_s, body) VALUES (?, ?)"
            row = _inserted(connection, insert, inventory.wall_s, records.pack(inventory))
            self._inventory_row = _Stored(number, row, inventory)
        return self._inventory_row.row

    def recount(self, connection: sqlite3.Connection, latest: tuple[int, Inventory]) -> None:
        """Update the newest inventory in the file, unless the file has a newer inventory."""
        if self._inventory_row is not None and self._inventory_row.number > latest[0]:
            return
        row, inventory = self._inventory_id(connection, latest), latest[1]
        stored = self._inventory_row
        if stored is not None and stored.inventory is not inventory:
            body = records.pack(inventory)
            connection.execute("UPDATE inventory SET body = ? WHERE id = ?", (body, row))
            self._inventory_row = dataclasses.replace(stored, inventory=inventory)

    def _settings_id(
        self, connection: sqlite3.Connection, settings: SettingsInForce | None, wall_s: float
    ) -> int | None:
        if settings is None:
            return None
        if self._settings_row is None or self._settings_row[0] != settings:
            insert = "INSERT INTO settings (wall_s, body) VALUES (?, ?)"
            row = _inserted(connection, insert, wall_s, records.pack(settings))
            self._settings_row = (settings, row)
        return self._settings_row[1]


def insert_event(connection: sqlite3.Connection, event: Event) -> None:
    """Insert the row of an event, with the kind beside the message's values."""
    plain = {**records.unstructure(event.message), "kind": event.kind}
    connection.execute(
        "INSERT INTO event (wall_s, severity, text) VALUES (?, ?, ?)",
        (event.wall_s, event.severity, records.text(plain)),
    )


def _inserted(connection: sqlite3.Connection, statement: str, *values: object) -> int:
    row = connection.execute(statement, values).lastrowid
    assert row is not None
    return row


def _outdated(last: _Last, inventory: int, packed: packing.Packed) -> bool:
    """Tell whether a cache domain's iterations should get a newer dictionary."""
    if packed.state is None:  # only an iteration with its state can be the dictionary
        return False
    changed = last.base.inventory != inventory
    return last.since_base >= (BASE_LEAST if changed else BASE_EVERY)


def _insert_base(
    connection: sqlite3.Connection, inventory: int, packed: packing.Packed
) -> _Dictionary:
    """Store an iteration's text as dictionary for itself and the next iterations."""
    assert packed.seen is not None
    state = packed.state or b""
    insert = "INSERT INTO base (seen, state) VALUES (?, ?)"
    row = _inserted(connection, insert, records.squeeze(packed.seen), records.squeeze(state))
    return _Dictionary(row, inventory, packed.seen, state)
