# SPDX-License-Identifier: Apache-2.0
"""A read-only connection to libvirt with automatic reconnect; all events become one hint."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

import libvirt

from iat_nova.inventory import libvirt_host
from iat_nova.inventory.libvirt_events import EVENT_LOOP, EventLoop, not_lost
from iat_nova.inventory.libvirt_host import ThisHost
from iat_nova.model import Message, message, verbatim

_log = logging.getLogger(__name__)

_EVENTS = (
    libvirt.VIR_DOMAIN_EVENT_ID_LIFECYCLE,
    libvirt.VIR_DOMAIN_EVENT_ID_REBOOT,
    libvirt.VIR_DOMAIN_EVENT_ID_DEVICE_ADDED,
    libvirt.VIR_DOMAIN_EVENT_ID_DEVICE_REMOVED,
    libvirt.VIR_DOMAIN_EVENT_ID_TUNABLE,
    libvirt.VIR_DOMAIN_EVENT_ID_METADATA_CHANGE,
    libvirt.VIR_DOMAIN_EVENT_ID_JOB_COMPLETED,
)
_REASONS = ("failed", "closed by libvirtd", "no answer to keep-alives")  # by libvirt's number


class OtherHostError(Exception):
    """The connection leads to another host."""


class LibvirtLink:
    """Opens, watches and reopens one connection.

    libvirt's event thread opens and closes the connection, so that a libvirtd that does not respond
    never delays the loop. Other threads read `connection` and use it. `backoff_s`: the first and
    the longest wait between two attempts. The longest wait is the delay until libvirt's return is
    noticed. `keepalive`: libvirt's pair of interval in seconds and number of missed answers before
    the connection is given up. A connection to another host than `here` is refused.
    """

    def __init__(
        self,
        uri: str,
        *,
        backoff_s: tuple[float, float] = (0.5, 4.0),
        keepalive: tuple[int, int] = (5, 3),
        loop: EventLoop = EVENT_LOOP,
        here: Callable[[], ThisHost] = libvirt_host.this_host,
    ) -> None:
        self.uri = uri
        self.connection: Any | None = None  # libvirt.virConnect, which has no types
        self.problem: Message | None = message("libvirt-not-connected")
        self._backoff_s = backoff_s
        self._wait_s = backoff_s[0]
        self._keepalive = keepalive
        self._loop = loop
        self._here = here
        self._on_hint: Callable[[], None] = lambda: None
        self._on_domain: Callable[[str], None] = lambda uuid: None
        self._tried = threading.Event()
        self._closing = False
        self._open: tuple[Any, list[int]] | None = None  # to be closed

    def start(
        self,
        on_hint: Callable[[], None],
        on_domain: Callable[[str], None] = lambda uuid: None,
        wait_s: float = 5.0,
    ) -> None:
        """Begin to connect, and wait for the end of the first attempt.

        Other threads call `on_hint` when the inventory should be read again. Before, `on_domain`
        is called with the UUID of each domain that has an event.
        """
        self._on_hint = on_hint
        self._on_domain = on_domain
        self._loop.acquire()
        self._loop.call_later(0.0, self._attempt)
        self._tried.wait(wait_s)

    def close(self, wait_s: float = 5.0) -> None:
        """Close the connection and release the event thread."""
        done = threading.Event()

        def finish() -> None:
            self._closing = True
            self._give_back()
            done.set()

        self._loop.call_later(0.0, finish)
        if not done.wait(wait_s):
            _log.warning("libvirt at %s is not responding; its connection is abandoned", self.uri)
        self._loop.release()

    def _attempt(self) -> None:
        if self._closing:
            return
        self._give_back()
        try:
            self.connection = self._connect()
        except (libvirt.libvirtError, OtherHostError) as error:
            self._give_back()  # otherwise its end would count as a further failure
            self._fail(verbatim(str(error)), str(error))
        else:
            self.problem = None
            self._wait_s = self._backoff_s[0]
            _log.info("connected to libvirt at %s", self.uri)
        self._tried.set()
        self._on_hint()

    def _connect(self) -> Any:
        connection = libvirt.openReadOnly(self.uri)
        callbacks: list[int] = []
        self._open = (connection, callbacks)
        reason = libvirt_host.elsewhere(connection, self.uri, self._here())
        if reason is not None:
            raise OtherHostError(reason)
        try:
            connection.setKeepAlive(*self._keepalive)
            connection.registerCloseCallback(self._closed, None)
        except libvirt.libvirtError as error:
            if error.get_error_code() != libvirt.VIR_ERR_NO_SUPPORT:  # a driver in this process
                raise
        for event in _EVENTS:
            callbacks.append(connection.domainEventRegisterAny(None, event, self._event, None))
        return connection

    @not_lost
    def _event(self, _connection: object, domain: Any, *_: object) -> None:
        self._on_domain(domain.UUIDString())
        self._on_hint()

    @not_lost
    def _closed(self, connection: object, reason: int, _: object) -> None:
        """Note that libvirt closed the connection; no call on the connection is allowed here."""
        if self._closing or self._open is None or connection is not self._open[0]:
            return
        cause = _REASONS[reason] if reason < len(_REASONS) else str(reason)
        self._fail(message("libvirt-closed", cause=cause), f"the connection ended: {cause}")
        self._on_hint()

    def _fail(self, why: Message, logged: str) -> None:
        if why != self.problem:  # one line per outage, not per attempt
            _log.warning("libvirt at %s: %s; trying again", self.uri, logged)
        self.connection = None
        self.problem = why
        self._loop.call_later(self._wait_s, self._attempt)
        self._wait_s = min(2 * self._wait_s, self._backoff_s[1])

    def _give_back(self) -> None:
        """Undo all registrations: libvirt keeps a connection until the last registration ends."""
        if self._open is None:
            return
        connection, callbacks = self._open
        self._open = self.connection = None
        for callback in callbacks:
            _quietly(connection.domainEventDeregisterAny, callback)
        _quietly(connection.unregisterCloseCallback)
        _quietly(connection.close)


def _quietly(undo: Callable[..., object], *arguments: object) -> None:
    try:
        undo(*arguments)
    except libvirt.libvirtError as error:
        _log.debug("giving a libvirt connection back: %s", error)
