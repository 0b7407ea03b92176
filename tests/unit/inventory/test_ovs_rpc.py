# SPDX-License-Identifier: Apache-2.0
"""The bounded JSON-RPC client, against small servers that behave and misbehave."""

import contextlib
import json
import os
import socket
import tempfile
import threading
import time
import unittest
from unittest import mock

from iat_nova.inventory import ovs_rpc


class CallTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="rpc")
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "s")
        self.address = f"unix:{self.path}"
        self.requests = []

    def serve(self, *chunks, hold=False, drip=None, family=socket.AF_UNIX, where=None):
        """Accept one connection, read the request, send `chunks`; then hang up unless `hold`.

        `drip` is sent again and again, every hundredth of a second, for five seconds.
        """
        listener = socket.socket(family)
        listener.bind(where or self.path)
        listener.listen()
        self.addCleanup(listener.close)
        release = threading.Event()

        def run():
            stream, _ = listener.accept()
            with stream:
                self.requests.append(json.loads(stream.recv(65536)))
                for chunk in chunks:
                    stream.sendall(chunk)
                with contextlib.suppress(BrokenPipeError):  # the client has given up
                    for _ in range(500 if drip else 0):
                        release.wait(0.01)
                        stream.sendall(drip)
                if hold:
                    release.wait(10)

        thread = threading.Thread(target=run)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(release.set)
        return listener

    def call(self, timeout_s=5.0):
        return ovs_rpc.call(self.address, "get", ["a"], timeout_s)

    def failure(self, timeout_s=5.0):
        with self.assertRaises(ovs_rpc.OvsUnavailableError) as caught:
            self.call(timeout_s)
        return str(caught.exception)

    def test_answer(self):
        """The request is JSON-RPC 1.0 and its result comes back."""
        self.serve(b'{"id":1,"result":{"a":[1]},"error":null}')
        self.assertEqual({"a": [1]}, self.call())
        self.assertEqual([{"method": "get", "params": ["a"], "id": 1}], self.requests)

    def test_pieces_and_notifications(self):
        """An answer in pieces, behind a notification and another's answer, is found."""
        answer = json.dumps({"id": 1, "result": "}é{" * 40000, "error": None}, ensure_ascii=False)
        data = (
            b'{"id":null,"method":"update","params":[]} {"id":7,"result":0,"error":null}\n'
            + answer.encode()
        )
        self.serve(*(data[at : at + 4099] for at in range(0, len(data), 4099)))
        self.assertEqual("}é{" * 40000, self.call())

    def test_refused(self):
        """The daemon's own error text is kept."""
        self.serve(b'{"id":1,"result":null,"error":"no such command"}')
        self.assertEqual(f"{self.address}: get was refused: no such command", self.failure())

    def test_refused_at_length(self):
        """A text that repeats the whole request is cut: it goes into every status."""
        self.serve(b'{"id":1,"result":null,"error":"%s"}' % (b"x" * 100_000))
        self.assertRegex(self.failure(), r"get was refused: x{197}\.\.\.$")

    def test_hung_up(self):
        """A connection that ends half-way is an error at once."""
        self.serve(b'{"id":1,"result":{}')
        self.assertIn("the connection ended before get was answered", self.failure())

    def test_silence(self):
        """A daemon that never answers costs the time-out and no more."""
        self.serve(b'{"id":1,', hold=True)
        start = time.monotonic()
        self.assertIn("no answer to get within 0.2 s", self.failure(0.2))
        self.assertLess(time.monotonic() - start, 2)

    def test_drip(self):
        """A daemon that sends a little all the time costs no more: the bound is on the whole."""
        self.serve(b'{"id":1,"result":"', drip=b"x")
        start = time.monotonic()
        with self.assertRaises(ovs_rpc.OvsUnavailableError):
            self.call(0.2)
        self.assertLess(time.monotonic() - start, 2)

    def test_endless(self):
        """A daemon that sends without an end, as fast as it can, takes no more than the limit."""
        whole, most = b'{"id":1,"result":"%s","error":null}' % (b"x" * 1000), 1 << 20
        self.serve(whole)
        with mock.patch.object(ovs_rpc, "_MOST_BYTES", most):
            self.assertEqual("x" * 1000, self.call())
            os.unlink(self.path)
            self.serve(b'{"id":1,"result":"', drip=b"x" * most)
            self.assertIn("the answer to get is larger than 1 MiB", self.failure())

    def test_many_small_messages(self):
        """The time to split an answer rises with its size, not with the square of it."""

        def least_s(kib):
            buffer, took = b"{}" * (kib << 9), []
            for _ in range(3):
                begin = time.process_time()
                self.assertEqual(kib << 9, len(ovs_rpc._messages(buffer)[0]))
                took.append(time.process_time() - begin)
            return min(took)

        self.assertLess(least_s(512), 9 * least_s(128))

    def test_garbage(self):
        """What is not JSON-RPC, or not UTF-8, is an error, not an exception of the parser."""
        for chunk, text in ((b"[1]{}", "not JSON-RPC"), (b"\xff}", "not UTF-8")):
            with self.subTest(text):
                self.serve(chunk)
                self.assertIn(text, self.failure())
                os.unlink(self.path)  # the next one listens there

    def test_absent(self):
        """An absent socket is named."""
        self.assertEqual(f"{self.address}: No such file or directory", self.failure())

    def test_addresses(self):
        """An address that is none is refused with the form it should have."""
        ports = ("", ":65536", f":{10**30}", ":²")
        wrong = (f"tcp:localhost{port}" for port in ports)
        for address in ("", "ssl:1.2.3.4:6640", "tcp::80", "/run/db.sock", *wrong):
            with self.subTest(address), self.assertRaises(ovs_rpc.OvsUnavailableError) as caught:
                ovs_rpc.call(address, "get", [], 1)
            self.assertIn("not an address; write", str(caught.exception))

    def test_several_remotes(self):
        """The remotes are tried in turn, over TCP as well, and each failure is told."""
        listener = self.serve(
            b'{"id":1,"result":5,"error":null}', family=socket.AF_INET, where=("127.0.0.1", 0)
        )
        there = f"tcp:127.0.0.1:{listener.getsockname()[1]}"
        self.assertEqual(5, ovs_rpc.call(f"{self.address},{there}", "get", [], 5))
        self.address += f",{self.address}x"
        self.assertEqual(2, self.failure().count("No such file or directory"))
