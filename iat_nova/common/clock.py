# SPDX-License-Identifier: Apache-2.0
"""Time as a parameter: real in production, virtual in the emulated server."""

from __future__ import annotations

import threading
import time
from typing import Protocol


class Clock(Protocol):
    """The loop's access to time."""

    def now(self) -> float:
        """Return seconds on a clock that never goes back."""

    def wall(self) -> float:
        """Return seconds since 1970, for display."""

    def wait(self, wake: threading.Event, seconds: float) -> bool:
        """Wait for `seconds`, or return early when `wake` is set; True when `wake` was set."""


class SystemClock:
    """The machine's own monotonic clock."""

    def now(self) -> float:
        """Return the seconds of the system's monotonic clock (CLOCK_MONOTONIC)."""
        return time.monotonic()

    def wall(self) -> float:
        """Return the time of day."""
        return time.time()

    def wait(self, wake: threading.Event, seconds: float) -> bool:
        """Wait until `wake` is set, at most `seconds`; return whether it is set."""
        return wake.wait(seconds)
