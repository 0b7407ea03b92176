# SPDX-License-Identifier: Apache-2.0
"""What was seen, decided and written, in SQLite: written off the hot path, read by everybody else.

The loop only appends to queues (microseconds); a thread of the standard library turns what lies
there into rows, one transaction a batch: at once what did something, or is new; iterations that
did nothing wait some seconds for one another (`COMMIT_S`), which is what a kill costs. The loop
goes on with anything that befalls the file:

* disk full, read-only, locked, folder gone: `History.problem` says so, the queue keeps the newest
  iterations, writing is tried again; once it works an event says how many were lost;
* a reader keeps a transaction open, so that the write-ahead log would grow without bound: the
  same, until the reader ends;
* damaged: the file is set aside as ``<name>.corrupt-<time>`` and a fresh one is begun;
* removed or replaced by another program: a fresh one is begun;
* of an older schema: it is set aside as ``<name>.schema-<number>-<time>``, a fresh one begun;
* not ours, or of a newer schema: it is not touched and nothing is recorded.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
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
from iat_nova.store.reader import HistoryReader
from iat_nova.store.records import Event, Inventory, Iteration, Settings, Status
from iat_nova.store.retention import Bounds, Retention

__all__ = ["Event", "History", "HistoryReader", "Inventory", "Iteration", "Settings", "Status"]

LOG = logging.getLogger("iat_nova")

QUEUE_ITERATIONS = 2048  # about 20 MB with 16 tenants, reached only when the disk refuses
QUEUE_EVENTS = 1024
BATCH = 256  # iterations a transaction
RETRY_S = 5.0
TRIM_EVERY = 512  # iterations between two looks at age and size
COMMIT_S = 4.0  # on the loop's clock, that iterations which did nothing wait for one another
BEAT_S = 5.0  # real seconds after which it is noted that the agent lives, if only quiet rows come
PICTURE = 8  # iterations that a picture of the host counts for there
MINUTE_S = 60.0  # an iteration in so many seconds is kept, also where it did nothing
BASE_EVERY = 2048  # iterations of a cache domain that are compressed by the same text
BASE_LEAST = 64  # as many at least, where those who run here change


@dataclasses.dataclass(frozen=True, slots=True)
class _Base:
    """The text by which a cache domain's iterations are compressed, and whose picture it has."""

    row: int
    inventory: int  # the loop's id
    seen: bytes
    state: bytes


@dataclasses.dataclass(slots=True)
class _Last:
    """What the file has of a cache domain's newest iteration."""

    number: int
    minute: float
    base: _Base
    since_base: int = 0  # iterations


@dataclasses.dataclass(frozen=True, slots=True)
class _Stored:
    """The newest inventory in the file: the loop's id, the row, and what it has."""

    number: int
    row: int
    inventory: Inventory


@dataclasses.dataclass(frozen=True, slots=True)
class _Queued:
    """An iteration with what its row refers to."""

    iteration: Iteration
    inventory: tuple[int, Inventory]
    settings: Settings | None


class History:
    """The writer. All public methods are called from one thread, the loop's, and never block.

    `max_bytes` bounds the database file (at least 1 MiB; the write-ahead log may take some
    4 MiB more), `max_age_s` the age of what is in it; what is older than `whole_s` is thinned out
    (`retention`). `clock.wall()` is the time by which age is measured, `clock.now()` bounds what a
    wrong one costs. `sentence` makes the history's own lines of the log.
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
        self._at_once = False
        self._writer = _Writer(
            self, pathlib.Path(path), Bounds(whole_s, max_age_s, max_bytes), clock
        )
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
        reasons: Mapping[str, Message] | None = None,
    ) -> int:
        """Queue a new picture of the host and return the id by which iterations refer to it."""
        number = self._inventory[0] + 1 if self._inventory else 1
        self._inventory = (number, Inventory(wall_s, facts, dict(domains), dict(reasons or {})))
        return number

    def recount(self, wall_s: float, facts: Facts, reasons: Mapping[str, Message]) -> None:
        """Put newer counts, and reasons that tell of them, into the last picture of the host.

        Its id stays: iterations that refer to it find the newest counts. Raises `ValueError` where
        there is no picture.
        """
        if self._inventory is None:
            raise ValueError("no inventory was given")
        number, last = self._inventory
        self._inventory = (number, Inventory(wall_s, facts, last.domains, dict(reasons)))

    def event(self, wall_s: float, severity: str, said: Message) -> None:
        """Queue something to tell; `severity` is info, warning or error."""
        self._events.append(Event(wall_s, severity, said))

    def status(self, status: Status) -> None:
        """Queue what the agent says of itself; iterations queued later were decided by it.

        It comes last in every round of the loop, and wakes the thread, which then writes all that
        is queued: woken sooner it would contend with the loop for the interpreter.
        """
        self._settings = status.settings
        self._status = status
        if not self._wake.is_set():  # cheaper than set()
            self._wake.set()

    def flush(self, timeout_s: float = 5.0, *, at_once: bool = True) -> bool:
        """Wait until all that was queued is written. False: it was not (see `problem`).

        Without `at_once` only what is due is written, as without this call.
        """
        with self._idle:
            self._asked += 1
            asked = self._asked
            self._at_once = self._at_once or at_once
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
                # What waits for more is written when nothing comes: the loop may be held up.
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
    """The thread's side: takes from the queues, owns the connection."""

    def __init__(self, history: History, path: pathlib.Path, bounds: Bounds, clock: Clock) -> None:
        self.problem: str | None = None
        self._history = history
        self._path = path
        self._bounds = bounds
        self._clock = clock
        self._connection: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None  # device and inode of what is open
        self._batch: list[_Queued] = []  # taken and not yet written
        self._events: list[Event] = []
        self._told_dropped = 0
        self._unstorable: set[Message] = set()  # what was reported already
        self._since_trim = 0
        self._written_s = -math.inf  # on the loop's clock
        self._retention = Retention(bounds, clock)
        self._forget_rows()

    def drain(self, *, at_once: bool = True) -> bool:
        """Write everything that is queued, if it is due; False when that is not possible now."""
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
        """Tell whether something should be written now, or may wait for more of its kind.

        Each time whole pages are written, be there much or little to say.
        """
        history = self._history
        queued = list(history._iterations)
        return (
            self.problem is not None
            or bool(history._events)
            or history._status != self._status_written
            or history._dropped != self._told_dropped
            or len(queued) >= BATCH
            or any(one.iteration.eventful for one in queued)
            or not 0 <= self._clock.now() - self._written_s < COMMIT_S
        )

    def close(self) -> None:
        """Let the file go; SQLite folds the write-ahead log into it."""
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
        """Nothing is known of the rows of a file that will be opened."""
        self._inventory_row: _Stored | None = None
        self._settings_row: tuple[Settings, int] | None = None
        self._last: dict[int, _Last] = {}  # by cache domain
        self._status_written: Status | None = None
        self._beat_s = -math.inf

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
        last_before = {domain: dataclasses.replace(one) for domain, one in self._last.items()}
        db.check_log(connection, self._path)
        connection.execute("BEGIN IMMEDIATE")
        try:
            for queued in self._batch:
                self._insert(connection, queued)
            if latest is not None:
                self._recount(connection, latest)
            for event in self._events:
                self._insert_event(connection, event)
            if dropped != self._told_dropped:
                self._insert_event(connection, self._loss(dropped - self._told_dropped))
            beat_s = self._beat(connection, status)
            connection.execute("COMMIT")
        except BaseException:
            self._inventory_row, self._settings_row = rows_before
            self._last = last_before
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        was, stored = rows_before[0], self._inventory_row
        another = stored is not None and (was is None or was.row != stored.row)
        self._since_trim += len(self._batch) + PICTURE * another
        self._batch, self._events = [], []
        self._status_written, self._told_dropped, self._beat_s = status, dropped, beat_s
        if self._since_trim >= TRIM_EVERY:
            self._since_trim = 0
            bases = (last.base.row for last in self._last.values())
            self._retention.trim(connection, min(bases, default=None))

    def _open(self) -> sqlite3.Connection:
        """Return the connection to the file that lies at the path now."""
        if self._connection is not None:
            if self._file == db.identity(self._path):
                return self._connection
            self.close()  # another program removed or replaced it
        self._connection = db.open_writable(self._path)
        self._file = db.identity(self._path)
        self._retention = Retention(self._bounds, self._clock)
        return self._connection

    def _failed(self, error: Exception) -> None:
        """Say what is wrong and let the file go."""
        self.problem = (
            str(error) if isinstance(error, db.HistoryError) else db.explain(self._path, error)
        )
        self.close()

    def _set_aside(self, error: Exception) -> bool:
        """Make room for a fresh file; False when there is no need, or it cannot be renamed."""
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

    def _insert(self, connection: sqlite3.Connection, queued: _Queued) -> None:
        """Insert a row; an iteration that cannot be stored at all is left out and reported."""
        iteration = queued.iteration
        number, last = iteration.decision.iteration, self._last.get(iteration.domain)
        follows = iteration.follows and last is not None and last.number == number - 1
        minute = iteration.wall_s // MINUTE_S
        kept = iteration.eventful or not follows or last is None or last.minute != minute
        packed = records.pack_iteration(iteration, whole=kept)
        for said, error in packed.lost.items():
            if said not in self._unstorable:
                self._unstorable.add(said)
                LOG.error("history: %s", self._history.sentence(said), exc_info=error)
                self._insert_event(connection, Event(iteration.wall_s, "error", said))
        if packed.seen is None:
            return
        if last is None or _outdated(last, queued.inventory[0], packed):
            base = _insert_base(connection, queued.inventory[0], packed)
            last = self._last[iteration.domain] = _Last(number, minute, base)
        last.number, last.since_base = number, last.since_base + 1
        last.minute = minute if kept else last.minute
        row = connection.execute(
            "INSERT INTO iteration (wall_s, domain, number, inventory_id, settings_id, base_id,"
            " eventful, kept, body) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                iteration.wall_s,
                iteration.domain,
                number,
                self._inventory_id(connection, queued.inventory),
                self._settings_id(connection, queued.settings, iteration.wall_s),
                last.base.row,
                iteration.eventful,
                kept,
                records.squeeze(packed.seen, last.base.seen),
            ),
        ).lastrowid
        if packed.state is not None:
            connection.execute(
                "INSERT OR REPLACE INTO state (id, body) VALUES (?, ?)",
                (row, records.squeeze(packed.state, last.base.state)),
            )

    def _inventory_id(self, connection: sqlite3.Connection, numbered: tuple[int, Inventory]) -> int:
        """Return the row of an inventory, inserting it when it is not the last one inserted."""
        number, inventory = numbered
        if self._inventory_row is None or self._inventory_row.number != number:
            row = connection.execute(
                "INSERT INTO inventory (wall_s, body) VALUES (?, ?)",
                (inventory.wall_s, records.pack(records.unstructure(inventory))),
            ).lastrowid
            assert row is not None
            self._inventory_row = _Stored(number, row, inventory)
        return self._inventory_row.row

    def _recount(self, connection: sqlite3.Connection, latest: tuple[int, Inventory]) -> None:
        """Have the newest inventory stored as it is now."""
        row, inventory = self._inventory_id(connection, latest), latest[1]
        stored = self._inventory_row
        if stored is not None and stored.inventory is not inventory:
            connection.execute(
                "UPDATE inventory SET body = ? WHERE id = ?",
                (records.pack(records.unstructure(inventory)), row),
            )
            self._inventory_row = dataclasses.replace(stored, inventory=inventory)

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
            (event.wall_s, event.severity, records.text(records.unstructure(event.message))),
        )

    def _beat(self, connection: sqlite3.Connection, status: Status | None) -> float:
        """Note that the agent lives, and what it says of itself; return when it was noted.

        Real time, also where the loop's time is virtual. While iterations come every few seconds
        are enough: those tell the time, too.
        """
        now_s = time.time()
        changed = status != self._status_written
        if changed:
            body = records.pack(records.unstructure(status))
            connection.execute("UPDATE status SET body = ?", (body,))
        if not changed and self._batch and 0 <= now_s - self._beat_s < BEAT_S:
            return self._beat_s
        connection.execute("UPDATE beat SET written_s = ?", (now_s,))
        return now_s


def _outdated(last: _Last, inventory: int, packed: records.Packed) -> bool:
    """Tell whether a cache domain's iterations should be compressed by a newer text."""
    if packed.state is None:  # only a whole iteration can be the text
        return False
    changed = last.base.inventory != inventory
    return last.since_base >= (BASE_LEAST if changed else BASE_EVERY)


def _insert_base(connection: sqlite3.Connection, inventory: int, packed: records.Packed) -> _Base:
    """Store an iteration's text as that by which it and the next ones are compressed."""
    assert packed.seen is not None
    state = packed.state or b""
    row = connection.execute(
        "INSERT INTO base (seen, state) VALUES (?, ?)",
        (records.squeeze(packed.seen), records.squeeze(state)),
    ).lastrowid
    assert row is not None
    return _Base(row, inventory, packed.seen, state)
