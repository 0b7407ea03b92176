# SPDX-License-Identifier: Apache-2.0
"""Shutdown triggers outside the main loop: signals and dead threads.

Both may come at any time, also before the agent exists, and in any thread.
"""

from __future__ import annotations

import contextlib
import logging
import signal
import threading
from collections.abc import Callable, Iterator

from iat_nova.agent.loop import Agent
from iat_nova.model.message import message

LOG = logging.getLogger("iat_nova")

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Endings:
    """Forward signals and thread failures to the agent; queue requests until the agent exists.

    `leave` ends the process at once and does not return. `leave` is called only while there is
    nothing to restore.
    """

    def __init__(self, leave: Callable[[], None]) -> None:
        self._leave = leave
        self._lock = threading.Lock()
        self._agent: Agent | None = None
        self._waiting: list[Callable[[Agent], None]] = []
        self._asked: signal.Signals | None = None  # to end
        self._may_leave = False

    def attach(self, agent: Agent) -> None:
        """Forward all queued requests, and later requests, to the agent."""
        with self._lock:
            self._agent = agent
            for action in self._waiting:
                action(agent)

    @contextlib.contextmanager
    def at_once(self) -> Iterator[None]:
        """Let SIGTERM or SIGINT end the process at once, within this context."""
        self._allow(True)
        try:
            yield
        finally:
            self._allow(False)

    def obey(self, number: int) -> None:
        """Handle a signal: SIGHUP reads the policy again, SIGTERM and SIGINT end the agent."""
        if number == signal.SIGHUP:
            self._do(lambda agent: agent.reload_policy())
            return
        with self._lock:
            self._asked = signal.Signals(number)
            self._leave_if_asked()
        self._do(lambda agent: agent.stop())

    def died(self, died: threading.ExceptHookArgs) -> None:
        """Restore the host and end the agent after an unexpected error has ended a thread.

        A function for `threading.excepthook`.
        """
        name = died.thread.name if died.thread else "unknown"
        LOG.error("thread %s", name, exc_info=died.exc_value)
        said = message("thread-died", thread=name, error=repr(died.exc_value))
        self._do(lambda agent: agent.fail(said))

    def _do(self, action: Callable[[Agent], None]) -> None:
        with self._lock:
            if self._agent is None:
                self._waiting.append(action)
            else:
                action(self._agent)

    def _allow(self, allowed: bool) -> None:
        with self._lock:
            self._may_leave = allowed
            self._leave_if_asked()

    def _leave_if_asked(self) -> None:
        if self._may_leave and self._asked is not None:
            LOG.info("ended by %s before it had started", self._asked.name)
            self._leave()


@contextlib.contextmanager
def blocked() -> Iterator[None]:
    """Block `SIGNALS` in this thread and in threads started from here; `watch` waits for them."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def watch(endings: Endings) -> None:
    """Forward signals and dead threads from now on; the signals must be `blocked`.

    A separate thread waits for signals. A handler would run in the loop's thread, which may hold
    locks: setting events there is unsafe. While kernels compile, a handler would not run at all.
    """

    def wait() -> None:
        while True:
            endings.obey(signal.sigwait(SIGNALS))

    threading.excepthook = endings.died
    threading.Thread(target=wait, name="signals", daemon=True).start()
