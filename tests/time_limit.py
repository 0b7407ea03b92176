# SPDX-License-Identifier: Apache-2.0
"""A time limit for each test of a suite with real processes: none waits for ever."""

from __future__ import annotations

import faulthandler
import signal
import sys
import unittest
from typing import Any

LIMIT_S = 300.0  # the longest test takes a minute on two busy CPUs
AGAIN_S = 60.0  # then clean-ups are interrupted as well


def install(limit_s: float = LIMIT_S) -> None:
    """Have every test of this process fail after `limit_s`, with the stacks of all threads."""
    whole = unittest.TestCase.run

    def run(case: unittest.TestCase, result: Any = None) -> Any:
        def late(_number: int, _frame: object) -> None:
            print(f"{case.id()} has not ended within {limit_s:g} s", file=sys.__stderr__)
            faulthandler.dump_traceback(sys.__stderr__)
            raise TimeoutError(f"not ended within {limit_s:g} s")

        before = signal.signal(signal.SIGALRM, late)
        signal.setitimer(signal.ITIMER_REAL, limit_s, AGAIN_S)
        try:
            return whole(case, result)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)

    unittest.TestCase.run = run  # type: ignore[method-assign]
