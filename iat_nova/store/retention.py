# SPDX-License-Identifier: Apache-2.0
"""Removal of old rows from the history.

Every iteration is kept for a while. Of older iterations, one per minute and all with an action are
kept. The oldest of these are removed, too. If the file would become too large, removal starts
earlier. First the oldest states are removed (decisions stay, and cannot be replayed). Then
iterations are thinned out, where complete periods take more than half of the room, down to the last
hour. At last the oldest iterations are removed.
"""

from __future__ import annotations

import dataclasses
import sqlite3
from typing import Any

from iat_nova.common.clock import Clock
from iat_nova.store import database as db

AGE_PACE = 2.0  # rows are removed by age at most so many times faster than they came
FRACTION = 20  # this part of the rows is removed when the file is too big
LEAST_BYTES = 1 << 20
LEAST_WHOLE_S = 3600.0  # not thinned out for lack of room
FUTURE_S = 3600.0  # a row so far ahead was written while the clock was wrong
SAMPLE = 512  # iterations that give the mean size
ROW_BYTES = 64.0  # per iteration beside its text: columns, and unused space in pages
ALL = 1 << 62  # above all rows
SLACK = 1.25  # a file larger by this factor had a larger bound before and is compacted


@dataclasses.dataclass(frozen=True, slots=True)
class Bounds:
    """Bounds of the history: complete for `whole_s`, thinned for `max_age_s`, in `max_bytes`."""

    whole_s: float
    max_age_s: float
    max_bytes: int


class Retention:
    """Removes rows that are too old, then rows that are too many. One object per opened file.

    The time of day may be wrong for a while. Rows are therefore removed by age at most twice as
    fast as time passes on the loop's clock. A clock that is a year ahead for a minute costs two
    minutes of the oldest rows, not all rows. Rows that stay too long are removed later, or by size.
    """

    def __init__(self, connection: sqlite3.Connection, bounds: Bounds, clock: Clock) -> None:
        self._whole_s = min(bounds.whole_s, bounds.max_age_s)
        self._max_age_s = bounds.max_age_s
        self._max_bytes = max(bounds.max_bytes, LEAST_BYTES)
        self._connection = connection
        self._clock = clock
        self._looked_s = clock.now()
        self._thinned = 0  # rows of iterations below this row are thinned out

    def trim(self, base: int | None = None) -> None:
        """Delete rows, and compact a file above its present bound. Raises `sqlite3.Error`.

        `base`: the first row of `base` to which future rows may refer.
        """
        thinned, now_s = self._thinned, self._clock.now()
        passed_s, self._looked_s = now_s - self._looked_s, now_s
        try:
            with db.transaction(self._connection):
                self._forget_old("event", "", passed_s)
                self._forget_old("iteration", "kept AND ", passed_s)
                self._thin_by_age(passed_s)
                self._fit(base)
                self._forget_unreferenced(base)
        except BaseException:
            self._thinned = thinned
            raise
        # Freed pages serve the next rows, and the file does not grow. Returning every page at once
        # would mean repeated writes.
        if self._bytes("page_count") > SLACK * self._max_bytes:
            self._execute("VACUUM")

    def _limit_s(self, first_s: float, age_s: float, passed_s: float) -> float:
        """Return the time before which rows are too old; `first_s` is the oldest row's time."""
        return min(self._clock.wall() - age_s, first_s + AGE_PACE * passed_s)

    def _forget_old(self, table: str, which: str, passed_s: float) -> None:
        (first_s,) = self._row(f"SELECT min(wall_s) FROM {table} WHERE {which}wall_s > -1e999")
        if first_s is not None:
            limit_s = self._limit_s(first_s, self._max_age_s, passed_s)
            self._execute(f"DELETE FROM {table} WHERE {which}wall_s < ?", limit_s)

    def _thin_by_age(self, passed_s: float) -> None:
        query = "SELECT wall_s FROM iteration WHERE id >= ? AND NOT kept ORDER BY id LIMIT 1"
        if (first := self._row(query, self._thinned)) is not None:
            limit_s = self._limit_s(first[0], self._whole_s, passed_s)
            self._thin(self._first_since(limit_s))

    def _first_since(self, wall_s: float) -> int:
        """Return the first kept row since a time; the last row if all are older."""
        query = "SELECT min(id) FROM iteration WHERE kept AND wall_s BETWEEN ? AND ? AND id >= ?"
        (row,) = self._row(query, wall_s, self._clock.wall() + FUTURE_S, self._thinned)
        if row is None:
            (row,) = self._row("SELECT max(id) FROM iteration")
        return int(row or 0)

    def _thin(self, until: int) -> None:
        """Delete the rows between kept rows below `until`, and the states for their replay.

        The state of an iteration with an action stays: this iteration can be replayed by itself.
        """
        if until <= self._thinned:
            return
        rows = (self._thinned, until)
        self._execute(
            "DELETE FROM state WHERE id IN (SELECT id FROM iteration WHERE id >= ? AND id < ? AND"
            " NOT eventful)",
            *rows,
        )
        self._execute("DELETE FROM iteration WHERE id >= ? AND id < ? AND NOT kept", *rows)
        self._thinned = until

    def _fit(self, base: int | None) -> None:
        """Delete rows until the used size is below the bound."""
        if not self._too_large():
            return
        self._forget_unreferenced(base)
        while self._too_large() and self._forget_states():
            pass
        least = self._first_since(self._clock.wall() - LEAST_WHOLE_S)
        while (
            self._too_large()
            and self._thinned < least
            and self._whole_bytes() > self._max_bytes / 2
        ):
            self._thin(self._thinned + max(1, (least - self._thinned) // FRACTION))
        while self._too_large():
            (kept,) = self._row("SELECT count(*) FROM iteration WHERE kept")
            found = self._row(
                "SELECT id FROM iteration WHERE id > (SELECT min(id) FROM iteration) ORDER BY id"
                " LIMIT 1 OFFSET ?",
                kept // FRACTION,
            )
            if found is None:
                self._execute("DELETE FROM iteration")
                self._execute("DELETE FROM event")
                self._thinned = 0
                return
            self._execute("DELETE FROM iteration WHERE id < ?", *found)
            self._forget_unreferenced(base)

    def _forget_states(self) -> bool:
        """Delete the oldest states of thinned-out periods; return False if there are none."""
        (first,) = self._row("SELECT min(id) FROM state WHERE id < ?", self._thinned)
        if first is None:
            return False
        until = first + max(1, (self._thinned - first) // FRACTION)
        self._execute("DELETE FROM state WHERE id < ?", until)
        return True

    def _whole_bytes(self) -> float:
        """Return the approximate size of the iterations that are not thinned out, in bytes."""
        count, mean = self._row(
            "SELECT max(id), avg(length(body)) FROM (SELECT id, body FROM iteration ORDER BY id"
            " DESC LIMIT ?)",
            SAMPLE,
        )
        return (count - self._thinned) * (mean + ROW_BYTES) if count else 0.0

    def _forget_unreferenced(self, base: int | None) -> None:
        """Delete rows without a reference from an iteration, except the latest.

        Iterations refer to ever newer rows. The oldest iteration gives the rows that are still
        needed; for bases the oldest iteration of each cache domain does.
        """
        oldest = self._row(
            "SELECT id, inventory_id, settings_id FROM iteration ORDER BY id LIMIT 1"
        )
        iteration, inventory, settings = oldest or (None, None, None)
        self._execute("DELETE FROM state WHERE id < ?", ALL if iteration is None else iteration)
        (needed_base,) = self._row(
            "SELECT min(base_id) FROM iteration WHERE id IN"
            " (SELECT min(id) FROM iteration WHERE kept GROUP BY domain) OR id = ?",
            iteration,
        )
        first_base = min((row for row in (needed_base, base) if row is not None), default=None)
        for table, row in (("inventory", inventory), ("settings", settings), ("base", first_base)):
            self._execute(
                f"DELETE FROM {table} WHERE id < (SELECT max(id) FROM {table}) AND (? IS NULL OR"
                " id < ?)",
                *(row, row),
            )

    def _too_large(self) -> bool:
        return self._bytes("page_count") - self._bytes("freelist_count") > self._max_bytes

    def _bytes(self, pages: str) -> int:
        count, size = (self._row(f"PRAGMA {name}")[0] for name in (pages, "page_size"))
        return int(count * size)

    def _row(self, query: str, *values: object) -> Any:
        return self._connection.execute(query, values).fetchone()

    def _execute(self, statement: str, *values: object) -> None:
        self._connection.execute(statement, values)
