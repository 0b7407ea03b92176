# SPDX-License-Identifier: Apache-2.0
"""The age of the loop's inventory: a warning if readings of the host are overdue.

Events and the timer of the sources trigger a reading. If these stop, new guests get no ways, and no
other check would report that.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from iat_nova.model.message import Message, message

OVERDUE_PERIODS = 2  # one may be missed: a reading was under way, or the process was stopped


class Freshness:
    """The time since the last reading of the host, which is due every `period_s` seconds.

    `now` is real time, not the time of an emulated machine, because the sources' events come in
    real time.
    """

    def __init__(
        self, period_s: float = math.inf, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._overdue_s = OVERDUE_PERIODS * period_s
        self._now = now
        self._looked_s = now()

    def looked(self) -> None:
        """Record that the inventory has been read."""
        self._looked_s = self._now()

    @property
    def problem(self) -> Message | None:
        """Warning that the inventory is overdue, or None. Constant text, so logged once."""
        if self._now() - self._looked_s <= self._overdue_s:
            return None
        return message("inventory-old", overdue_s=self._overdue_s)
