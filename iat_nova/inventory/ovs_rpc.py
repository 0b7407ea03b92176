# SPDX-License-Identifier: Apache-2.0
"""One request to one of Open vSwitch's daemons, answered within a deadline.

ovsdb-server (RFC 7047) and the control sockets of all daemons (``ovs-appctl``) speak JSON-RPC 1.0
over a stream, one object after the other without any framing. The clients of the `ovs` package wait
without a limit and parse in Python; a control loop can afford neither.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Sequence
from typing import Any

from iat_nova.common.untrusted import bounded_int, shortened

_CHUNK_BYTES = 1 << 16
_MOST_BYTES = 16 << 20  # of an answer; the largest, the schema, has some 100 KiB
_MOST_PORT = 65535
_MOST_SHOWN = 200  # characters of a refusal: some repeat the whole request
_REQUEST_ID = 1
_DECODER = json.JSONDecoder()


class OvsUnavailableError(Exception):
    """A daemon was not reached, did not answer in time or refused; the text has the cause."""


def call(address: str, method: str, params: Sequence[Any], timeout_s: float) -> Any:
    """Return the result of one request.

    `address` is ``unix:PATH``, ``tcp:HOST:PORT`` (IPv6 hosts in brackets) or several addresses
    separated by commas, tried in turn. `timeout_s` bounds the whole exchange, for any behaviour of
    the server. Raises `OvsUnavailableError`.
    """
    deadline = time.monotonic() + timeout_s
    problems = []
    for remote in (part.strip() for part in address.split(",")):
        try:
            with _connect(remote, _left(deadline)) as stream:
                return _exchange(stream, method, params, deadline)
        except TimeoutError:
            problems.append(f"{remote}: no answer to {method} within {max(timeout_s, 0):.2g} s")
        except OSError as error:
            problems.append(f"{remote}: {error.strerror or error}")
        except (ValueError, RecursionError) as error:
            problems.append(f"{remote}: {error}")
    raise OvsUnavailableError("; ".join(problems))


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def _connect(remote: str, timeout_s: float) -> socket.socket:
    scheme, _, rest = remote.partition(":")
    if scheme == "tcp":
        host, _, port = rest.rpartition(":")
        number = bounded_int(port, _MOST_PORT)
        if not host or number is None:
            raise ValueError("not an address; write tcp:HOST:PORT")
        return socket.create_connection((host.strip("[]"), number), timeout_s)
    if scheme == "unix":
        stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            stream.settimeout(timeout_s)
            stream.connect(rest)
        except OSError:
            stream.close()
            raise
        return stream
    raise ValueError("not an address; write unix:PATH or tcp:HOST:PORT")


def _exchange(stream: socket.socket, method: str, params: Sequence[Any], deadline: float) -> Any:
    request = {"method": method, "params": list(params), "id": _REQUEST_ID}
    stream.settimeout(_left(deadline))
    stream.sendall(json.dumps(request).encode())
    buffer = b""
    while True:
        stream.settimeout(_left(deadline))
        chunk = stream.recv(_CHUNK_BYTES)
        if not chunk:
            raise ValueError(f"the connection ended before {method} was answered")
        buffer += chunk
        if len(buffer) > _MOST_BYTES:
            raise ValueError(f"the answer to {method} is larger than {_MOST_BYTES >> 20} MiB")
        if not chunk.rstrip().endswith(b"}"):
            continue  # an object is not complete yet: do not try to parse
        messages, buffer = _messages(buffer)
        for message in messages:
            if message.get("id") == _REQUEST_ID and "method" not in message:
                if message.get("error") is not None:
                    why = shortened(str(message["error"]), _MOST_SHOWN)
                    raise ValueError(f"{method} was refused: {why}".rstrip())
                return message.get("result")


def _messages(buffer: bytes) -> tuple[list[dict[str, Any]], bytes]:
    """Split off the complete objects at the front; return them and the remaining bytes."""
    try:
        text = buffer.decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"the answer is not UTF-8: {error}") from error
    messages: list[dict[str, Any]] = []
    at = _behind_space(text, 0)
    while at < len(text):
        try:
            message, end = _DECODER.raw_decode(text, at)
        except json.JSONDecodeError:
            break  # the rest has not arrived yet
        if not isinstance(message, dict):
            raise ValueError("the answer is not JSON-RPC")
        messages.append(message)
        at = _behind_space(text, end)
    return messages, text[at:].encode()


def _behind_space(text: str, at: int) -> int:
    """Return the place of the next character that is not white space.

    The text is not cut at each message: for many small ones the time would rise with the square.
    """
    while at < len(text) and text[at].isspace():
        at += 1
    return at
