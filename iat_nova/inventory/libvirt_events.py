# SPDX-License-Identifier: Apache-2.0
"""libvirt's event loop, of which a process has exactly one, on a daemon thread."""

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Callable

import libvirt

_log = logging.getLogger(__name__)
_JOIN_S = 5.0


def not_lost(callback: Callable[..., None]) -> Callable[..., None]:
    """Wrap a callback so that its errors are handled as errors of its thread.

    libvirt-python prints an error in a callback and continues, so the agent would not notice.
    """

    @functools.wraps(callback)
    def call(*arguments: object) -> None:
        try:
            callback(*arguments)
        except Exception as error:  # noqa: BLE001  # handed on, of any kind
            died = (type(error), error, error.__traceback__, threading.current_thread())
            threading.excepthook(threading.ExceptHookArgs(died))

    return call


class EventLoop:
    """Runs while it has users. libvirt's event implementation stays registered for good.

    The loop must be acquired before a connection with events is opened.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._registered = False
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def acquire(self) -> None:
        """Start the loop, or share the running loop."""
        with self._lock:
            self._users += 1
            if self._users > 1:
                return
            if not self._registered:
                libvirt.virEventRegisterDefaultImpl()
                # Every error is raised as an exception; libvirt would also print each error.
                libvirt.registerErrorHandler(lambda context, error: None, None)
                self._registered = True
            self._stop = threading.Event()
            self._thread = threading.Thread(
                target=self._run, args=(self._stop,), name="libvirt-events", daemon=True
            )
            self._thread.start()

    def release(self) -> None:
        """Leave the loop; the last user ends it."""
        with self._lock:
            self._users -= 1
            if self._users or self._thread is None:
                return
            thread, self._thread = self._thread, None
            self._stop.set()
            self.call_later(0.0, lambda: None)  # wakes the loop
        thread.join(_JOIN_S)
        if thread.is_alive():
            _log.warning("libvirt's event loop did not end within %.0f s", _JOIN_S)

    def call_later(self, delay_s: float, action: Callable[[], None]) -> None:
        """Run `action` once on the loop's thread."""

        @not_lost
        def fire(timer: int, _: object) -> None:
            libvirt.virEventRemoveTimeout(timer)
            action()

        libvirt.virEventAddTimeout(int(delay_s * 1000), fire, None)

    def _run(self, stop: threading.Event) -> None:
        while not stop.is_set():
            try:
                libvirt.virEventRunDefaultImpl()
            except libvirt.libvirtError as error:
                _log.error("libvirt's event loop stumbled: %s", error)
                stop.wait(1.0)


EVENT_LOOP = EventLoop()
"""The process's only loop."""
