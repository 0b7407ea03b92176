# SPDX-License-Identifier: Apache-2.0
"""The end of an experiment whose strategy fails: its figures would describe no strategy."""

from __future__ import annotations

import sys
import traceback

from iat_nova.common.untrusted import worded
from iat_nova.model.message import MessageError, Value, message


class StrategyFailed(MessageError):
    """A strategy raised an error, or decided what cannot be applied."""


def refused(name: str, at_s: float, cause: Value) -> StrategyFailed:
    """Return the error of a strategy that failed at a time of an experiment, for a cause."""
    return StrategyFailed(message("strategy-failed-at", strategy=name, at_s=at_s, cause=cause))


def failed(name: str, at_s: float, error: BaseException, strategy: object) -> StrategyFailed:
    """Return the error of a strategy that raised an error.

    `strategy`: the strategy or its factory. The cause has file and line in the strategy's module,
    if the error was raised there or in a function that it called.
    """
    file = getattr(sys.modules.get(strategy.__module__), "__file__", None)
    frames = traceback.extract_tb(error.__traceback__)
    places = [f" ({one.filename}, line {one.lineno})" for one in frames if one.filename == file]
    place = places[-1] if places else ""
    return refused(name, at_s, f"{worded(error)}{place}")
