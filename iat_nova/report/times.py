# SPDX-License-Identifier: Apache-2.0
"""Times and durations in readable form."""

from __future__ import annotations

import math
import time

from iat_nova.common.untrusted import LAST_S


def moment(wall_s: float) -> str:
    """Return date and time: ``2026-11-21 03:12:05 UTC``."""
    return utc(wall_s, "%Y-%m-%d %H:%M:%S UTC")


def utc(wall_s: float, form: str) -> str:
    """Return a wall-clock time in UTC, in a format of `time.strftime`.

    Commands, the log and pages show UTC alone: a person's time zone may differ from the agent's.
    Before 1970 and after 9999 the result is a text that says so.
    """
    if not 0 <= wall_s <= LAST_S:
        return "a time before 1970" if wall_s < 0 else "a time after 9999"
    return time.strftime(form, time.gmtime(wall_s))


def duration(seconds: float) -> str:
    """Return ``0.4 s``, ``4 min 10 s``, ``2 h 5 min`` or ``3 d 4 h``."""
    if not math.isfinite(seconds) or seconds > LAST_S:
        return "for ever"
    if 0 < seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = max(0, round(seconds))
    for size, name, small_size, small_name in (
        (86400, "d", 3600, "h"),
        (3600, "h", 60, "min"),
        (60, "min", 1, "s"),
    ):
        if whole >= size:
            rest = whole % size // small_size
            return f"{whole // size} {name}" + (f" {rest} {small_name}" if rest else "")
    return f"{whole} s"
