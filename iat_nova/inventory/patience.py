# SPDX-License-Identifier: Apache-2.0
"""Waiting for an answer no longer than one can afford; the question itself cannot be withdrawn."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class _Question(Generic[T]):
    """One call on a thread of its own."""

    def __init__(
        self,
        ask: Callable[[], T],
        errors: tuple[type[Exception], ...],
        on_late: Callable[[], None],
    ) -> None:
        self.given_up = False
        self._on_late = on_late
        self.answered = threading.Event()
        self._ask = ask
        self._errors = errors
        self._answer: list[T] = []
        self._error: Exception | None = None
        threading.Thread(target=self._run, name="question", daemon=True).start()

    def _run(self) -> None:
        try:
            self._answer.append(self._ask())
        except self._errors as error:  # raised again in the thread that asked
            self._error = error
        finally:
            self.answered.set()
            if self.given_up:
                self._on_late()

    def answer(self) -> T:
        """Return what the call returned, or raise what it raised."""
        if self._error is not None:
            raise self._error
        return self._answer[0]


class Patience:
    """Asks one question at a time and waits for `timeout_s` seconds.

    `errors` are what a question may raise; `on_late` is called, in another thread, when an answer
    comes that nobody waits for any more.
    While one goes unanswered no other is asked: a server that hangs costs one thread, not one an
    attempt.
    """

    def __init__(
        self,
        timeout_s: float,
        *errors: type[Exception],
        on_late: Callable[[], None] = lambda: None,
    ) -> None:
        self._timeout_s = timeout_s
        self._errors = errors
        self._on_late = on_late
        self._open: _Question[object] | None = None

    def ask(self, call: Callable[[], T]) -> T:
        """Return what `call` returns. Raises `TimeoutError`, and what `call` raises."""
        if self._open is not None and not self._open.answered.is_set():
            raise TimeoutError("still no answer")
        question = _Question(call, self._errors, self._on_late)
        if not question.answered.wait(self._timeout_s):
            self._open = question  # type: ignore[assignment]
            question.given_up = True
            raise TimeoutError(f"no answer within {self._timeout_s:g} s")
        return question.answer()
