# SPDX-License-Identifier: Apache-2.0
"""What ends the agent from outside its loop: signals, and threads that die.

Both may come at any time, also before there is an agent, and in any thread.
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
    """Hands to the agent what others ask of it; what comes too early waits for it.

    `leave` ends the process where it stands: it is called where nothing has been written that
    would have to be restored. It does not return.
    """

    def __init__(self, leave: Callable[[], None]) -> None:
        self._leave = leave
        self._lock = threading.Lock()
        self._agent: Agent | None = None
        self._waiting: list[Callable[[Agent], None]] = []
        self._asked: signal.Signals | None = None  # to end
        self._may_leave = False

    def attach(self, agent: Agent) -> None:
        """Have the agent do what waits for it, and from now on what is asked."""
        with self._lock:
            self._agent = agent
            for action in self._waiting:
                action(agent)

    @contextlib.contextmanager
    def at_once(self) -> Iterator[None]:
        """Let a signal end the process where it stands, for as long as this lasts."""
        self._allow(True)
        try:
            yield
        finally:
            self._allow(False)

    def obey(self, number: int) -> None:
        """Do what a signal asks: SIGHUP has the policy read again, the others are the end."""
        if number == signal.SIGHUP:
            self._do(lambda agent: agent.reload_policy())
            return
        with self._lock:
            self._asked = signal.Signals(number)
            self._leave_if_asked()
        self._do(lambda agent: agent.stop())

    def died(self, died: threading.ExceptHookArgs) -> None:
        """End the agent in order: a thread has ended by an error nobody expected.

        For `threading.excepthook`.
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
    """Keep our signals for the thread that waits for them; others inherit that from here."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def watch(endings: Endings) -> None:
    """Hand on signals and dead threads from now on; the signals are `blocked`.

    A thread waits for them: a handler would run in the loop's thread, in the midst of what that
    holds, and the events it sets are no safe ground there; while kernels compile, not at all.
    """

    def wait() -> None:
        while True:
            endings.obey(signal.sigwait(SIGNALS))

    threading.excepthook = endings.died
    threading.Thread(target=wait, name="signals", daemon=True).start()
