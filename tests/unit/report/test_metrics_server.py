# SPDX-License-Identifier: Apache-2.0
"""The metrics' server gives up slow clients, refuses strange requests and answers the others."""

from __future__ import annotations

import collections
import errno
import logging
import os
import resource
import socket
import threading
import unittest
from unittest import mock

from iat_nova.report import metrics_server
from iat_nova.store.observed import Closed

ANSWER = b"x" * 100
REQUEST = b"GET /metrics HTTP/1.1\r\nHost: c1\r\n\r\n"
SOON_S = 0.2


def scrape(accept):
    """Return an answer; with OpenMetrics a bug is met."""
    if accept != "text/plain":
        raise ZeroDivisionError
    return accept, ANSWER


class ServerTest(unittest.TestCase):
    def setUp(self) -> None:
        self.closed = collections.Counter()
        listening = metrics_server.listen("127.0.0.1", 0)
        self.server = metrics_server.Server(scrape, listening, self.closed)
        self.port = listening.getsockname()[1]
        self.log = self.enterContext(self.assertLogs("iat_nova", logging.DEBUG))
        logging.getLogger("iat_nova").debug("begun")
        thread = threading.Thread(target=self.server.run)
        thread.start()
        self.addCleanup(self.server.end, thread)

    def soon(self) -> None:
        """Make the deadline of later connections short."""
        self.enterContext(mock.patch.object(metrics_server, "DEADLINE_S", SOON_S))

    def connect(self) -> socket.socket:
        return self.enterContext(socket.create_connection(("127.0.0.1", self.port), 10))

    def ask(self, request: bytes = REQUEST) -> bytes:
        """Send a request; return the answer, up to the connection's end."""
        client = self.connect()
        client.sendall(request)
        return self.rest(client)

    def rest(self, client: socket.socket) -> bytes:
        return b"".join(iter(lambda: client.recv(65536), b""))

    def logged(self) -> list[str]:
        return self.log.output[1:]

    def test_a_connection_is_for_one_request(self) -> None:
        """The answer announces the end; a client that ends before its answer is not logged."""
        with socket.create_connection(("127.0.0.1", self.port), 10) as client:
            client.sendall(REQUEST)
        self.ask()
        head, _, body = self.ask().partition(b"\r\n\r\n")
        self.assertIn(b"Connection: close", head)
        self.assertEqual(ANSWER, body)
        self.assertEqual(({}, []), (self.closed, self.logged()))

    def test_bytes_do_not_prolong_the_deadline(self) -> None:
        """A client that sends a byte at a time is given up as well."""
        self.soon()
        client = self.connect()
        client.settimeout(SOON_S / 8)
        for _ in range(100):
            try:
                client.send(b"G")
                self.assertEqual(b"", client.recv(1))
                break
            except TimeoutError:
                pass
            except ConnectionError:
                break
        else:
            self.fail("the connection did not end")
        self.assertEqual({Closed.DEADLINE: 1}, self.closed)
        self.assertRegex(self.logged()[0], "closed the connection of 127.0.0.1: .*in time")

    def test_a_client_that_does_not_read_its_answer(self) -> None:
        """The connection is closed although the client takes no further byte."""
        self.soon()
        client = self.connect()
        with mock.patch(f"{__name__}.ANSWER", b"x" * (32 << 20)):
            client.sendall(REQUEST)
            self.assertIn(b"200 OK", client.recv(100))
        self.connect().recv(1)  # a later connection is at its deadline, too
        self.assertEqual({Closed.DEADLINE: 2}, self.closed)
        self.assertLess(len(self.rest(client)), 32 << 20)

    def test_many_are_logged_once(self) -> None:
        """The log has the first, the counter all; after a quiet minute, the next is news."""
        for _ in range(5):
            self.ask(b"x\r\n\r\n")
        self.assertEqual(1, len(self.logged()))
        self.ask(b"GET / HTTP/1.1\r\naccept: application/openmetrics-text\r\n\r\n")
        self.assertIn("a scrape failed", self.log.output.pop())
        later = metrics_server.time.monotonic() + metrics_server.QUIET_S
        with mock.patch.object(metrics_server.time, "monotonic", lambda: later):
            self.ask(b"x\r\n\r\n")
        self.assertEqual(2, len(self.logged()))
        self.assertEqual({Closed.REFUSED: 6}, self.closed)

    def test_the_oldest_goes_where_there_are_too_many(self) -> None:
        """A new connection is never refused: a scrape is new, slow clients are old."""
        clients = [self.connect() for _ in range(metrics_server.CONNECTIONS + 3)]
        self.assertIn(ANSWER, self.ask())
        self.assertEqual([b""] * 4, [one.recv(1) for one in clients[:4]])
        self.assertEqual({Closed.LIMIT: 4}, self.closed)
        self.assertEqual(1, len(self.logged()))

    def test_requests_are_bounded(self) -> None:
        """A body, a long or a malformed header is refused; nothing of it reaches the log."""
        for request, status in (
            (b"POST / HTTP/1.1\r\nContent-Length: 9999999999\r\n\r\n", b"413"),
            (b"GET / HTTP/1.1\r\nX: " + b"x" * 2 * metrics_server.HEADER_BYTES, b"431"),
            (b"GET / HTTP/1.1\r\nX: forged\x1b[2J\r\n\r\n", b"400"),
            (b"GET / HTTP/1.1\r\nX: forged\nX: y\r\n\r\n", b"400"),
            (b"GET /\xff HTTP/1.1\r\n\r\n", b"400"),
            (b'GET /forged%0a HTTP/1.1\r\nAccept: text/plain;version="1"\r\n\r\n', b"200"),
            (b"PUT / HTTP/1.1\r\n\r\n", b"405"),
            (b"GET / HTTP/1.1\r\naccept: application/openmetrics-text\r\n\r\n", b"500"),
        ):
            with self.subTest(request[:60]):
                self.server._quiet_until_s.clear()
                self.assertIn(status, self.ask(request)[:20])
        self.assertEqual({Closed.REFUSED: 6}, self.closed)
        self.assertEqual(7, len(self.logged()))
        self.assertNotIn("forged", str(self.logged()))

    def test_no_descriptor_is_left(self) -> None:
        """The server waits, and serves again afterwards; the log has one line."""
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        client = socket.socket()
        self.addCleanup(client.close)
        lowest = os.dup(0)
        os.close(lowest)
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, limits[1]))
        try:
            with self.assertRaises(OSError) as none:
                os.dup(0)
            self.assertEqual(errno.EMFILE, none.exception.errno)
            client.connect(("127.0.0.1", self.port))
            client.sendall(REQUEST)
            client.settimeout(SOON_S)
            self.assertRaises(TimeoutError, client.recv, 1)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        client.settimeout(10)
        self.assertIn(ANSWER, self.rest(client))
        self.assertRegex("".join(self.logged()), "^[^\n]*out of system resource$")
