# SPDX-License-Identifier: Apache-2.0
"""A time limit for each test, and for what a class sets up: no test with real processes hangs."""

from __future__ import annotations

import contextlib
import faulthandler
import signal
import sys
import unittest
from collections.abc import Iterator
from typing import Any

LIMIT_S = 300.0  # the longest test takes a minute on two busy CPUs
AGAIN_S = 60.0  # then clean-ups are interrupted as well


class Late(BaseException):
    """The time is over. No handler of `Exception` or `OSError` in the tested code catches it."""


_limits: list[float] = []


def install(limit_s: float = LIMIT_S) -> None:
    """Have every test of this process fail after `limit_s`, with the stacks of all threads.

    Suites import each other's helpers: of several limits the longest counts.
    """
    _limits.append(limit_s)
    if len(_limits) > 1:
        return
    test, fixture = unittest.TestCase.run, unittest.TestSuite._handleClassSetUp

    def run(case: unittest.TestCase, result: Any = None) -> Any:
        with _limited(case.id(), max(_limits)):
            return test(case, result)

    def set_up(suite: unittest.TestSuite, case: Any, result: Any) -> None:
        with _limited(f"setUpClass of {type(case).__name__}", max(_limits)):
            fixture(suite, case, result)

    unittest.TestCase.run = run  # type: ignore[method-assign]
    unittest.TestSuite._handleClassSetUp = set_up


@contextlib.contextmanager
def _limited(what: str, limit_s: float) -> Iterator[None]:
    def late(_number: int, _frame: object) -> None:
        print(f"{what} has not ended within {limit_s:g} s", file=sys.__stderr__)
        faulthandler.dump_traceback(sys.__stderr__)
        raise Late(f"not ended within {limit_s:g} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, limit_s, AGAIN_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
