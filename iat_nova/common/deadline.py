# SPDX-License-Identifier: Apache-2.0
"""Waiting for an answer no longer than one can afford; what comes later is kept, not thrown away.

The question itself cannot be withdrawn.
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
        """Return what the call returned, or raise what it raised."""
        if self._error is not None:
            raise self._error
        return self._answer[0]


class Deadline(Generic[T]):
    """Asks one question at a time and waits for `timeout_s` seconds.

    An answer that comes later is that of the next `ask`: a slow server has a picture to give, too,
    if an older one. `on_late` is called, in another thread, when there is one, and when the server
    can be asked once more. While one question is open no other is asked: a server that does not
    respond costs one thread, not one an attempt. `ask` is for one thread.
    """

    def __init__(self, timeout_s: float, on_late: Callable[[], None] = lambda: None) -> None:
        self._timeout_s = timeout_s
        self._on_late = on_late
        self._open: _Question[T] | None = None
        self._again = False  # somebody asked while the question was open

    @property
    def asked(self) -> bool:
        """Whether a question is open, or its late answer waits."""
        return self._open is not None

    def ask(self, call: Callable[[], T]) -> T:
        """Return the late answer if there is one, else what `call` returns.

        Raises what the call raised, and `TimeoutError` while there is no answer.
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
        if self._again:  # what was asked for since may not be in this answer
            self._on_late()
        return question.answer()
