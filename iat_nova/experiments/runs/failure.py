# SPDX-License-Identifier: Apache-2.0
"""The error that ends an experiment whose strategy fails: such figures describe no strategy."""

from __future__ import annotations

import sys
import traceback

from iat_nova.common.untrusted import worded
from iat_nova.model.message import MessageError, Value, message


class StrategyFailed(MessageError):
    """A strategy raised an error, or decided on an impossible layout."""


def refused(name: str, at_s: float, cause: Value) -> StrategyFailed:
    """Return the error of a strategy that failed, with time and cause."""
    return StrategyFailed(message("strategy-failed-at", strategy=name, at_s=at_s, cause=cause))


def failed(name: str, at_s: float, error: BaseException, strategy: object) -> StrategyFailed:
    """Return the error of a strategy that raised an error.

    `strategy`: the strategy or its factory. If the error came from the strategy's module, or from a
    function called there, the cause has file and line in this module.
    """
    file = getattr(sys.modules.get(strategy.__module__), "__file__", None)
    frames = traceback.extract_tb(error.__traceback__)
    places = [f" ({one.filename}, line {one.lineno})" for one in frames if one.filename == file]
    place = places[-1] if places else ""
    return refused(name, at_s, f"{worded(error)}{place}")
