# SPDX-License-Identifier: Apache-2.0
"""A socket in front of libvirtd's that holds up each of the client's messages: a busy host."""

from __future__ import annotations

import contextlib
import pathlib
import socket
import struct
import threading
from collections.abc import Callable

_CHUNK_BYTES = 1 << 16
_LENGTH = struct.Struct("!I")  # of a whole message, itself included (libvirt, virnetprotocol.x)


class SlowSocket:
    """Listens at `path`, passes each message on to `target` after `delay_s`, answers at once.

    `messages` counts what the clients sent, over all connections.
    """

    def __init__(self, path: pathlib.Path, target: pathlib.Path, delay_s: float) -> None:
        self.messages = 0
        self._target = target
        self._delay_s = delay_s
        self._stop = threading.Event()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        self._streams: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """End all connections."""
        self._stop.set()
        for stream in (self._listener, *self._streams):
            with contextlib.suppress(OSError):  # it has ended already
                stream.shutdown(socket.SHUT_RDWR)
            stream.close()

    def _accept(self) -> None:
        while not self._stop.is_set():
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX)
            server.connect(str(self._target))
            self._streams += [client, server]
            for work in (self._questions, self._answers):
                threading.Thread(target=_quietly, args=(work, client, server), daemon=True).start()

    def _questions(self, client: socket.socket, server: socket.socket) -> None:
        with client.makefile("rb") as stream:
            while len(head := stream.read(_LENGTH.size)) == _LENGTH.size:
                body = stream.read(_LENGTH.unpack(head)[0] - _LENGTH.size)
                self.messages += 1
                self._stop.wait(self._delay_s)
                server.sendall(head + body)

    def _answers(self, client: socket.socket, server: socket.socket) -> None:
        while chunk := server.recv(_CHUNK_BYTES):
            client.sendall(chunk)


def _quietly(work: Callable[..., None], *streams: socket.socket) -> None:
    with contextlib.suppress(OSError):  # the other side has gone
        work(*streams)
