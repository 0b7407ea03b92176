# SPDX-License-Identifier: Apache-2.0
"""Reading the history: beside the agent that writes it, or after it ended."""

from __future__ import annotations

import dataclasses
import itertools
import os
import pathlib
import sqlite3
import time
from collections.abc import Iterator, Sequence
from typing import Any, Self, TypeVar

from iat_nova.store import database as db
from iat_nova.store import records
from iat_nova.store.records import Event, Inventory, Iteration, RecordError, Settings, Status

_ITERATION = "SELECT id, wall_s, at_s, domain, inventory_id, settings_id, body FROM iteration "

_Row = tuple[Any, ...]
T = TypeVar("T")


@dataclasses.dataclass(frozen=True, slots=True)
class Recorded:
    """An iteration as stored: `row` grows with time, `settings_id` is for `settings()`."""

    row: int
    iteration: Iteration
    settings_id: int | None


@dataclasses.dataclass(frozen=True, slots=True)
class StatusNow:
    """The agent's last word on disk, and how old it is by the wall clock.

    It says nothing of whether the agent runs: that is `iat_nova.store.heartbeat`'s.
    """

    status: Status
    age_s: float


class HistoryReader:
    """A read-only view of a history, for one question or a few: open it anew for the next one.

    Raises `history_db.NoHistory` when there is none, `history_db.HistoryError` when it cannot
    be read; methods raise `history_db.HistoryError` where nothing can be found for damage.
    A record that is damaged, or of another version, is left out as if it had not been made;
    `damage` says so.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = pathlib.Path(path)
        self._connection = db.open_readable(self._path)
        self._unreadable: dict[tuple[str, int], str] = {}  # why, by table and row

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Let the file go."""
        self._connection.close()

    @property
    def damage(self) -> str | None:
        """What had to be left out of the answers so far; None: nothing."""
        if not self._unreadable:
            return None
        (table, row), why = next(iter(self._unreadable.items()))
        more = len(self._unreadable) - 1
        others = f", as {more} more" if more else ""
        return f"history {self._path}: {table} {row} cannot be read{others}: left out ({why})"

    def domains(self) -> tuple[int, ...]:
        """Return the cache domains with iterations, ascending."""
        return tuple(
            domain
            for (domain,) in self._rows("SELECT DISTINCT domain FROM iteration ORDER BY domain")
        )

    def latest(self, domain: int) -> Recorded | None:
        """Return the newest iteration of a domain."""
        return self._one("domain = ?", domain)

    def at(self, wall_s: float, domain: int | None = None) -> Recorded | None:
        """Return the iteration that was in force at a moment: the last one not after it."""
        where = "wall_s <= ? AND (? IS NULL OR domain = ?)"
        return self._one(where, wall_s, domain, domain, order="wall_s DESC, id DESC")

    def numbered(self, number: int, domain: int | None = None) -> Recorded | None:
        """Return the newest iteration with this number (numbers begin anew with each agent)."""
        return self._one("number = ? AND (? IS NULL OR domain = ?)", number, domain, domain)

    def before(self, recorded: Recorded) -> Recorded | None:
        """Return the iteration of the same domain before the given one."""
        return self._one("domain = ? AND id < ?", recorded.iteration.domain, recorded.row)

    def between(
        self, begin_s: float, end_s: float, domain: int, *, at_most: int | None = None
    ) -> Iterator[Recorded]:
        """Yield a domain's iterations of a period (wall clock), oldest first.

        With `at_most`, every n-th only, so that about that many come.
        """
        where = "domain = ? AND wall_s >= ? AND wall_s <= ?"
        stride = 1
        if at_most:
            stride = max(1, -(-self.count(domain, begin_s, end_s)[0] // at_most))
        window = (domain, begin_s, end_s)
        try:
            rows = self._rows(
                f"{_ITERATION}WHERE {where} AND id IN (SELECT id FROM (SELECT id, row_number() OVER"
                f" (ORDER BY id) AS n FROM iteration WHERE {where}) WHERE (n - 1) % ? = 0)"
                " ORDER BY id",
                *(*window, *window, stride),
            )
        except _Damaged:
            rows = list(self._salvage(where, window))[::-1][::stride]
        return (found for row in rows if (found := self._recorded(row)) is not None)

    def newer(self, domain: int, row: int, limit: int) -> list[Recorded]:
        """Return a domain's iterations after a row, the newest `limit` of them, oldest first."""
        return self._newest(limit, "domain = ? AND id > ?", domain, row)[::-1]

    def decisions(
        self,
        limit: int,
        domain: int | None = None,
        begin_s: float = float("-inf"),
        end_s: float = float("inf"),
    ) -> list[Recorded]:
        """Return the newest iterations that did something, newest first."""
        where = "eventful AND (? IS NULL OR domain = ?) AND wall_s >= ? AND wall_s <= ?"
        return self._newest(limit, where, domain, domain, begin_s, end_s)

    def next_decision(self, domain: int, wall_s: float) -> Recorded | None:
        """Return the first iteration after a moment that did something; None: there is none."""
        where = "eventful AND domain = ? AND wall_s > ?"
        return self._one(where, domain, wall_s, order="wall_s, id")

    def count(self, domain: int, begin_s: float, end_s: float) -> tuple[int, int]:
        """Return how many iterations of a period there are, and how many did something."""
        where, window = "domain = ? AND wall_s >= ? AND wall_s <= ?", (domain, begin_s, end_s)
        try:
            ((total, eventful),) = self._rows(
                f"SELECT count(*), coalesce(sum(eventful), 0) FROM iteration WHERE {where}", *window
            )
        except _Damaged:
            total = len(list(self._salvage(where, window)))
            eventful = len(list(self._salvage(f"eventful AND {where}", window)))
        return total, eventful

    def events(self, limit: int, begin_s: float = float("-inf")) -> list[Event]:
        """Return the newest events, newest first."""
        query = (
            "SELECT wall_s, severity, text FROM event WHERE wall_s >= ? ORDER BY id DESC LIMIT ?"
        )
        try:
            rows = self._rows(query, begin_s, limit)
        except _Damaged as error:
            self._leave_out("event", 0, error)
            return []
        return [Event(*row) for row in rows if tuple(map(type, row)) == (float, str, str)]

    def inventory(self, row: int) -> Inventory | None:
        """Return an inventory by the id an iteration refers to."""
        return self._body("inventory", row, Inventory)

    def inventories(self) -> Iterator[Inventory]:
        """Yield the pictures of the host, the newest first."""
        for (row,) in self._rows("SELECT id FROM inventory ORDER BY id DESC"):
            if (found := self.inventory(row)) is not None:
                yield found

    def latest_inventory(self) -> Inventory | None:
        """Return the newest picture of the host."""
        return next(self.inventories(), None)

    def settings(self, recorded: Recorded) -> Settings | None:
        """Return what was in force when an iteration was decided."""
        if recorded.settings_id is None:
            return None
        return self._body("settings", recorded.settings_id, Settings)

    def status(self) -> StatusNow | None:
        """Return what the agent last said of itself; None when it never said anything."""
        said = self._body("status", 1, Status)
        if said is None:
            return None
        ((written_s,),) = self._rows("SELECT CAST(written_s AS REAL) FROM status")
        return StatusNow(said, max(0.0, time.time() - written_s))

    def span(self) -> tuple[float, float] | None:
        """Return the wall-clock times of the oldest and the newest iteration."""
        ((first, last),) = self._rows("SELECT min(wall_s), max(wall_s) FROM iteration")
        return None if first is None else (first, last)

    def _body(self, table: str, row: int, kind: type[T]) -> T | None:
        """Return what a row of a table holds; None where there is none, or it is left out."""
        try:
            for (body,) in self._rows(f"SELECT body FROM {table} WHERE id = ?", row):
                plain = None if body is None else records.unpack(body)
                return None if plain is None else records.structure(plain, kind)
        except (_Damaged, RecordError) as error:
            self._leave_out(table, row, error)
        return None

    def _one(self, where: str, *values: object, order: str = "id DESC") -> Recorded | None:
        return next(iter(self._newest(1, where, *values, order=order)), None)

    def _newest(
        self, limit: int, where: str, *values: object, order: str = "id DESC"
    ) -> list[Recorded]:
        """Return the newest iterations that can be read, newest first."""
        wanted = limit
        while True:
            try:
                rows = self._rows(
                    f"{_ITERATION}WHERE {where} ORDER BY {order} LIMIT ?", *values, wanted
                )
            except _Damaged:
                rows = list(itertools.islice(self._salvage(where, values), wanted))
            found = [one for row in rows if (one := self._recorded(row)) is not None]
            if len(found) >= limit or len(rows) < wanted:
                return found[:limit]
            wanted *= 2

    def _salvage(self, where: str, values: Sequence[object]) -> Iterator[_Row]:
        """Yield the rows of iterations that can be read beside damage, newest first.

        An index has which rows there are; each is read by itself.
        """
        for (row,) in self._rows(
            "SELECT id FROM iteration INDEXED BY iteration_wall WHERE wall_s > -1e999"
            " ORDER BY id DESC"
        ):
            try:
                yield from self._rows(f"{_ITERATION}WHERE id = ? AND {where}", row, *values)
            except _Damaged as error:
                self._leave_out("iteration", row, error)

    def _recorded(self, row: _Row) -> Recorded | None:
        try:
            return _recorded(row)
        except RecordError as error:
            self._leave_out("iteration", row[0], error)
            return None

    def _leave_out(self, table: str, row: int, error: Exception) -> None:
        self._unreadable.setdefault((table, row), str(error))

    def _rows(self, query: str, *values: object) -> list[_Row]:
        try:
            return self._connection.execute(query, values).fetchall()
        except sqlite3.Error as error:
            kind = _Damaged if db.is_damage(error) else db.HistoryError
            raise kind(db.explain(self._path, error)) from error


class _Damaged(db.HistoryError):
    """A page of the file that the answer needs is damaged; others may not be."""


def _recorded(row: _Row) -> Recorded:
    number, wall_s, at_s, domain, inventory_id, settings_id, body = row
    if not isinstance(wall_s, float) or not isinstance(at_s, float):
        raise RecordError("a stored iteration is damaged (its time is none)")
    iteration = records.unpack_iteration(
        body, at_s=at_s, wall_s=wall_s, domain=domain, inventory_id=inventory_id
    )
    return Recorded(number, iteration, settings_id)
