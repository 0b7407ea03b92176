# SPDX-License-Identifier: Apache-2.0
"""The history's file: tables, checks, and the meaning of SQLite's errors.

``iteration`` has one row per iteration, written once. Consecutive iterations are similar: ``body``
is JSON compressed by zlib with ``base.seen`` as dictionary. ``state`` has the strategy's memory
before some iterations, compressed with ``base.state``. Other states follow from the last stored
state before them (`replay`). Rows marked ``kept`` outlive the rest (`retention`). At least one row
per minute is kept, so the indexes cover kept rows only.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import sqlite3
import stat
import time
from collections.abc import Iterator

from iat_nova.common.kernel_files import exists, status
from iat_nova.common.owned_folder import OwnedFolder

APPLICATION_ID = 0x49415431  # "IAT1" in the file's header
SCHEMA = 2
MOST_LOG_BYTES = 32 << 20  # of the write-ahead log; a larger log must be emptied first
PAGE_BYTES = 2048  # a commit writes whole pages, and an iteration per second has about a kilobyte

_TABLES = """
CREATE TABLE settings (
    id INTEGER PRIMARY KEY, wall_s REAL NOT NULL, body BLOB NOT NULL);
CREATE TABLE inventory (
    id INTEGER PRIMARY KEY, wall_s REAL NOT NULL, body BLOB NOT NULL);
CREATE TABLE base (id INTEGER PRIMARY KEY, seen BLOB NOT NULL, state BLOB NOT NULL);
CREATE TABLE iteration (
    id INTEGER PRIMARY KEY, wall_s REAL NOT NULL, domain INTEGER NOT NULL,
    number INTEGER NOT NULL, inventory_id INTEGER NOT NULL, settings_id INTEGER,
    base_id INTEGER NOT NULL, eventful INTEGER NOT NULL, kept INTEGER NOT NULL,
    body BLOB NOT NULL);
CREATE TABLE state (id INTEGER PRIMARY KEY, body BLOB NOT NULL);
CREATE INDEX iteration_kept ON iteration (domain) WHERE kept;
CREATE INDEX iteration_kept_wall ON iteration (wall_s, domain) WHERE kept;
CREATE INDEX iteration_eventful ON iteration (domain) WHERE eventful;
CREATE TABLE event (
    id INTEGER PRIMARY KEY, wall_s REAL NOT NULL, severity TEXT NOT NULL, text TEXT NOT NULL);
CREATE TABLE status (id INTEGER PRIMARY KEY CHECK (id = 1), body BLOB);
INSERT INTO status (id) VALUES (1);
CREATE TABLE beat (id INTEGER PRIMARY KEY CHECK (id = 1), written_s REAL NOT NULL);
INSERT INTO beat (id, written_s) VALUES (1, 0);
"""

# Primary result codes of SQLite (https://www.sqlite.org/rescode.html).
_CORRUPT, _NOT_A_DATABASE = 11, 26
_MEANINGS = {
    5: "another process holds its lock",
    6: "another connection holds its lock",
    8: "it is read-only for this user",
    10: "the disk reports an error",
    13: "the disk is full",
    14: "it cannot be opened (does the folder exist, may this user enter and write it?)",
    _CORRUPT: "it is damaged",
    _NOT_A_DATABASE: "it is not a database",
}


class HistoryError(Exception):
    """The history cannot be read or written; the text says what, where and what to do."""


class OlderSchema(HistoryError):
    """An earlier version wrote the history, in the given schema."""

    def __init__(self, text: str, schema: int) -> None:
        super().__init__(text)
        self.schema = schema


class NoHistory(HistoryError):
    """There is no history at the given path."""


class NoFolder(NoHistory):
    """There is no state directory at the given path."""


def is_damage(error: BaseException) -> bool:
    """Tell whether the file's content is damaged, as opposed to a failure around the file."""
    code = getattr(error, "sqlite_errorcode", None)
    return code is not None and code & 0xFF in (_CORRUPT, _NOT_A_DATABASE)


def explain(path: os.PathLike[str], error: BaseException) -> str:
    """Return the sentence for an error of SQLite or of the operating system."""
    code = getattr(error, "sqlite_errorcode", None)
    meaning = _MEANINGS.get(code & 0xFF) if code is not None else None
    return f"history {path}: {meaning} ({error})" if meaning else f"history {path}: {error}"


def check_header(connection: sqlite3.Connection, path: pathlib.Path) -> bool:
    """Tell whether the database has iat-nova's tables; False for an empty database.

    Raises `HistoryError` for a database of another program or schema.
    """
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (schema,) = connection.execute("PRAGMA user_version").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if application == APPLICATION_ID and schema == SCHEMA:
        return True
    if application == 0 and tables == 0:
        return False
    if application != APPLICATION_ID:
        raise HistoryError(
            f"{path} is a database of another program; not used. "
            "Set another [iat] state_dir or move the file away"
        )
    text = f"history {path} has schema {schema}, this version of iat-nova uses {SCHEMA}; not used. "
    if schema < SCHEMA:
        raise OlderSchema(f"{text}The agent begins a fresh one and keeps this beside it", schema)
    raise HistoryError(f"{text}Move the file away, or use the version that wrote it")


@contextlib.contextmanager
def as_owner(path: pathlib.Path) -> Iterator[None]:
    """Make root act as the owner of a history's folder: SQLite writes more files there.

    Raises `NoFolder` without a folder, `HistoryError` where root cannot act as its owner.
    """
    with contextlib.ExitStack() as owner:
        try:
            owner.enter_context(OwnedFolder(path.parent).acting_as_owner())
        except FileNotFoundError:
            raise NoFolder(f"there is no state directory {path.parent}") from None
        except NotADirectoryError:
            raise NoFolder(f"the state directory {path.parent} is not a folder") from None
        except OSError as error:
            raise HistoryError(f"history {path}: {error.filename}: {error.strerror}") from error
        yield


def open_writable(path: pathlib.Path, busy_timeout_s: float = 1.0) -> sqlite3.Connection:
    """Open the history for writing; create the file where missing.

    The connection is in autocommit mode: the caller begins and commits. Raises `HistoryError` for a
    file of another program, `sqlite3.Error` for other refusals of SQLite.
    """
    connection = sqlite3.connect(path, timeout=busy_timeout_s, isolation_level=None)
    try:
        if not check_header(connection, path):
            connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")  # only before the first table
            connection.execute("PRAGMA journal_mode = WAL")
            connection.executescript(
                f"BEGIN; PRAGMA application_id = {APPLICATION_ID}; "
                f"PRAGMA user_version = {SCHEMA}; {_TABLES} COMMIT;"
            )
        connection.execute("PRAGMA journal_mode = WAL")
        # In WAL mode rows survive a crash of the agent; only a power failure may cost the last
        # rows.
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA journal_size_limit = 4194304")
        # Some distributions switch secure_delete on, which writes all deleted pages once more.
        connection.execute("PRAGMA secure_delete = OFF")
    except BaseException:
        connection.close()
        raise
    return connection


def open_readable(path: pathlib.Path) -> sqlite3.Connection:
    """Open the history for reading, with a running writer or after the writer's end.

    Raises `NoHistory` or `HistoryError`.
    """
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # a pipe would block the reader
            raise HistoryError(f"history {path} is not a regular file; move it away")
    except FileNotFoundError:
        if not exists(path.parent):
            raise NoFolder(f"there is no state directory {path.parent}") from None
        raise NoHistory(f"there is no history at {path}") from None
    except OSError as error:
        raise HistoryError(f"history {path} cannot be read: {error.strerror}") from error
    uri = path.absolute().as_uri() + "?mode=ro"
    if not exists(_wal(path)) and not os.access(path.parent, os.W_OK):
        # A closed WAL database needs new side files, which this user may not create. No process
        # writes the database now, so it can be read without side files.
        uri += "&immutable=1"
    connection = None
    try:
        connection = sqlite3.connect(uri, uri=True, timeout=2.0, isolation_level=None)
        connection.text_factory = lambda raw: raw.decode(errors="replace")  # damaged text, too
        if not check_header(connection, path):
            raise NoHistory(f"the history at {path} is empty")
    except (sqlite3.Error, HistoryError) as error:
        if connection is not None:
            connection.close()
        if isinstance(error, HistoryError):
            raise
        raise HistoryError(explain(path, error)) from error
    return connection


@contextlib.contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Write all changes of the block, or none."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def check_log(connection: sqlite3.Connection, path: pathlib.Path) -> None:
    """Empty SQLite's write-ahead log if the log is longer than `MOST_LOG_BYTES`.

    SQLite appends to the log while a reader's transaction is older than the log's content. Raises
    `HistoryError` if such a reader keeps the log from being emptied.
    """
    if _log_bytes(path) <= MOST_LOG_BYTES:
        return
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # waits for readers (busy timeout)
    size = _log_bytes(path)
    if size > MOST_LOG_BYTES:
        raise HistoryError(
            f"history {path}: its write-ahead log has {size >> 20} MiB and cannot be emptied: a "
            f"program has kept a transaction open; end it (fuser {path} names it)"
        )


def _log_bytes(path: pathlib.Path) -> int:
    found = status(_wal(path))
    return 0 if found is None else found.st_size


def identity(path: pathlib.Path) -> tuple[int, int] | None:
    """Return device and inode of the file at a path; None without a file."""
    found = status(path)
    return None if found is None else (found.st_dev, found.st_ino)


def set_aside(path: pathlib.Path, why: str = "corrupt") -> pathlib.Path:
    """Rename an unusable history and its side files; return the history's new path."""
    stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
    target = path.with_name(f"{path.name}.{why}-{stamp}")
    number = 1
    while exists(target):
        number += 1
        target = path.with_name(f"{path.name}.{why}-{stamp}-{number}")
    for suffix in ("-wal", "-shm"):
        side = path.with_name(path.name + suffix)
        if exists(side):
            side.rename(target.with_name(target.name + suffix))
    path.rename(target)
    return target


def _wal(path: pathlib.Path) -> pathlib.Path:
    return path.with_name(path.name + "-wal")
