# SPDX-License-Identifier: Apache-2.0
"""Reading the history: beside the agent that writes it, or after it ended."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import sqlite3
import time
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Self

from iat_nova import history_db as db
from iat_nova import records
from iat_nova.records import Event, Inventory, Iteration, Settings, Status

_ITERATION = "SELECT id, wall_s, at_s, domain, inventory_id, settings_id, body FROM iteration "

STALE_INTERVALS = 5  # an agent that missed so many of its intervals is not running
STALE_LEAST_S = 5.0


@dataclasses.dataclass(frozen=True, slots=True)
class Recorded:
    """An iteration as stored: `row` grows with time, `settings_id` is for `settings()`."""

    row: int
    iteration: Iteration
    settings_id: int | None


@dataclasses.dataclass(frozen=True, slots=True)
class StatusNow:
    """The agent's last word and how old it is, in real seconds."""

    status: Status
    age_s: float

    @property
    def stale(self) -> bool:
        """Whether this describes the past: the agent stopped, died or hangs."""
        limit_s = max(STALE_LEAST_S, STALE_INTERVALS * self.status.interval_s)
        return self.status.stopped or self.age_s > limit_s


class HistoryReader:
    """A read-only view of a history, for one question or a few: open it anew for the next one.

    Raises `history_db.NoHistory` when there is none, `history_db.HistoryError` when it cannot
    be read; methods raise `history_db.HistoryError` for damage and `records.RecordError` for
    records of another version.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = pathlib.Path(path)
        self._connection = db.open_readable(self._path)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let the file go."""
        self._connection.close()

    def domains(self) -> tuple[int, ...]:
        """Return the cache domains with iterations, ascending."""
        return tuple(
            domain
            for (domain,) in self._rows("SELECT DISTINCT domain FROM iteration ORDER BY domain")
        )

    def latest(self, domain: int) -> Recorded | None:
        """Return the newest iteration of a domain."""
        return self._one("WHERE domain = ? ORDER BY id DESC LIMIT 1", domain)

    def at(self, wall_s: float, domain: int | None = None) -> Recorded | None:
        """Return the iteration that was in force at a moment: the last one not after it."""
        return self._one(
            "WHERE wall_s <= ? AND (? IS NULL OR domain = ?) ORDER BY wall_s DESC, id DESC LIMIT 1",
            wall_s,
            domain,
            domain,
        )

    def numbered(self, number: int, domain: int | None = None) -> Recorded | None:
        """Return the newest iteration with this number (numbers begin anew with each agent)."""
        return self._one(
            "WHERE number = ? AND (? IS NULL OR domain = ?) ORDER BY id DESC LIMIT 1",
            number,
            domain,
            domain,
        )

    def before(self, recorded: Recorded) -> Recorded | None:
        """Return the iteration of the same domain before the given one."""
        return self._one(
            "WHERE domain = ? AND id < ? ORDER BY id DESC LIMIT 1",
            recorded.iteration.domain,
            recorded.row,
        )

    def between(
        self, begin_s: float, end_s: float, domain: int, *, at_most: int | None = None
    ) -> Iterator[Recorded]:
        """Yield a domain's iterations of a period (wall clock), oldest first.

        With `at_most`, every n-th only, so that about that many come.
        """
        window = "WHERE domain = ? AND wall_s >= ? AND wall_s <= ?"
        stride = 1
        if at_most:
            query = f"SELECT count(*) FROM iteration {window}"
            ((count,),) = self._rows(query, domain, begin_s, end_s)
            stride = max(1, -(-count // at_most))
        rows = self._rows(
            f"{_ITERATION}{window} AND id IN (SELECT id FROM (SELECT id, row_number() OVER"
            f" (ORDER BY id) AS n FROM iteration {window}) WHERE (n - 1) % ? = 0) ORDER BY id",
            *(domain, begin_s, end_s, domain, begin_s, end_s, stride),
        )
        return map(_recorded, rows)

    def newer(self, domain: int, row: int, limit: int) -> list[Recorded]:
        """Return a domain's iterations after a row, the newest `limit` of them, oldest first."""
        rows = self._rows(
            _ITERATION + "WHERE domain = ? AND id > ? ORDER BY id DESC LIMIT ?",
            *(domain, row, limit),
        )
        return [_recorded(found) for found in reversed(rows)]

    def decisions(
        self,
        limit: int,
        domain: int | None = None,
        begin_s: float = float("-inf"),
        end_s: float = float("inf"),
    ) -> list[Recorded]:
        """Return the newest iterations that did something, newest first."""
        rows = self._rows(
            f"{_ITERATION}WHERE eventful AND (? IS NULL OR domain = ?)"
            " AND wall_s >= ? AND wall_s <= ? ORDER BY id DESC LIMIT ?",
            *(domain, domain, begin_s, end_s, limit),
        )
        return [_recorded(row) for row in rows]

    def count(self, domain: int, begin_s: float, end_s: float) -> tuple[int, int]:
        """Return how many iterations of a period there are, and how many did something."""
        ((total, eventful),) = self._rows(
            "SELECT count(*), coalesce(sum(eventful), 0) FROM iteration"
            " WHERE domain = ? AND wall_s >= ? AND wall_s <= ?",
            *(domain, begin_s, end_s),
        )
        return total, eventful

    def events(self, limit: int, begin_s: float = float("-inf")) -> list[Event]:
        """Return the newest events, newest first."""
        return [
            Event(*row)
            for row in self._rows(
                "SELECT wall_s, severity, text FROM event WHERE wall_s >= ?"
                " ORDER BY id DESC LIMIT ?",
                begin_s,
                limit,
            )
        ]

    def inventory(self, row: int) -> Inventory | None:
        """Return an inventory by the id an iteration refers to."""
        return self._inventory("WHERE id = ?", row)

    def latest_inventory(self) -> Inventory | None:
        """Return the newest picture of the host."""
        return self._inventory("ORDER BY id DESC LIMIT 1")

    def settings(self, recorded: Recorded) -> Settings | None:
        """Return what was in force when an iteration was decided."""
        if recorded.settings_id is None:
            return None
        rows = self._rows("SELECT body FROM settings WHERE id = ?", recorded.settings_id)
        for (body,) in rows:
            return records.structure(records.unpack(body), Settings)
        return None

    def status(self) -> StatusNow | None:
        """Return what the agent last said of itself; None when it never said anything."""
        ((written_s, body),) = self._rows("SELECT written_s, body FROM status")
        if body is None:
            return None
        plain = records.unpack(body)
        if plain is None:
            return None
        age_s = max(0.0, time.time() - written_s)
        return StatusNow(records.structure(plain, Status), age_s)

    def span(self) -> tuple[float, float] | None:
        """Return the wall-clock times of the oldest and the newest iteration."""
        ((first, last),) = self._rows("SELECT min(wall_s), max(wall_s) FROM iteration")
        return None if first is None else (first, last)

    def _inventory(self, where: str, *values: object) -> Inventory | None:
        for (body,) in self._rows(f"SELECT body FROM inventory {where}", *values):
            return records.structure(records.unpack(body), Inventory)
        return None

    def _one(self, where: str, *values: object) -> Recorded | None:
        return next((_recorded(row) for row in self._rows(_ITERATION + where, *values)), None)

    def _rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        try:
            return self._connection.execute(query, values).fetchall()
        except sqlite3.Error as error:
            raise db.HistoryError(db.explain(self._path, error)) from error


def _recorded(row: tuple[Any, ...]) -> Recorded:
    number, wall_s, at_s, domain, inventory_id, settings_id, body = row
    iteration = records.unpack_iteration(
        body, at_s=at_s, wall_s=wall_s, domain=domain, inventory_id=inventory_id
    )
    return Recorded(number, iteration, settings_id)
