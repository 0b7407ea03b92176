# SPDX-License-Identifier: Apache-2.0
"""The HTTP server of the metrics: asyncio in one thread, with a deadline for each connection.

A slow client holds no thread, and never keeps a scrape out: at the limit of connections the oldest,
which is the slowest, is closed. No text of a client reaches the log.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import gzip
import http
import logging
import re
import socket
import threading
import time
from collections.abc import Callable

from iat_nova.store.observed import Closed

LOG = logging.getLogger("iat_nova")

CONNECTIONS = 64  # open at a time
DEADLINE_S = 10.0  # from the connection to the last byte of its answer; Prometheus' default timeout
HEADER_BYTES = 16384  # the longest request
BACKLOG = 128  # Of more new connections than this, the kernel drops some; they return after 1 s.
QUIET_S = 60.0  # after this time without such an event, the next is logged again

Scrape = Callable[[str], tuple[str, bytes]]
"""A function that returns the metrics, with their content type, for a header ``Accept``."""

_REQUEST = re.compile(
    rb"([A-Z]+) [!-~]+ HTTP/1\.[01]((?:\r\n[!#$%&'*+.^_`|~\w-]+:[\t -~\x80-\xff]*)*)\r\n\r\n"
)
_OPENMETRICS = "application/openmetrics-text"
_WHY = {
    Closed.DEADLINE: "its answer was not sent in time",
    Closed.LIMIT: f"it was the oldest of more than {CONNECTIONS}",
    Closed.REFUSED: "its request was malformed or too large",
}


class Server:
    """Serves the metrics, at any path, on a socket that listens. The server closes the socket.

    `closed` counts connections that did not get the metrics, by `Closed`.
    """

    def __init__(
        self,
        scrape: Scrape,
        listening: socket.socket,
        closed: collections.Counter[Closed],
    ) -> None:
        self.socket = listening
        self._scrape = scrape
        self._closed = closed
        self._waiting: dict[asyncio.Task[None], str | None] = {}  # addresses; None: answered
        self._quiet_until_s: dict[str, float] = {}  # by the event's text
        self._loop = asyncio.new_event_loop()
        self._ends = asyncio.Event()

    def run(self) -> None:
        """Serve until `end`."""
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    def end(self, thread: threading.Thread) -> None:
        """End `run` in its thread, and close all connections."""
        self._loop.call_soon_threadsafe(self._ends.set)
        thread.join()

    async def _serve(self) -> None:
        # Without a free descriptor, asyncio reports the error here and accepts again after 1 s.
        self._loop.set_exception_handler(
            lambda _, found: self._log("metrics: %s", found["message"])
        )
        server = await asyncio.start_server(
            self._connected, sock=self.socket, limit=HEADER_BYTES, backlog=BACKLOG
        )
        await self._ends.wait()
        server.close()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request. The client closes first: so it gets the whole answer."""
        task = asyncio.current_task()
        assert task is not None
        self._waiting[task] = (writer.get_extra_info("peername") or ("an unknown address",))[0]
        writer.transport.set_write_buffer_limits(0)  # `drain` waits until all is sent
        if len(self._waiting) > CONNECTIONS:
            oldest = next(iter(self._waiting))
            self._note(oldest, Closed.LIMIT)
            del self._waiting[oldest]  # its end comes later than further connections
            oldest.cancel()
        try:
            async with asyncio.timeout(DEADLINE_S):
                writer.write(await self._answer(reader, task))
                await writer.drain()
                writer.write_eof()
                self._waiting[task] = None
                while await reader.read(HEADER_BYTES):
                    pass
        except TimeoutError:
            self._note(task, Closed.DEADLINE)
        except (OSError, EOFError, asyncio.CancelledError):
            pass  # the client is gone, or its connection was the oldest
        finally:
            self._waiting.pop(task, None)
            writer.transport.abort()

    async def _answer(self, reader: asyncio.StreamReader, task: asyncio.Task[None]) -> bytes:
        """Read a request; return the answer."""
        status = http.HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
        with contextlib.suppress(asyncio.LimitOverrunError):
            request = _REQUEST.fullmatch(await reader.readuntil(b"\r\n\r\n"))
            fields = request[2].decode("latin-1").split("\r\n") if request else []
            lines = (line.partition(":") for line in fields)
            headers = {name.lower(): value.strip() for name, _, value in lines}
            accept = headers.get("accept", "")
            if headers.get("content-length", "0") != "0" or "transfer-encoding" in headers:
                status = http.HTTPStatus.REQUEST_ENTITY_TOO_LARGE
            elif request is None:
                status = http.HTTPStatus.BAD_REQUEST
            elif request[1] != b"GET":
                status = http.HTTPStatus.METHOD_NOT_ALLOWED
            else:
                return self._served(accept, "gzip" in headers.get("accept-encoding", ""))
        self._note(task, Closed.REFUSED)
        return _http(status, b"")

    def _served(self, accept: str, zipped: bool) -> bytes:
        """Return the metrics."""
        # Of Accept only the form counts: prometheus_client raises errors for some versions.
        try:
            kind, body = self._scrape(_OPENMETRICS if _OPENMETRICS in accept else "text/plain")
        except Exception:  # noqa: BLE001 - logged; the agent goes on without metrics
            self._log("metrics: a scrape failed", exc_info=True)
            return _http(http.HTTPStatus.INTERNAL_SERVER_ERROR, b"")
        if zipped:
            kind, body = f"{kind}\r\nContent-Encoding: gzip", gzip.compress(body)
        return _http(http.HTTPStatus.OK, body, f"Content-Type: {kind}\r\n")

    def _note(self, task: asyncio.Task[None], why: Closed) -> None:
        """Count and log a connection, unless its answer was sent."""
        address = self._waiting[task]
        if address is not None:
            self._closed[why] += 1
            self._log(
                "metrics: closed the connection of %s: %s. Further ones are only counted "
                "(iat_nova_metrics_connections_closed_total) until there is none for a minute. "
                "Find the client, or let only Prometheus reach metrics_port",
                address,
                _WHY[why],
            )

    def _log(self, text: str, *values: str, exc_info: bool = False) -> None:
        """Log the first of many such events."""
        now_s = time.monotonic()
        if now_s >= self._quiet_until_s.get(text, now_s):
            LOG.warning(text, *values, exc_info=exc_info)
        self._quiet_until_s[text] = now_s + QUIET_S


def _http(status: http.HTTPStatus, body: bytes, fields: str = "") -> bytes:
    """Return an HTTP answer that announces the end of the connection."""
    fields = f"{fields}Content-Length: {len(body)}\r\nConnection: close\r\n"
    return f"HTTP/1.1 {status} {status.phrase}\r\n{fields}\r\n".encode("latin-1") + body


def listen(address: str, port: int) -> socket.socket:
    """Return a socket that listens. Raises `OSError`, `OverflowError`.

    The address ``::`` includes IPv4.
    """
    family, _, _, _, place = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)[0]
    return socket.create_server(
        place[:2], family=family, backlog=BACKLOG, dualstack_ipv6=family == socket.AF_INET6
    )
