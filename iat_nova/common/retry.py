# SPDX-License-Identifier: Apache-2.0
"""Times of retries after a failure: pauses that double. Pure: time is a parameter."""

from __future__ import annotations

import math

FIRST_S, LONGEST_S = 10.0, 600.0


class Retry:
    """Pauses between retries: each failure doubles the pause, from `FIRST_S` up to `LONGEST_S`.

    After `LONGEST_S` without a failure since the last retry was due, the next pause is `FIRST_S`.
    """

    def __init__(self) -> None:
        self._pause_s = 0.0
        self._due_s = -math.inf

    def failed(self, now_s: float) -> float:
        """Note a failure now; return the pause until the next retry is due, in seconds."""
        held = now_s - self._due_s > LONGEST_S
        self._pause_s = FIRST_S if held else min(2 * self._pause_s, LONGEST_S)
        self._due_s = now_s + self._pause_s
        return self._pause_s

    def is_due(self, now_s: float) -> bool:
        """Whether a retry is due now."""
        return now_s >= self._due_s
