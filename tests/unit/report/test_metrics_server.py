# SPDX-License-Identifier: Apache-2.0
"""The metrics' server gives up slow clients and answers the others: turn by turn, no clock."""

from __future__ import annotations

import collections
import contextlib
import logging
import socket
import threading
import time
import unittest
from unittest import mock

from iat_nova.store.observed import Closed

try:
    from iat_nova.report import metrics_server
except ImportError as error:
    raise unittest.SkipTest(f"{error}: pip install -e '.[metrics]'") from error

ANSWER = b"x" * 100
WAIT_S = 0.05  # for what comes from a socket or a thread


def answered(environ, start_response):
    """A WSGI application."""
    start_response("200 OK", [("Content-Length", str(len(ANSWER)))])
    return [ANSWER]


class ServerTest(unittest.TestCase):
    def setUp(self) -> None:
        self.closed = collections.Counter()
        listening = metrics_server.listen("127.0.0.1", 0)
        self.server = metrics_server.Server(answered, listening, self.closed)
        self.port = listening.getsockname()[1]
        ended = threading.Thread()
        ended.start()
        self.addCleanup(self.server.end, ended)

    def connect(self) -> socket.socket:
        client = self.enterContext(socket.create_connection(("127.0.0.1", self.port), 10))
        self.server.turn(WAIT_S)
        return client

    def late(self) -> float:
        """Return a moment at which every present connection is past its deadline."""
        return time.time() + metrics_server.DEADLINE_S + 1

    def ask(self, client: socket.socket) -> bytes:
        """Send a whole request; return the answer, up to the connection's end."""
        client.sendall(b"GET /metrics HTTP/1.1\r\nHost: c1\r\n\r\n")
        client.setblocking(False)
        answer = b""
        for _ in range(100):
            self.server.turn(WAIT_S)
            with contextlib.suppress(BlockingIOError):
                if not (part := client.recv(65536)):
                    return answer
                answer += part
        return self.fail("the connection did not end")

    def test_a_connection_is_for_one_request(self) -> None:
        """The answer announces the end, so nobody sends a second request into it."""
        head, _, body = self.ask(self.connect()).partition(b"\r\n\r\n")
        self.assertIn(b"Connection: close", head)
        self.assertEqual(ANSWER, body)
        self.assertEqual({}, self.closed)

    def test_bytes_do_not_prolong_the_deadline(self) -> None:
        """A client that has just sent a byte is given up as well; one within its time is not."""
        client = self.connect()
        client.sendall(b"G")
        self.server.turn(WAIT_S)
        self.server.maintenance(time.time())
        self.assertEqual({}, self.closed)
        with self.assertLogs("iat_nova", logging.WARNING) as logged:
            self.server.maintenance(self.late())
        self.server.turn(WAIT_S)
        self.assertEqual(b"", client.recv(1))
        self.assertEqual({Closed.DEADLINE: 1}, self.closed)
        self.assertRegex(logged.output[0], "closed the connection of 127.0.0.1: .*within 10 s")

    def test_a_client_that_does_not_read_its_answer(self) -> None:
        """The connection is closed although the client takes no further byte."""
        client = socket.socket()
        self.addCleanup(client.close)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        client.connect(("127.0.0.1", self.port))
        client.sendall(b"GET /metrics HTTP/1.1\r\nHost: c1\r\n\r\n")
        with mock.patch(f"{__name__}.ANSWER", b"x" * (8 << 20)):
            for _ in range(20):
                self.server.turn(WAIT_S)
        self.assertEqual(1, len(self.server.active_channels))
        with self.assertLogs("iat_nova", logging.WARNING):
            self.server.maintenance(self.late())
        self.assertEqual({}, self.server.active_channels)
        self.assertEqual({Closed.DEADLINE: 1}, self.closed)

    def test_many_are_logged_once(self) -> None:
        """The log has the first, the counter all of them; after a quiet minute it is news again."""
        now = time.time()
        with self.assertLogs("iat_nova", logging.WARNING) as logged:
            for turn in range(3):
                for _ in range(5):
                    self.connect()
                self.server.maintenance(now + 20 + 20 * turn)
                self.server.turn(WAIT_S)
            self.assertEqual(1, len(logged.output))
            self.connect()
            self.server.maintenance(now + 60 + metrics_server.QUIET_S + 1)
        self.assertEqual(2, len(logged.output))
        self.assertEqual({Closed.DEADLINE: 16}, self.closed)

    def test_the_oldest_goes_where_there_are_too_many(self) -> None:
        """A new connection is never refused: a scrape is new, slow clients are old."""
        with self.assertLogs("iat_nova", logging.WARNING) as logged:
            clients = [self.connect() for _ in range(metrics_server.CONNECTIONS + 3)]
            self.assertIn(ANSWER, self.ask(self.connect()))
        self.assertEqual({Closed.LIMIT: 4}, self.closed)
        self.assertEqual([b""] * 4, [one.recv(1) for one in clients[:4]])
        self.assertEqual(1, len(logged.output))

    def test_requests_are_bounded(self) -> None:
        """A body or a long header is refused at once; nothing of it is kept."""
        for request, status in (
            (b"POST / HTTP/1.1\r\nContent-Length: 9999999999\r\n\r\n", b"413"),
            (b"GET / HTTP/1.1\r\nX: " + b"x" * metrics_server.HEADER_BYTES, b"431"),
        ):
            client = self.connect()
            client.sendall(request)
            self.server.turn(WAIT_S)
            client.settimeout(10)
            for _ in range(20):
                self.server.turn(WAIT_S)
            self.assertIn(status, client.recv(100))
