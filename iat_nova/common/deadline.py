# SPDX-License-Identifier: Apache-2.0
"""Calls with a time limit. A late answer is kept for the next call, not thrown away.

The call itself cannot be cancelled.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent import futures
from typing import Generic, TypeVar

T = TypeVar("T")


class Deadline(Generic[T]):
    """Makes one call at a time and waits `timeout_s` seconds for the answer.

    The next `ask` returns a late answer: an older result of a slow server is still useful.
    `on_late` runs in another thread when a late answer arrives. `on_late` also runs in `ask` when a
    further call is needed. While one call is open no other call is started: a server that does not
    respond costs one thread, not one thread per attempt. Only one thread may call `ask`.
    """

    def __init__(self, timeout_s: float, on_late: Callable[[], None] = lambda: None) -> None:
        self._timeout_s = timeout_s
        self._on_late = on_late
        self._open: futures.Future[T] | None = None
        self._again = False  # asked again while the question was open

    @property
    def asked(self) -> bool:
        """Whether a call is open, or its late answer waits."""
        return self._open is not None

    def ask(self, call: Callable[[], T]) -> T:
        """Return the late answer if there is one, else the result of `call`.

        Raises the error of the call, and `TimeoutError` while there is no answer.
        """
        if self._open is None:
            self._open, self._again = _begun(call), False
            futures.wait((self._open,), self._timeout_s)
            if not self._open.done():
                self._open.add_done_callback(lambda _: self._on_late())
        elif not self._open.done():
            self._again = True
        if not self._open.done():
            raise TimeoutError
        question, self._open = self._open, None
        if self._again:  # a change after the late answer's start may be missing
            self._on_late()
        return question.result()


def _begun(call: Callable[[], T]) -> futures.Future[T]:
    """Begin a call on a daemon thread of its own: the process can end during the call."""
    question: futures.Future[T] = futures.Future()

    def run() -> None:
        try:
            question.set_result(call())
        except Exception as error:  # noqa: BLE001  # raised again in the thread that asked
            question.set_exception(error)

    threading.Thread(target=run, name="question", daemon=True).start()
    return question
