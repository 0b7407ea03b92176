# SPDX-License-Identifier: Apache-2.0
"""Notify systemd that the agent is alive (sd_notify(3)); silent without a notification socket.

Without a notification within the unit's WatchdogSec=, systemd ends the agent and runs
``iat-nova restore``.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping

from iat_nova.common.untrusted import shortened

_MOST_TEXT = 600  # characters of up to 6 bytes: systemd ignores messages above 4096 bytes


class Watchdog:
    """Send one datagram per message to the socket that systemd names in the environment."""

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        environment = os.environ if environment is None else environment
        self._address = environment.get("NOTIFY_SOCKET", "")
        if self._address.startswith("@"):
            self._address = "\0" + self._address[1:]  # Linux's abstract namespace
        self._socket: socket.socket | None = None
        self.interval_s = self._timeout_s = _interval_s(environment)

    def ready(self, status: str = "") -> None:
        """Report that the agent has started."""
        self._send("READY=1\n" + _status(status))

    def alive(self) -> None:
        """Report a finished iteration; call at least twice every `interval_s`."""
        self._send("WATCHDOG=1")

    def expect_every(self, seconds: float) -> None:
        """Extend systemd's timeout for a long interval of the loop; later, end the extension.

        Source: sd_notify(3), WATCHDOG_USEC.
        """
        if self.interval_s is None:
            return
        wanted_s = max(self.interval_s, 3 * seconds)
        if wanted_s != self._timeout_s and self._send(f"WATCHDOG_USEC={int(1e6 * wanted_s)}"):
            self._timeout_s = wanted_s

    def status(self, text: str) -> None:
        """Set the status line of ``systemctl status``."""
        self._send(_status(text))

    def stopping(self) -> None:
        """Report that the shutdown has begun."""
        self._send("STOPPING=1")

    def close(self) -> None:
        """Close the socket."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _send(self, message: str) -> bool:
        """Send a message; return whether systemd will read it."""
        if not self._address:
            return False
        try:
            if self._socket is None:
                kind = socket.SOCK_DGRAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK
                self._socket = socket.socket(socket.AF_UNIX, kind)
            self._socket.sendto(message.encode("utf-8", "backslashreplace"), self._address)
        except OSError:
            # The queue is full, systemd restarts, or no file can be opened: the next message has
            # the same content.
            return False
        return True


def _status(text: str) -> str:
    return "STATUS=" + shortened(text.replace("\n", " "), _MOST_TEXT)


def _interval_s(environment: Mapping[str, str]) -> float | None:
    """Return the unit's watchdog timeout in seconds, None without a timeout for this process."""
    owner = environment.get("WATCHDOG_PID")
    if owner is not None and owner != str(os.getpid()):
        return None
    text = environment.get("WATCHDOG_USEC", "")
    return int(text) / 1e6 if text.isascii() and text.isdecimal() else None
