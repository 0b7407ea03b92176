# SPDX-License-Identifier: Apache-2.0
"""An in-memory copy of a few columns of an OVSDB database, kept up to date.

ovsdbapp's `Connection` thread follows the server. A second thread opens this connection as soon as
there is a server. After the loss of the server the thread fetches the schema again and opens a new
connection. A server may therefore be absent, restart, or come back upgraded without any action of
the caller, and the caller's thread never waits for the server.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ovs.db import error as ovs_error
from ovs.db import idl as ovs_idl
from ovs.db import schema as ovs_schema
from ovsdbapp import exceptions
from ovsdbapp.backend.ovs_idl import connection as ovs_connection
from ovsdbapp.backend.ovs_idl import vlog

from iat_nova.common.untrusted import shortened
from iat_nova.inventory import ovs_bounds, ovs_rpc
from iat_nova.model import Message, message

LOG = logging.getLogger(__name__)
Rows = Mapping[str, Sequence[Any]]
"""The rows of each followed table."""


class _Replica(ovs_connection.OvsdbIdl):  # type: ignore[misc]  # ovsdbapp has no types
    """The tables. Calls `hint` for each change, in ovsdbapp's thread: `hint` must only enqueue.

    Only relevant columns are followed, so each change matters. The interfaces' statistics, which
    ovs-vswitchd writes every five seconds, are not even sent.
    """

    hint: Callable[[], None]

    @property
    def following(self) -> bool:
        """Whether the copy follows a live server (ovs has no public way to ask)."""
        return bool(self._session.is_connected() and self.state == self.IDL_S_MONITORING)

    def notify(self, event: str, row: object, updates: object = None) -> None:
        """Forward a change of one row (the hook of `ovs.db.idl.Idl`)."""
        self.hint()


class Follower:
    """Follows `columns` (by table) of database `name` at `address`.

    `timeout_s` bounds each exchange with the server. `retry_s` is the interval between checks of
    the connection, hence the longest wait for a new server.
    """

    def __init__(
        self,
        address: str,
        name: str,
        columns: Mapping[str, Sequence[str]],
        timeout_s: float,
        retry_s: float,
    ) -> None:
        self._address = address
        self._name = name
        self._columns = columns
        self._timeout_s = timeout_s
        self._retry_s = retry_s
        self._hint: Callable[[], None] = lambda: None
        self._connection: Any = None  # ovsdbapp's Connection; assigned at once, read without a lock
        self._trouble: Message | None = message("ovsdb-not-connected", address=address)
        self._reported = False
        self._closing = threading.Event()
        self._tried = threading.Event()
        self._thread = threading.Thread(target=self._look_after, name="ovsdb", daemon=True)

    def start(self, on_hint: Callable[[], None]) -> None:
        """Start to follow the database. Another thread calls `on_hint` after each change.

        Returns at the end of the first attempt, successful or not, at the latest after `timeout_s`:
        if the server is there, the agent starts with a complete inventory.
        """
        # Only warnings of ovs's own log, which by default would go to stderr and syslog.
        vlog.use_python_logger(max_level=vlog.WARN)
        self._hint = on_hint
        self._thread.start()
        self._tried.wait(self._timeout_s)

    def close(self) -> None:
        """End all threads and close the connection."""
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join()
        self._drop()

    @property
    def trouble(self) -> Message | None:
        """The problem that keeps the copy from being up to date, or None."""
        connection = self._connection
        if connection is not None and not connection.idl.following:
            return message("ovsdb-lost", address=self._address)
        if self._tried.is_set() and not (self._thread.is_alive() or self._closing.is_set()):
            return message("ovsdb-not-followed", address=self._address)
        return self._trouble

    @contextlib.contextmanager
    def rows(self, timeout_s: float) -> Iterator[Rows | None]:
        """Yield the rows of the database's copy, which is locked meanwhile.

        None: there is no copy yet, or the lock was not free within `timeout_s`.
        """
        connection = self._connection
        if connection is None or not connection.lock.acquire(timeout=timeout_s):
            yield None
            return
        try:
            tables = connection.idl.tables
            yield {name: tuple(table.rows.values()) for name, table in tables.items()}
        finally:
            connection.lock.release()

    def _look_after(self) -> None:
        while not self._closing.is_set():
            connection = self._connection
            if connection is None or not connection.idl.following:
                self._reopen()
                self._tried.set()
            self._closing.wait(self._retry_s)

    def _reopen(self) -> None:
        if self._connection is not None:
            self._trouble = message("ovsdb-lost", address=self._address)
        self._drop()
        try:
            connection = self._open()
        except ovs_rpc.OvsUnavailableError as error:
            self._failed(message("ovsdb-unavailable", error=str(error)), str(error))
            return
        except Exception as error:  # the boundary of this thread, e.g. for an unexpected schema
            LOG.debug("OVSDB at %s", self._address, exc_info=True)
            text = f"{self._address}: {type(error).__name__}: {shortened(str(error), 200)}"
            self._failed(message("ovsdb-unavailable", error=text), text)
            return
        self._trouble = None
        self._reported = False
        self._connection = connection
        LOG.info("OVSDB at %s: connected", self._address)
        self._hint()

    def _failed(self, trouble: Message, logged: str) -> None:
        before, self._trouble = self._trouble, trouble
        if not self._reported:  # one line per outage
            LOG.warning("OVSDB at %s; trying again every %g s", logged, self._retry_s)
            self._reported = True
        if trouble != before:
            self._hint()  # known facts have become stale, or are missing for another reason

    def _open(self) -> Any:
        schema = ovs_rpc.call(self._address, "get_schema", [self._name], self._timeout_s)
        try:
            tables = ovs_schema.DbSchema.from_json(schema).tables
            helper = ovs_idl.SchemaHelper(None, schema)
            for table, columns in self._columns.items():
                there = tables[table].columns if table in tables else {}
                if absent := [f"{table}.{column}" for column in columns if column not in there]:
                    names = ", ".join(absent)
                    raise ovs_error.Error(
                        f"its schema has no {names}; Open vSwitch 2.10 or later is needed"
                    )
                helper.register_columns(table, list(columns))
            # A host's own database is not a cluster: require no leader.
            replica = _Replica(self._address, helper, leader_only=False)
        except ovs_error.Error as error:
            raise ovs_rpc.OvsUnavailableError(f"{self._address}: {error}") from error
        ovs_bounds.bound(replica)
        replica.hint = self._hint
        connection = ovs_connection.Connection(replica, timeout=self._timeout_s)
        try:
            connection.start()
        except exceptions.TimeoutException as error:
            replica.close()
            raise ovs_rpc.OvsUnavailableError(
                f"{self._address}: the tables did not arrive within {self._timeout_s:g} s"
            ) from error
        return connection

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None and not connection.stop(self._timeout_s):
            LOG.error("OVSDB at %s: the connection's thread does not end", self._address)
