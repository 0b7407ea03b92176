# SPDX-License-Identifier: Apache-2.0
"""Reading the history: beside the agent that writes it, or after the agent's end."""

from __future__ import annotations

import dataclasses
import itertools
import os
import pathlib
import sqlite3
import time
from collections.abc import Iterator, Sequence
from typing import Any, Self, TypeVar

from iat_nova.common.kernel_files import names
from iat_nova.common.untrusted import LAST_S
from iat_nova.model import DomainInventory, Message
from iat_nova.store import database as db
from iat_nova.store import packing, records
from iat_nova.store.records import (
    Event,
    EventKind,
    Inventory,
    Iteration,
    RecordError,
    SettingsInForce,
    Status,
)

_ITERATION = (
    "SELECT id, wall_s, domain, inventory_id, settings_id, base_id, body,"
    " (SELECT body FROM state WHERE state.id = iteration.id) FROM iteration "
)
# Find kept rows by the index alone, without reading the rows: rows may be damaged.
_BY_ID = "iteration INDEXED BY iteration_kept WHERE kept"
_BY_TIME = "iteration INDEXED BY iteration_kept_wall WHERE kept"
_MINUTE_S = 60.0  # at least one row per minute is kept
_NEWEST = 1 << 62  # above all rows
_AHEAD = 4096  # rows that may be newer than the newest row in an index
_BASES = 64  # kept in memory
_INVENTORIES = 256  # kept in memory, of a cache domain each
_BEATS_S = 10.0  # a beat is written more often

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
    """The agent's last status on disk, and its age by the wall clock.

    The status does not show whether the agent runs; `iat_nova.store.heartbeat` does.
    """

    status: Status
    age_s: float


class HistoryReader:
    """A read-only view of a history, for one or a few queries; open a new reader for later queries.

    Raises `database.NoHistory` without a history, `database.HistoryError` for an unreadable
    history. Methods raise `database.HistoryError` if damage leaves no answer. A record that is
    damaged, or of another version, is left out as if never written; `damage` reports left-out
    records.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = pathlib.Path(path)
        self._connection = db.open_readable(self._path)
        self._unreadable: dict[tuple[str, int], str] = {}  # why, by table and row
        self._bases: dict[int, tuple[bytes, bytes]] = {}  # the texts of seen and state, by row
        self._domains: dict[tuple[int, int], DomainInventory | None] = {}  # by row and domain

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the database."""
        self._connection.close()

    @property
    def damage(self) -> str | None:
        """Message about records that were left out of answers so far, or None."""
        if not self._unreadable:
            return None
        (table, row), why = next(iter(self._unreadable.items()))
        more = len(self._unreadable) - 1
        others = f", as {more} more" if more else ""
        return f"history {self._path}: {table} {row} cannot be read{others}: left out ({why})"

    def domains(self) -> tuple[int, ...]:
        """Return the cache domains with iterations, ascending."""
        found: list[int] = []
        while True:
            query = f"SELECT min(domain) FROM {_BY_ID} AND domain > ?"
            ((domain,),) = self._rows(query, found[-1] if found else -1)
            if domain is None:
                return tuple(found)
            found.append(domain)

    def latest(self, domain: int) -> Recorded | None:
        """Return the newest iteration of a domain; None if none is stored."""
        return self._one("domain = ?", domain)

    def at(self, wall_s: float, domain: int | None = None) -> Recorded | None:
        """Return the iteration in force at a time: the last iteration not after this time.

        Only stored iterations count: `thinned_after` returns how many later iterations are missing.
        None before the first.
        """
        found: list[Recorded] = []
        for one in self.domains() if domain is None else (domain,):
            rows = self._rows(
                f"SELECT id FROM {_BY_TIME} AND domain = ? AND wall_s <= ?"
                " ORDER BY wall_s DESC, id DESC LIMIT 1",
                one,
                wall_s,
            )
            for (first,) in rows:
                where = "domain = ? AND id >= ? AND id < ? AND wall_s <= ?"
                values = (one, first, self._next_kept(one, first), wall_s)
                in_force = self._one(where, *values, order="wall_s DESC, id DESC")
                if in_force is None:  # damaged: use the iteration before
                    where, order = "domain = ? AND wall_s <= ? AND id < ?", "id DESC"
                    in_force = self._one(where, one, wall_s, first, order=order)
                found += [in_force] if in_force is not None else []
        return max(found, key=lambda one: (one.iteration.wall_s, one.row), default=None)

    def numbered(self, number: int, domain: int | None = None) -> Recorded | None:
        """Return the newest iteration with this number (numbers start again with each agent).

        None if none is stored.
        """
        return self._one("number = ? AND (? IS NULL OR domain = ?)", number, domain, domain)

    def around(self, number: int, domain: int | None = None) -> tuple[Recorded, Recorded] | None:
        """Return the kept iterations before and after one that the history no longer has.

        None if the history has the iteration, or none on one side. Numbers begin anew with each
        start of the agent: the newest pair counts, as in `numbered`.
        """
        for (row,) in self._rows(
            "SELECT id FROM (SELECT id, domain, number, lead(number) OVER (PARTITION BY domain"
            " ORDER BY id) AS later FROM iteration WHERE kept) WHERE number < ? AND later > ?"
            " AND (? IS NULL OR domain = ?) ORDER BY id DESC LIMIT 1",
            *(number, number, domain, domain),
        ):
            first = self._one("id = ?", row)
            second = self.next(first) if first is not None else None
            if first is not None and second is not None:
                return (first, second) if second.iteration.decision.iteration > number else None
        return None

    def before(self, recorded: Recorded) -> Recorded | None:
        """Return the iteration of the same domain before the given iteration, or None."""
        return self._one("domain = ? AND id < ?", recorded.iteration.domain, recorded.row)

    def next(self, recorded: Recorded) -> Recorded | None:
        """Return the iteration of the same domain after the given iteration, or None."""
        where = "domain = ? AND id > ?"
        return self._one(where, recorded.iteration.domain, recorded.row, order="id")

    def thinned_after(self, recorded: Recorded) -> int:
        """Return how many iterations are missing between this iteration and the next.

        Missing iterations did nothing, unless the file could not be written: then an event reports
        the loss.
        """
        following = self.next(recorded)
        if following is None:
            return 0
        numbers = (recorded.iteration.decision.iteration, following.iteration.decision.iteration)
        return max(0, numbers[1] - numbers[0] - 1)

    def whole_since(self) -> float | None:
        """Return the time since which every iteration is stored; None if none was thinned out."""
        query = "SELECT wall_s FROM iteration WHERE NOT kept ORDER BY id LIMIT 1"
        try:
            rows, span = self._rows(query), self.span()
        except _Damaged:
            return None
        if not rows or span is None or rows[0][0] - span[0] <= _MINUTE_S:
            return None
        return float(rows[0][0])

    @property
    def complete(self) -> bool:
        """Whether no iteration was removed since the first start of an agent.

        Files beside the history, damaged or of an older schema, have earlier iterations.
        """
        beside = tuple(f"{self._path.name}.{why}-" for why in ("corrupt", "schema"))
        earlier = any(name.startswith(beside) for name in names(self._path.parent))
        return not earlier and bool(self._rows("SELECT 1 FROM iteration WHERE id = 1"))

    def between(
        self, begin_s: float, end_s: float, domain: int, *, at_most: int | None = None
    ) -> Iterator[Recorded]:
        """Yield a domain's iterations of a period (wall clock), oldest first.

        With `at_most`, about this number, spread evenly over the part of the period with
        iterations.
        """
        where, window = self._window(begin_s, end_s, domain)
        chosen, values = where, window
        span = self.span() if at_most else None
        if at_most and span is not None:
            begin_s, end_s = max(begin_s, span[0]), min(end_s, span[1])
            step_s = max((end_s - begin_s) / at_most, 1e-9)
            chosen = (
                f"id IN (SELECT min(id) FROM iteration WHERE {where}"
                " GROUP BY min(?, CAST((wall_s - ?) / ? AS INTEGER)))"
            )
            values = (*window, at_most - 1, begin_s, step_s)
        try:
            rows = self._rows(f"{_ITERATION}WHERE {chosen} ORDER BY id", *values)
        except _Damaged:
            rows = list(self._salvage(where, window))[::-1]
            rows = rows[:: max(1, -(-len(rows) // at_most))] if at_most else rows
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
        """Return the newest iterations with an action, newest first."""
        where = "eventful AND (? IS NULL OR domain = ?) AND wall_s >= ? AND wall_s <= ?"
        return self._newest(limit, where, domain, domain, begin_s, end_s)

    def next_decision(self, domain: int, wall_s: float) -> Recorded | None:
        """Return the first iteration with an action after a time, or None."""
        where = "eventful AND domain = ? AND wall_s > ?"
        return self._one(where, domain, wall_s, order="wall_s, id")

    def count(self, domain: int, begin_s: float, end_s: float) -> tuple[int, int]:
        """Return the number of stored iterations of a period, and how many had an action."""
        where, window = self._window(begin_s, end_s, domain)
        try:
            ((total, eventful),) = self._rows(
                f"SELECT count(*), coalesce(sum(eventful), 0) FROM iteration WHERE {where}", *window
            )
        except _Damaged:
            total = len(list(self._salvage(where, window)))
            eventful = len(list(self._salvage(f"eventful AND {where}", window)))
        return total, eventful

    def events(
        self, limit: int, begin_s: float = float("-inf"), end_s: float = float("inf")
    ) -> list[Event]:
        """Return the newest events of a period (wall clock), newest first."""
        query = (
            "SELECT wall_s, severity, text FROM event WHERE wall_s >= ? AND wall_s <= ?"
            " ORDER BY id DESC LIMIT ?"
        )
        try:
            rows = self._rows(query, begin_s, end_s, limit)
        except _Damaged as error:
            self._leave_out("event", 0, error)
            return []
        return [event for row in rows if (event := _event(*row)) is not None]

    def inventory(self, row: int) -> Inventory | None:
        """Return an inventory by the id in an iteration; None if damaged or removed."""
        return self._body("inventory", row, Inventory)

    def domain_inventory(self, iteration: Iteration) -> DomainInventory | None:
        """Return the tenants that an iteration was decided for; read once."""
        key = (iteration.inventory_id, iteration.domain)
        if key not in self._domains:
            if len(self._domains) >= _INVENTORIES:
                self._domains.clear()
            found = self.inventory(iteration.inventory_id)
            self._domains[key] = found.domains.get(iteration.domain) if found else None
        return self._domains[key]

    def inventories(self) -> Iterator[Inventory]:
        """Yield the stored inventories of the host, newest first."""
        for (row,) in self._rows("SELECT id FROM inventory ORDER BY id DESC"):
            if (found := self.inventory(row)) is not None:
                yield found

    def latest_inventory(self) -> Inventory | None:
        """Return the newest inventory of the host; None if none is stored."""
        return next(self.inventories(), None)

    def settings(self, recorded: Recorded) -> SettingsInForce | None:
        """Return the settings in force when an iteration was decided; None if unknown."""
        if recorded.settings_id is None:
            return None
        return self._body("settings", recorded.settings_id, SettingsInForce)

    def status(self) -> StatusNow | None:
        """Return the agent's last status; None if no status was ever written."""
        said = self._body("status", 1, Status)
        if said is None:
            return None
        ((written_s,),) = self._rows("SELECT CAST(written_s AS REAL) FROM beat")
        # Between two beats the newest iteration gives the time, if the loop's clock is the host's.
        for (wall_s,) in self._rows("SELECT wall_s FROM iteration ORDER BY id DESC LIMIT 1"):
            if isinstance(wall_s, float) and written_s < wall_s <= written_s + _BEATS_S:
                written_s = wall_s
        return StatusNow(said, max(0.0, time.time() - written_s))

    def span(self) -> tuple[float, float] | None:
        """Return the wall-clock times of the oldest and the newest iteration; None without any."""
        ((first, last),) = self._rows(
            f"SELECT min(wall_s), max(wall_s) FROM {_BY_TIME} AND wall_s BETWEEN 0 AND {LAST_S}"
        )
        if first is None:
            return None
        newest = [one.iteration.wall_s for one in map(self.latest, self.domains()) if one]
        return first, max(last, *newest) if newest else last

    def _next_kept(self, domain: int, row: int) -> int:
        """Return the next kept row of a domain after a row, or a number above all rows."""
        query = f"SELECT min(id) FROM {_BY_ID} AND domain = ? AND id > ?"
        ((found,),) = self._rows(query, domain, row)
        return _NEWEST if found is None else found

    def _window(self, begin_s: float, end_s: float, domain: int) -> tuple[str, tuple[object, ...]]:
        """Return the condition for a domain's iterations of a period, and its values.

        Only kept rows are in an index, at least one per minute: the kept rows around the period
        limit the rows to search.
        """
        ((first, last),) = self._rows(
            f"SELECT min(id), max(id) FROM {_BY_TIME} AND domain = ? AND wall_s >= ?"
            " AND wall_s <= ?",
            *(domain, begin_s - _MINUTE_S, end_s + _MINUTE_S),
        )
        rows = (0, 0) if first is None else (first, self._next_kept(domain, last))
        where = "domain = ? AND id >= ? AND id < ? AND wall_s >= ? AND wall_s <= ?"
        return where, (domain, *rows, begin_s, end_s)

    def _body(self, table: str, row: int, kind: type[T]) -> T | None:
        """Return the value in a table's row; None if missing, or left out for damage."""
        try:
            for (body,) in self._rows(f"SELECT body FROM {table} WHERE id = ?", row):
                return None if body is None else records.unpack(body, kind)
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
        """Yield the readable rows of iterations around damage, newest first.

        A range of rows that cannot be read is split into halves.
        """
        ((last,),) = self._rows(f"SELECT max(id) FROM {_BY_ID}")
        pending = [] if last is None else [(0, last + _AHEAD)]
        while pending:
            low, high = pending.pop()
            query = f"{_ITERATION}WHERE id BETWEEN ? AND ? AND {where} ORDER BY id DESC"
            try:
                yield from self._rows(query, low, high, *values)
            except _Damaged as error:
                if low == high:
                    self._leave_out("iteration", low, error)
                else:
                    middle = (low + high) // 2
                    pending += [(low, middle), (middle + 1, high)]

    def _recorded(self, row: _Row) -> Recorded | None:
        number, wall_s, domain, inventory_id, settings_id, base, seen, state = row
        try:
            if not isinstance(wall_s, float) or not 0 <= wall_s <= LAST_S:
                raise RecordError("a stored iteration is damaged (its time is none)")
            base_seen, base_state = self._base(base)
            iteration = packing.unpack_iteration(
                records.expand(seen, base_seen),
                None if state is None else records.expand(state, base_state),
                wall_s=wall_s,
                domain=domain,
                inventory_id=inventory_id,
            )
        except (RecordError, _Damaged) as error:
            self._leave_out("iteration", number, error)
            return None
        return Recorded(number, iteration, settings_id)

    def _base(self, row: int) -> tuple[bytes, bytes]:
        """Return the dictionaries that compress iterations. Raises `RecordError`."""
        if row not in self._bases:
            if len(self._bases) >= _BASES:
                self._bases.clear()
            for texts in self._rows("SELECT seen, state FROM base WHERE id = ?", row):
                seen, state = map(records.expand, texts)
                self._bases[row] = (seen, state)
        if row not in self._bases:
            raise RecordError(f"the text it was compressed by (base {row}) is missing")
        return self._bases[row]

    def _leave_out(self, table: str, row: int, error: Exception) -> None:
        self._unreadable.setdefault((table, row), str(error))

    def _rows(self, query: str, *values: object) -> list[_Row]:
        try:
            return self._connection.execute(query, values).fetchall()
        except sqlite3.Error as error:
            kind = _Damaged if db.is_damage(error) else db.HistoryError
            raise kind(db.explain(self._path, error)) from error


def _event(wall_s: object, severity: object, said: object) -> Event | None:
    """Make an event from a row, None for a damaged row."""
    if not isinstance(wall_s, float) or not isinstance(severity, str) or not 0 <= wall_s <= LAST_S:
        return None
    if not isinstance(said, bytes):
        return None
    try:
        plain = records.parse(said)
        message = records.structure(plain, Message)
    except RecordError:
        return None
    # Earlier versions wrote no kind: their messages have codes of the same names.
    kind = str(plain.get("kind", message.code))
    return Event(wall_s, severity, message, EventKind(kind) if kind in list(EventKind) else None)


class _Damaged(db.HistoryError):
    """A damaged page of the file is needed for the answer; other pages may be intact."""
