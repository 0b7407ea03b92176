# SPDX-License-Identifier: Apache-2.0
"""Calls with a time limit. A late answer is kept for the next call, not thrown away.

The call itself cannot be cancelled.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class _Question(Generic[T]):
    """One call on a thread of its own."""

    def __init__(self, ask: Callable[[], T], on_late: Callable[[], None]) -> None:
        self.given_up = False
        self.answered = threading.Event()
        self._ask = ask
        self._on_late = on_late
        self._answer: list[T] = []
        self._error: Exception | None = None
        threading.Thread(target=self._run, name="question", daemon=True).start()

    def _run(self) -> None:
        try:
            self._answer.append(self._ask())
        except Exception as error:  # noqa: BLE001  # raised again in the thread that asked
            self._error = error
        self.answered.set()
        if self.given_up:
            self._on_late()

    def answer(self) -> T:
        """Return the result of the call, or raise its error."""
        if self._error is not None:
            raise self._error
        return self._answer[0]


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
        self._open: _Question[T] | None = None
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
            self._open = _Question(call, self._on_late)
            self._open.answered.wait(self._timeout_s)
            self._open.given_up = True
            self._again = False
        elif not self._open.answered.is_set():
            self._again = True
        if not self._open.answered.is_set():
            raise TimeoutError
        question, self._open = self._open, None
        if self._again:  # a change after the late answer's start may be missing
            self._on_late()
        return question.answer()
