# SPDX-License-Identifier: Apache-2.0
"""What was seen, decided and written, in SQLite: written off the hot path, read by everybody else.

The loop only appends to queues (microseconds); a thread of the standard library turns what lies
there into rows, one transaction a batch. The loop goes on with anything that befalls the file:

* disk full, read-only, locked, folder gone: `History.problem` says so, the queue keeps the newest
  iterations, writing is tried again; once it works an event says how many were lost;
* damaged: the file is set aside as ``<name>.corrupt-<time>`` and a fresh one is begun;
* removed or replaced by another program: a fresh one is begun;
* not ours, or of a newer schema: it is not touched and nothing is recorded.
"""

from __future__ import annotations

import collections
import dataclasses
import logging
import os
import pathlib
import sqlite3
import threading
import time
from collections.abc import Mapping

from iat_nova.common.clock import Clock
from iat_nova.model import DomainInventory, Facts
from iat_nova.store import database as db
from iat_nova.store import records
from iat_nova.store.reader import HistoryReader
from iat_nova.store.records import Event, Inventory, Iteration, Settings, Status

__all__ = ["Event", "History", "HistoryReader", "Inventory", "Iteration", "Settings", "Status"]

LOG = logging.getLogger("iat_nova")

QUEUE_ITERATIONS = 2048  # about 20 MB with 16 tenants, reached only when the disk refuses
QUEUE_EVENTS = 1024
BATCH = 256  # iterations a transaction
RETRY_S = 5.0
TRIM_EVERY = 64  # iterations between two looks at age and size
AGE_PACE = 2.0  # rows go by age at most so many times faster than they came
TRIM_FRACTION = 20  # one part in so many goes when the file is too big
LEAST_BYTES = 1 << 20


@dataclasses.dataclass(frozen=True, slots=True)
class _Queued:
    """An iteration with what its row refers to."""

    iteration: Iteration
    inventory: tuple[int, Inventory]
    settings: Settings | None


class History:
    """The writer. All public methods are called from one thread, the loop's, and never block.

    `max_bytes` bounds the database file (at least 1 MiB; the write-ahead log may take some
    4 MiB more), `max_age_s` the age of what is in it. `clock.wall()` is the time by which age
    is measured, `clock.now()` bounds what a wrong one costs.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        max_age_s: float,
        max_bytes: int,
        clock: Clock,
        queue_iterations: int = QUEUE_ITERATIONS,
    ) -> None:
        self._iterations: collections.deque[_Queued] = collections.deque(maxlen=queue_iterations)
        self._events: collections.deque[Event] = collections.deque(maxlen=QUEUE_EVENTS)
        self._status: Status | None = None
        self._settings: Settings | None = None
        self._inventory: tuple[int, Inventory] | None = None
        self._dropped = 0
        self._wake = threading.Event()
        self._hurry = threading.Event()  # do not wait for the next attempt
        self._stop = False
        self._idle = threading.Condition()
        self._written_through = 0  # of `_asked`: all that was queued up to there is written
        self._asked = 0
        self._writer = _Writer(self, pathlib.Path(path), max_age_s, max_bytes, clock)
        self._thread = threading.Thread(target=self._run, name="history", daemon=True)
        self._thread.start()

    @property
    def problem(self) -> str | None:
        """Why nothing is being recorded at present; None while all is well."""
        return self._writer.problem

    @property
    def dropped(self) -> int:
        """How many iterations were lost since the start because the file could not be written."""
        return self._dropped

    def record(self, iteration: Iteration) -> None:
        """Queue an iteration; the oldest queued one goes when the queue is full.

        `iteration.inventory_id` is what the last `inventory()` returned. Raises `ValueError`
        when it is not: rows must not refer to an inventory that was never stored.
        """
        inventory = self._inventory
        if inventory is None or inventory[0] != iteration.inventory_id:
            raise ValueError(f"inventory {iteration.inventory_id} is not the last one given")
        if len(self._iterations) == self._iterations.maxlen:
            self._dropped += 1
        self._iterations.append(_Queued(iteration, inventory, self._settings))

    def inventory(
        self,
        wall_s: float,
        facts: Facts,
        domains: Mapping[int, DomainInventory],
        reasons: Mapping[str, str] | None = None,
    ) -> int:
        """Queue a new picture of the host and return the id by which iterations refer to it."""
        number = self._inventory[0] + 1 if self._inventory else 1
        self._inventory = (number, Inventory(wall_s, facts, dict(domains), dict(reasons or {})))
        return number

    def event(self, wall_s: float, severity: str, text: str) -> None:
        """Queue something to tell; `severity` is info, warning or error.

        What is not Unicode text (half a surrogate pair, as guests may be named) becomes an escape.
        """
        storable = text.encode("utf-8", "backslashreplace").decode("utf-8")
        self._events.append(Event(wall_s, severity, storable))

    def status(self, status: Status) -> None:
        """Queue what the agent says of itself; iterations queued later were decided by it.

        It comes last in every round of the loop, and wakes the thread, which then writes all that
        is queued: woken sooner it would contend with the loop for the interpreter.
        """
        self._settings = status.settings
        self._status = status
        if not self._wake.is_set():  # cheaper than set()
            self._wake.set()

    def flush(self, timeout_s: float = 5.0) -> bool:
        """Wait until all that was queued is written. False: it was not (see `problem`)."""
        with self._idle:
            self._asked += 1
            asked = self._asked
            self._hurry.set()
            self._wake.set()
            return self._idle.wait_for(lambda: self._written_through >= asked, timeout_s)

    def close(self, timeout_s: float = 5.0) -> None:
        """Write what is queued if that is possible, and end the thread."""
        self._stop = True
        self._hurry.set()
        self._wake.set()
        self._thread.join(timeout_s)

    def _run(self) -> None:
        """Write whenever there is something, until closed."""
        try:
            while True:
                self._wake.wait()
                self._wake.clear()
                self._hurry.clear()
                stopping, asked = self._stop, self._asked
                written = self._writer.drain()
                if written:
                    with self._idle:
                        self._written_through = asked
                        self._idle.notify_all()
                if stopping:
                    return
                if not written:
                    self._hurry.wait(RETRY_S)
                    self._wake.set()
        finally:
            self._writer.close()


class _Writer:
    """The thread's side: takes from the queues, owns the connection."""

    def __init__(
        self,
        history: History,
        path: pathlib.Path,
        max_age_s: float,
        max_bytes: int,
        clock: Clock,
    ) -> None:
        self.problem: str | None = None
        self._history = history
        self._path = path
        self._max_age_s = max_age_s
        self._max_bytes = max(max_bytes, LEAST_BYTES)
        self._clock = clock
        self._connection: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None  # device and inode of what is open
        self._batch: list[_Queued] = []  # taken and not yet written
        self._events: list[Event] = []
        self._told_dropped = 0
        self._unstorable: set[str] = set()  # what was reported already
        self._since_trim = 0
        self._trimmed_s = clock.now()
        self._forget_rows()

    def drain(self) -> bool:
        """Write everything that is queued; False when that is not possible now."""
        begun_afresh = False
        while True:
            self._take()
            try:
                self._write()
            except (sqlite3.Error, OSError, db.HistoryError) as error:
                self._failed(error)
                if begun_afresh or not db.is_damage(error) or not self._set_aside(error):
                    return False
                begun_afresh = True
                continue
            self.problem = None
            if not self._history._iterations:
                return True

    def close(self) -> None:
        """Let the file go; SQLite folds the write-ahead log into it."""
        if self._connection is not None:
            connection, self._connection = self._connection, None
            try:
                connection.close()
            except sqlite3.Error as error:
                self.problem = db.explain(self._path, error)
        self._forget_rows()

    def _forget_rows(self) -> None:
        """Nothing is known of the rows of a file that will be opened."""
        self._inventory_row: tuple[int, int] | None = None  # the loop's id, the row's
        self._settings_row: tuple[Settings, int] | None = None
        self._status_written: Status | None = None

    def _take(self) -> None:
        """Move from the queues what one transaction holds."""
        queue = self._history._iterations
        while queue and len(self._batch) < BATCH:
            try:
                self._batch.append(queue.popleft())
            except IndexError:  # the loop dropped the last one in between
                break
        events = self._history._events
        while events and len(self._events) < QUEUE_EVENTS:
            self._events.append(events.popleft())

    def _write(self) -> None:
        """Put what was taken into the file, all or nothing."""
        connection = self._open()
        status, dropped = self._history._status, self._history._dropped
        latest = self._history._inventory
        rows_before = (self._inventory_row, self._settings_row)
        connection.execute("BEGIN IMMEDIATE")
        try:
            for queued in self._batch:
                self._insert(connection, queued)
            if latest is not None:
                self._inventory_id(connection, latest)
            for event in self._events:
                self._insert_event(connection, event)
            if dropped != self._told_dropped:
                self._insert_event(connection, self._loss(dropped - self._told_dropped))
            self._beat(connection, status)
            connection.execute("COMMIT")
        except BaseException:
            self._inventory_row, self._settings_row = rows_before
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        inventories = int(self._inventory_row != rows_before[0])
        self._since_trim += len(self._batch) + inventories
        self._batch, self._events = [], []
        self._status_written, self._told_dropped = status, dropped
        if self._since_trim >= TRIM_EVERY:
            self._since_trim = 0
            self._trim(connection)

    def _open(self) -> sqlite3.Connection:
        """Return the connection to the file that lies at the path now."""
        if self._connection is not None:
            if self._file == db.identity(self._path):
                return self._connection
            self.close()  # another program removed or replaced it
        self._connection = db.open_writable(self._path)
        self._file = db.identity(self._path)
        return self._connection

    def _failed(self, error: Exception) -> None:
        """Say what is wrong and let the file go."""
        self.problem = (
            str(error) if isinstance(error, db.HistoryError) else db.explain(self._path, error)
        )
        self.close()

    def _set_aside(self, error: Exception) -> bool:
        """Make room for a fresh file; False when the damaged one cannot be renamed."""
        try:
            aside = db.set_aside(self._path)
        except OSError as refused:
            self.problem = f"{self.problem}; it cannot be set aside: {refused}"
            return False
        text = f"the history was damaged ({error}); it lies at {aside}, a fresh one is begun"
        self._events.append(Event(self._clock.wall(), "error", text))
        return True

    def _loss(self, count: int) -> Event:
        text = f"{count} iterations were not recorded: the history could not be written"
        return Event(self._clock.wall(), "warning", text)

    def _insert(self, connection: sqlite3.Connection, queued: _Queued) -> None:
        """Insert a row; an iteration that cannot be stored at all is left out and reported."""
        iteration = queued.iteration
        decision = iteration.decision
        body, lost = records.pack_what_can_be(iteration)
        for text, error in lost.items():
            if text not in self._unstorable:
                self._unstorable.add(text)
                LOG.error("history: %s", text, exc_info=error)
                self._insert_event(connection, Event(iteration.wall_s, "error", text))
        if body is None:
            return
        connection.execute(
            "INSERT INTO iteration (wall_s, at_s, domain, number, inventory_id, settings_id,"
            " eventful, moved, body) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                iteration.wall_s,
                iteration.at_s,
                iteration.domain,
                decision.iteration,
                self._inventory_id(connection, queued.inventory),
                self._settings_id(connection, queued.settings, iteration.wall_s),
                iteration.eventful,
                len(decision.moved),
                body,
            ),
        )

    def _inventory_id(self, connection: sqlite3.Connection, numbered: tuple[int, Inventory]) -> int:
        """Return the row of an inventory, inserting it when it is not the last one inserted."""
        number, inventory = numbered
        if self._inventory_row is None or self._inventory_row[0] != number:
            row = connection.execute(
                "INSERT INTO inventory (wall_s, body) VALUES (?, ?)",
                (inventory.wall_s, records.pack(records.unstructure(inventory))),
            ).lastrowid
            assert row is not None
            self._inventory_row = (number, row)
        return self._inventory_row[1]

    def _settings_id(
        self, connection: sqlite3.Connection, settings: Settings | None, wall_s: float
    ) -> int | None:
        """Return the row of the settings, inserting them when they changed."""
        if settings is None:
            return None
        if self._settings_row is None or self._settings_row[0] != settings:
            row = connection.execute(
                "INSERT INTO settings (wall_s, body) VALUES (?, ?)",
                (wall_s, records.pack(records.unstructure(settings))),
            ).lastrowid
            assert row is not None
            self._settings_row = (settings, row)
        return self._settings_row[1]

    @staticmethod
    def _insert_event(connection: sqlite3.Connection, event: Event) -> None:
        connection.execute(
            "INSERT INTO event (wall_s, severity, text) VALUES (?, ?, ?)",
            (event.wall_s, event.severity, event.text),
        )

    def _beat(self, connection: sqlite3.Connection, status: Status | None) -> None:
        """Note that the agent lives; real time, also where the loop's time is virtual."""
        if status == self._status_written:
            connection.execute("UPDATE status SET written_s = ?", (time.time(),))
        else:
            connection.execute(
                "UPDATE status SET written_s = ?, body = ?",
                (time.time(), records.pack(records.unstructure(status))),
            )

    def _trim(self, connection: sqlite3.Connection) -> None:
        """Delete what is too old, then the oldest until the file fits; give the space back."""
        now_s = self._clock.now()
        passed_s, self._trimmed_s = now_s - self._trimmed_s, now_s
        connection.execute("BEGIN IMMEDIATE")
        try:
            for table in ("iteration", "event"):
                self._trim_age(connection, table, passed_s)
            if self._used_bytes(connection) > self._max_bytes:
                self._trim_size(connection)
            self._forget_unreferenced(connection)
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        connection.execute("PRAGMA incremental_vacuum").fetchall()

    def _trim_age(self, connection: sqlite3.Connection, table: str, passed_s: float) -> None:
        """Delete what is too old, at most twice as fast as time passes since the last look.

        The time of day may be wrong for a while: a minute a year ahead costs two minutes of the
        oldest rows, not all of them. What is left too long goes with the next looks, or by size.
        """
        (first_s,) = connection.execute(f"SELECT min(wall_s) FROM {table}").fetchone()
        if first_s is not None:
            oldest_s = min(self._clock.wall() - self._max_age_s, first_s + AGE_PACE * passed_s)
            connection.execute(f"DELETE FROM {table} WHERE wall_s < ?", (oldest_s,))

    @staticmethod
    def _forget_unreferenced(connection: sqlite3.Connection) -> None:
        """Delete the inventories and settings that no iteration refers to, but for the latest.

        Iterations refer to ever newer rows: the oldest one says what is still needed.
        """
        for table in ("inventory", "settings"):
            (latest,) = connection.execute(f"SELECT max(id) FROM {table}").fetchone()
            connection.execute(
                f"DELETE FROM {table} WHERE id < ? AND id < coalesce((SELECT {table}_id FROM"
                " iteration ORDER BY id LIMIT 1), ?)",
                (latest, latest),
            )

    def _trim_size(self, connection: sqlite3.Connection) -> None:
        """Delete the oldest iterations until what is used lies below the bound."""
        self._forget_unreferenced(connection)
        while self._used_bytes(connection) > self._max_bytes:
            (count,) = connection.execute("SELECT count(*) FROM iteration").fetchone()
            if not count:
                connection.execute("DELETE FROM event")
                return
            connection.execute(
                "DELETE FROM iteration WHERE id IN (SELECT id FROM iteration ORDER BY id LIMIT ?)",
                (max(1, count // TRIM_FRACTION),),
            )
            self._forget_unreferenced(connection)

    @staticmethod
    def _used_bytes(connection: sqlite3.Connection) -> int:
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        (free,) = connection.execute("PRAGMA freelist_count").fetchone()
        (size,) = connection.execute("PRAGMA page_size").fetchone()
        return int((pages - free) * size)
