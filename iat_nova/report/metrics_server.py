# SPDX-License-Identifier: Apache-2.0
"""The HTTP server of the metrics: waitress, with a deadline for each connection.

One thread of waitress reads all requests and sends all answers, so a slow client holds no thread.
Two limits of waitress would still let slow clients keep scrapes out. Its timeout starts again with
each byte, and at its connection limit it accepts no further connection. This module replaces both.
"""

from __future__ import annotations

import collections
import logging
import socket
import threading
from collections.abc import Callable, Iterable
from typing import Any

from waitress import wasyncore
from waitress.adjustments import Adjustments
from waitress.channel import HTTPChannel
from waitress.server import TcpWSGIServer

from iat_nova.store.observed import Closed

LOG = logging.getLogger("iat_nova")

CONNECTIONS = 64  # open at a time
DEADLINE_S = 10.0  # from the connection to the last byte of its answer; Prometheus' default timeout
THREADS = 2  # that write answers
HEADER_BYTES = 16384  # the longest request
BACKLOG = 128  # Of more new connections than this, the kernel drops some; they return after 1 s.
QUIET_S = 60.0  # after this time without a closed connection, the next is logged again

Application = Callable[[dict[str, Any], Any], Iterable[bytes]]


# waitress warns of each request that waits for a thread.
logging.getLogger("waitress.queue").setLevel(logging.ERROR)


class _Channel(HTTPChannel):  # type: ignore[misc]  # waitress has no types
    """A connection that closes after one request, so a connection's deadline limits a request."""

    def service(self) -> None:
        """Answer, and announce the end of the connection."""
        self.requests[0].headers["CONNECTION"] = "close"
        super().service()


class Server(TcpWSGIServer):  # type: ignore[misc]  # waitress has no types
    """Serves an application on a socket that listens. The server closes the socket.

    `closed` counts connections that were closed before their answer was sent, by `Closed`.
    """

    channel_class = _Channel

    def __init__(
        self,
        application: Application,
        listening: socket.socket,
        closed: collections.Counter[Closed],
    ) -> None:
        settings = Adjustments(
            sockets=[listening],
            threads=THREADS,
            cleanup_interval=1,
            connection_limit=2**31,  # handle_accept has the limit
            max_request_header_size=HEADER_BYTES,
            max_request_body_size=1,  # none
            asyncore_use_poll=True,
            log_socket_errors=False,
            ident="iat-nova",
        )
        place = (listening.family, listening.type, listening.proto, listening.getsockname())
        super().__init__(
            application, _sock=listening, adj=settings, sockinfo=place, bind_socket=False
        )
        self._closed = closed
        self._logged_until_s = 0.0
        self._ends = threading.Event()

    def handle_accept(self) -> None:
        """Accept a connection; if there are too many, close the oldest, which is the slowest."""
        super().handle_accept()
        channels = sorted(self.active_channels.values(), key=lambda one: one.creation_time)
        if len(channels) > CONNECTIONS:
            self._close(channels[0], Closed.LIMIT, channels[-1].creation_time)

    def maintenance(self, now: float) -> None:
        """Close connections past their deadline; called by waitress each second."""
        for channel in tuple(self.active_channels.values()):
            if now - channel.creation_time > DEADLINE_S:
                self._close(channel, Closed.DEADLINE, now)

    def _close(self, channel: _Channel, why: Closed, now: float) -> None:
        """Close a connection at once, count it, and log the first of many.

        waitress's own way, `will_close`, waits until the client takes another byte.
        """
        channel.handle_close()
        self._closed[why] += 1
        if now > self._logged_until_s:
            LOG.warning(
                "metrics: closed the connection of %s: %s. Further ones are only counted "
                "(iat_nova_metrics_connections_closed_total) until there is none for a minute. "
                "Find the client, or let only Prometheus reach metrics_port",
                channel.addr[0],
                f"its answer was not sent within {DEADLINE_S:.0f} s"
                if why is Closed.DEADLINE
                else f"it was the oldest of more than {CONNECTIONS}",
            )
        self._logged_until_s = now + QUIET_S

    def turn(self, wait_s: float = 1.0) -> None:
        """Accept, read, send and close due connections; wait at most `wait_s` for the first."""
        wasyncore.loop(timeout=wait_s, use_poll=True, map=self._map, count=1)

    def run(self) -> None:
        """Serve until `end`."""
        while not self._ends.is_set():
            self.turn()

    def end(self, thread: threading.Thread) -> None:
        """End `run` in its thread, and close all connections."""
        self._ends.set()
        self.pull_trigger()
        thread.join()
        self.task_dispatcher.shutdown()
        wasyncore.close_all(self._map)


def listen(address: str, port: int) -> socket.socket:
    """Return a socket that listens. Raises `OSError`, `OverflowError`.

    The address ``::`` includes IPv4.
    """
    family, _, _, _, place = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)[0]
    return socket.create_server(
        place[:2], family=family, backlog=BACKLOG, dualstack_ipv6=family == socket.AF_INET6
    )
