# SPDX-License-Identifier: Apache-2.0
"""A server that floods the copy of a database: the connection ends, and memory stays bounded."""

import contextlib
import itertools
import json
import socket
import threading
import unittest
from unittest import mock

from ovs.db import idl as ovs_idl
from ovsdbapp.backend.ovs_idl import vlog

from iat_nova.inventory import ovs_bounds
from tests.unit.hardware import trees

NAME = "Open_vSwitch"
SCHEMA = {
    "name": NAME,
    "version": "1.0.0",
    "tables": {"Bridge": {"columns": {"name": {"type": "string"}}}},
}
MOST = 1 << 17
TRIES = 1000  # of the copy, each of which waits for the server


class Server:
    """Listens at `path`, answers the first requests, and then sends what `flood` yields."""

    def __init__(self, path, flood):
        self.sent = 0
        self._flood = flood
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def end(self):
        self._listener.close()
        self._thread.join()

    def _serve(self):
        stream, _ = self._listener.accept()
        with contextlib.suppress(OSError), stream:
            decoder, text = json.JSONDecoder(), ""
            while text is not None:
                text += stream.recv(4096).decode()
                with contextlib.suppress(ValueError):
                    while text:
                        request, end = decoder.raw_decode(text)
                        text = text[end:]
                        stream.sendall(self._answer(request))
                        if request["method"].startswith("monitor"):
                            text = None
            for chunk in self._flood:
                stream.sendall(chunk)
                self.sent += len(chunk)

    @staticmethod
    def _answer(request):
        database = {"method": "get_schema", "params": [NAME]}
        known = all(request[key] == value for key, value in database.items())
        if known or request["method"] == "monitor":
            answer = {"id": request["id"], "result": SCHEMA if known else {}, "error": None}
        else:
            answer = {"id": request["id"], "result": None, "error": "unknown"}
        return json.dumps(answer).encode()


class Bounds(unittest.TestCase):
    """Each limit; the limit of bytes is smaller here."""

    def setUp(self):
        vlog.use_python_logger(max_level=vlog.CRITICAL)
        self.enterContext(mock.patch.object(ovs_bounds, "MOST_BYTES", MOST))

    def flooded(self, flood):
        """Follow a server until it is disconnected; return the copy and what was sent."""
        path = trees.folder(self) / "db.sock"
        server = Server(path, flood)
        helper = ovs_idl.SchemaHelper(None, SCHEMA)
        helper.register_columns("Bridge", ["name"])
        copy = ovs_idl.Idl(f"unix:{path}", helper, leader_only=False)
        ovs_bounds.bound(copy)
        with self.assertLogs("iat_nova.inventory.ovs_bounds", "WARNING") as told:
            for _ in range(TRIES):
                copy.run()
                if copy.has_ever_connected() and not copy._session.is_connected():
                    break
                poller = ovs_idl.ovs.poller.Poller()
                copy.wait(poller)
                poller.timer_wait(100)
                poller.block()
        self.assertFalse(copy._session.is_connected())
        copy.close()
        server.end()
        self.said = told.output[0]
        return copy, server.sent

    def test_a_message_without_end(self):
        """It is read up to the limit."""
        _, sent = self.flooded(itertools.chain([b'{"id":1,"x":"'], itertools.repeat(b"x" * 4096)))
        self.assertIn(f"more than {MOST} bytes", self.said)
        self.assertLess(sent, 3 * MOST)

    def test_rows_without_end(self):
        """The copy has a maximum number of rows."""

        def updates():
            for number in itertools.count():
                row = {f"00000000-0000-0000-0000-{number:012x}": {"new": {"name": f"{number}"}}}
                update = {"method": "update", "params": [None, {"Bridge": row}], "id": None}
                yield json.dumps(update).encode()

        with mock.patch.object(ovs_bounds, "MOST_ROWS", 50):
            copy, _ = self.flooded(updates())
        self.assertIn("50 rows", self.said)
        self.assertLess(len(copy.tables["Bridge"].rows), 250)

    def test_answers_that_the_server_does_not_take(self):
        """Its own requests, and answers to these, do not pile up."""
        echo = {"method": "echo", "params": ["x" * 4000], "id": 1}
        self.flooded(itertools.repeat(json.dumps(echo).encode()))
        self.assertIn(f"more than {MOST} bytes", self.said)
