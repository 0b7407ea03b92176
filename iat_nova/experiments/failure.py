# SPDX-License-Identifier: Apache-2.0
"""The end of an experiment whose strategy fails: its figures would describe no strategy."""

from __future__ import annotations

import traceback

from iat_nova.common.untrusted import worded


class StrategyFailed(Exception):
    """A strategy raised an error, or decided what cannot be applied; the text says where."""


def failed(name: str, at_s: float, error: BaseException) -> StrategyFailed:
    """Return the error of a strategy that failed at a time of an experiment, with file and line."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{frame.filename}, line {frame.lineno}"
    return StrategyFailed(f"strategy {name!r} failed at {at_s:g} s: {worded(error)} ({place})")
