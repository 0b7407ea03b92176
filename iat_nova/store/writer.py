# SPDX-License-Identifier: Apache-2.0
"""Writing the history to SQLite, in a thread beside the loop.

The loop only appends to queues (microseconds). A thread turns the queues into rows, one transaction
per batch. Iterations with an action and new values are written at once. Other iterations wait some
seconds for each other (`COMMIT_S`); a kill loses them. The loop continues after any failure of the
file:

* disk full, read-only, locked, folder missing: `History.problem` reports the error, the queue keeps
  the newest iterations, and writing is retried. An event then reports how many were lost;
* a reader keeps a transaction open, so that the write-ahead log would grow without bound: the
  same, until the reader ends;
* damaged: the file is renamed to ``<name>.corrupt-<time>`` and a new file is begun;
* removed or replaced by another program: a new file is begun;
* of an older schema: the file is renamed to ``<name>.schema-<number>-<time>``, a new file begun;
* of another program, or of a newer schema: the file is not touched and nothing is recorded.
"""

from __future__ import annotations

import collections
import contextlib
import logging
import math
import os
import pathlib
import sqlite3
import threading
import time
from collections.abc import Callable, Mapping

from iat_nova.common.clock import Clock
from iat_nova.model import DomainInventory, Facts, Message, message
from iat_nova.store import database as db
from iat_nova.store import records
from iat_nova.store.records import Event, EventKind, Inventory, Iteration, SettingsInForce, Status
from iat_nova.store.retention import Bounds, Retention
from iat_nova.store.rows import Queued, Rows, insert_event

LOG = logging.getLogger("iat_nova")

QUEUE_ITERATIONS = 2048  # about 20 MB with 16 tenants, reached only when the disk refuses
QUEUE_EVENTS = 1024
BATCH = 256  # iterations per transaction
RETRY_S = 5.0
TRIM_EVERY = 512  # iterations between two checks of age and size
COMMIT_S = 4.0  # on the loop's clock: how long iterations without an action wait for each other
BEAT_S = 5.0  # real seconds between two beats, if only iterations without an action come
PICTURE = 8  # weight of an inventory, in iterations, for `TRIM_EVERY`


class History:
    """The writer. Only one thread, the loop's, calls the public methods, and none of them blocks.

    `max_bytes` bounds the database file (at least 1 MiB; the write-ahead log may take some 4 MiB
    more). `max_age_s` bounds the age of rows; rows older than `whole_s` are thinned out
    (`retention`). `clock.wall()` gives the age; `clock.now()` limits the loss from a wrong wall
    clock. `sentence` makes the text for the history's own log lines.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        max_age_s: float,
        max_bytes: int,
        clock: Clock,
        whole_s: float = 86400.0,
        queue_iterations: int = QUEUE_ITERATIONS,
        sentence: Callable[[Message], str] = str,
    ) -> None:
        self.sentence = sentence
        self._iterations: collections.deque[Queued] = collections.deque(maxlen=queue_iterations)
        self._events: collections.deque[Event] = collections.deque(maxlen=QUEUE_EVENTS)
        self._status: Status | None = None
        self._settings: SettingsInForce | None = None
        self._inventory: tuple[int, Inventory] | None = None
        self.dropped = 0  # iterations lost since the start: the file could not be written
        self._wake = threading.Event()
        self._hurry = threading.Event()  # do not wait for the next attempt
        self._stop = False
        self._idle = threading.Condition()
        self._written_through = 0  # of `_asked`: everything queued before this call is written
        self._asked = 0
        self._at_once = False
        self._writer = _Writer(
            self, pathlib.Path(path), Bounds(whole_s, max_age_s, max_bytes), clock
        )
        self._thread = threading.Thread(target=self._run, name="history", daemon=True)
        self._thread.start()

    @property
    def problem(self) -> str | None:
        """Why nothing is recorded at present, or None."""
        return self._writer.problem

    def record(self, iteration: Iteration) -> None:
        """Queue an iteration; a full queue drops its oldest iteration.

        `iteration.inventory_id` must be the return value of the last `inventory()`. Raises
        `ValueError` otherwise: rows must not refer to an inventory that was never stored.
        """
        inventory = self._inventory
        if inventory is None or inventory[0] != iteration.inventory_id:
            raise ValueError(f"inventory {iteration.inventory_id} is not the last one given")
        if len(self._iterations) == self._iterations.maxlen:
            self.dropped += 1
        self._iterations.append(Queued(iteration, inventory, self._settings))

    def inventory(
        self,
        wall_s: float,
        facts: Facts,
        domains: Mapping[int, DomainInventory],
        reasons: Mapping[str, Message] | None = None,
    ) -> int:
        """Queue a new inventory of the host and return its id for iterations."""
        number = self._inventory[0] + 1 if self._inventory else 1
        self._inventory = (number, Inventory(wall_s, facts, dict(domains), dict(reasons or {})))
        return number

    def recount(self, wall_s: float, facts: Facts, reasons: Mapping[str, Message]) -> None:
        """Replace facts (new packet counts) and reasons in the last inventory of the host.

        The id stays: iterations that refer to it find the newest counts. Raises `ValueError`
        without an inventory.
        """
        if self._inventory is None:
            raise ValueError("no inventory was given")
        number, last = self._inventory
        self._inventory = (number, Inventory(wall_s, facts, last.domains, dict(reasons)))

    def event(
        self, wall_s: float, severity: str, said: Message, kind: EventKind | None = None
    ) -> None:
        """Queue a message; `severity` is info, warning or error."""
        self._events.append(Event(wall_s, severity, said, kind))

    def status(self, status: Status) -> None:
        """Queue the agent's status; iterations queued later were decided with its settings.

        The status comes last in every round of the loop, and wakes the thread, which then writes
        the queues. An earlier wake-up would compete with the loop for the interpreter.
        """
        self._settings = status.settings
        self._status = status
        if not self._wake.is_set():  # cheaper than set()
            self._wake.set()

    def flush(self, timeout_s: float = 5.0, *, at_once: bool = True) -> bool:
        """Wait until everything queued is written. Return False otherwise (see `problem`).

        Without `at_once` only due rows are written, as without this call.
        """
        with self._idle:
            self._asked += 1
            asked = self._asked
            self._at_once = self._at_once or at_once
            self._hurry.set()
            self._wake.set()
            return self._idle.wait_for(lambda: self._written_through >= asked, timeout_s)

    def close(self, timeout_s: float = 5.0) -> None:
        """Write the queues if possible, and end the thread."""
        self._stop = True
        self._hurry.set()
        self._wake.set()
        self._thread.join(timeout_s)

    def _run(self) -> None:
        try:
            while True:
                # Waiting iterations are written when no more come: the loop may be blocked.
                woken = self._wake.wait(COMMIT_S if self._iterations else None)
                self._wake.clear()
                self._hurry.clear()
                with self._idle:
                    stopping, asked = self._stop, self._asked
                    at_once, self._at_once = self._at_once or stopping or not woken, False
                written = self._writer.drain(at_once=at_once)
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
    """The thread's side: takes rows from the queues and owns the connection."""

    def __init__(self, history: History, path: pathlib.Path, bounds: Bounds, clock: Clock) -> None:
        self.problem: str | None = None
        self._history = history
        self._path = path
        self._bounds = bounds
        self._clock = clock
        self._connection: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None  # device and inode of the open file
        self._batch: list[Queued] = []  # taken and not yet written
        self._events: list[Event] = []
        self._told_dropped = 0
        self._rows = Rows(history.sentence)
        self._newest: tuple[int, Inventory] | None = None  # None: older ones are in the queue yet
        self._retention: Retention  # of the open file
        self._since_trim = 0
        self._written_s = -math.inf  # on the loop's clock
        self._forget_rows()

    def drain(self, *, at_once: bool = True) -> bool:
        """Write everything queued, if due; return False if the write is not possible now."""
        if not at_once and not self._due():
            return True
        try:
            with db.as_owner(self._path):
                return self._drain()
        except db.HistoryError as error:
            self._failed(error)
            return False

    def _drain(self) -> bool:
        begun_afresh = False
        while True:
            self._take()
            try:
                self._write()
            except (sqlite3.Error, OSError, db.HistoryError) as error:
                self._failed(error)
                if begun_afresh or not self._set_aside(error):
                    return False
                begun_afresh = True
                continue
            self.problem = None
            self._written_s = self._clock.now()
            if not self._history._iterations:
                return True

    def _due(self) -> bool:
        """Tell whether rows should be written now, or may wait for more rows.

        Each write costs whole pages, for few rows as for many.
        """
        history = self._history
        queued = list(history._iterations)
        return (
            self.problem is not None
            or bool(history._events)
            or history._status != self._status_written
            or history.dropped != self._told_dropped
            or len(queued) >= BATCH
            or any(one.iteration.eventful for one in queued)
            or not 0 <= self._clock.now() - self._written_s < COMMIT_S
        )

    def close(self) -> None:
        """Close the file; SQLite merges the write-ahead log into the file."""
        with contextlib.ExitStack() as owner:
            with contextlib.suppress(db.HistoryError):  # the folder is gone
                owner.enter_context(db.as_owner(self._path))
            self._close()

    def _close(self) -> None:
        if self._connection is not None:
            connection, self._connection = self._connection, None
            try:
                connection.close()
            except sqlite3.Error as error:
                self.problem = db.explain(self._path, error)
        self._forget_rows()

    def _forget_rows(self) -> None:
        self._rows.forget()
        self._status_written: Status | None = None
        self._beat_s = -math.inf

    def _take(self) -> None:
        """Move rows for one transaction from the queues.

        The newest inventory is read first, and kept if the queue runs empty: no iteration in the
        queue belongs to an older inventory then, though the loop goes on meanwhile.
        """
        newest, queue = self._history._inventory, self._history._iterations
        while queue and len(self._batch) < BATCH:
            try:
                self._batch.append(queue.popleft())
            except IndexError:  # the loop dropped the last item in between
                break
        self._newest = newest if len(self._batch) < BATCH else None
        events = self._history._events
        while events and len(self._events) < QUEUE_EVENTS:
            self._events.append(events.popleft())

    def _write(self) -> None:
        """Write the rows taken from the queue to the file, all or none."""
        connection = self._open()
        status, dropped = self._history._status, self._history.dropped
        stored_before = self._rows.inventory_row
        db.check_log(connection, self._path)
        with self._rows.transaction(connection):
            for queued in self._batch:
                self._rows.insert(connection, queued)
            if self._newest is not None:
                self._rows.recount(connection, self._newest)
            for event in self._events:
                insert_event(connection, event)
            if dropped != self._told_dropped:
                insert_event(connection, self._loss(dropped - self._told_dropped))
            beat_s = self._beat(connection, status)
        another = self._rows.inventory_row not in (None, stored_before)
        self._since_trim += len(self._batch) + PICTURE * another
        self._batch, self._events = [], []
        self._status_written, self._told_dropped, self._beat_s = status, dropped, beat_s
        if self._since_trim >= TRIM_EVERY:
            self._since_trim = 0
            self._retention.trim(self._rows.oldest_base)

    def _open(self) -> sqlite3.Connection:
        """Return the connection to the file that is at the path now."""
        if self._connection is not None:
            if self._file == db.identity(self._path):
                return self._connection
            self.close()  # another program removed or replaced it
        self._connection = db.open_writable(self._path)
        self._file = db.identity(self._path)
        self._retention = Retention(self._connection, self._bounds, self._clock)
        return self._connection

    def _failed(self, error: Exception) -> None:
        self.problem = (
            str(error) if isinstance(error, db.HistoryError) else db.explain(self._path, error)
        )
        self.close()

    def _set_aside(self, error: Exception) -> bool:
        older = error.schema if isinstance(error, db.OlderSchema) else None
        if older is None and not db.is_damage(error):
            return False
        try:
            aside = db.set_aside(self._path, "corrupt" if older is None else f"schema-{older}")
        except OSError as refused:
            self.problem = f"{self.problem}; it cannot be set aside: {refused}"
            return False
        if older is not None:
            said = message("history-older", path=str(aside))
        else:
            said = message("history-damaged", error=str(error), path=str(aside))
        self._events.append(Event(self._clock.wall(), "error" if older is None else "info", said))
        level = logging.ERROR if older is None else logging.WARNING
        LOG.log(level, "%s", self._history.sentence(said))
        return True

    def _loss(self, count: int) -> Event:
        return Event(self._clock.wall(), "warning", message("iterations-lost", count=count))

    def _beat(self, connection: sqlite3.Connection, status: Status | None) -> float:
        """Record that the agent lives, and its status; return the time of the record.

        Real time, also if the loop's time is virtual. While iterations come, one beat every few
        seconds is enough: iterations carry the time, too.
        """
        now_s = time.time()
        changed = status != self._status_written
        if changed:
            connection.execute("UPDATE status SET body = ?", (records.pack(status),))
        if not changed and self._batch and 0 <= now_s - self._beat_s < BEAT_S:
            return self._beat_s
        connection.execute("UPDATE beat SET written_s = ?", (now_s,))
        return now_s
