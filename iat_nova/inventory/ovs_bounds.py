# SPDX-License-Identifier: Apache-2.0
"""Limits for a copy of an OVSDB database, which the `ovs` package keeps without any limit.

On many hosts ovsdb-server listens on a TCP port of the loopback device. While it does not run, any
account of the host may listen there instead.
"""

from __future__ import annotations

import errno
import logging
from typing import Any

LOG = logging.getLogger(__name__)
MOST_BYTES = 16 << 20
"""Maximum bytes of a message, and of answers that the server has not taken yet."""

MOST_ROWS = 100_000
"""Maximum rows in all followed tables; a host with a thousand ports has some 3,000."""


def bound(idl: Any) -> None:
    """Have an `ovs.db.idl.Idl` end each connection that exceeds a limit."""
    session = idl._session  # ovs has no public way to the connection
    receive = session.recv

    def recv() -> Any:
        rpc = session.rpc
        if rpc is not None and not isinstance(rpc.stream, _Bounded):
            rpc.stream = _Bounded(rpc, idl)
        return receive()

    session.recv = recv


class _Bounded:
    """The stream of an `ovs.jsonrpc.Connection`."""

    def __init__(self, rpc: Any, idl: Any) -> None:
        self._rpc = rpc
        self._idl = idl
        self._stream = rpc.stream
        self._left = MOST_BYTES

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def recv(self, most: int) -> tuple[int, bytes | None]:
        """Return (errno, bytes) as `ovs.stream.Stream.recv` does; EMSGSIZE beyond a limit."""
        if self._rpc.parser is None:  # between two messages
            self._left = MOST_BYTES
        if self._left <= 0 or self._rpc.get_backlog() > MOST_BYTES:
            return self._refuse(f"more than {MOST_BYTES} bytes")
        if self._rows() > MOST_ROWS:
            return self._refuse(f"more than {MOST_ROWS} rows")
        error, data = self._stream.recv(most)
        self._left -= len(data or b"")
        return error, data

    def _rows(self) -> int:
        own = getattr(self._idl, "server_tables", None) or {}  # of the server's databases
        return sum(len(one.rows) for tables in (self._idl.tables, own) for one in tables.values())

    def _refuse(self, what: str) -> tuple[int, None]:
        LOG.warning("OVSDB at %s sends %s: the connection is closed", self._rpc.name, what)
        return errno.EMSGSIZE, None
