# SPDX-License-Identifier: Apache-2.0
"""How old the loop's picture of the host is: noticed when looks at it fail to come.

Hints and the timer of the sources have the loop look. Were they to hang, guests that start would
get no ways, and nothing else would tell.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from iat_nova.model.message import Message, message

OVERDUE_PERIODS = 2  # one may be missed: a look that was under way, a process that was stopped


class Freshness:
    """Knows when the host was last looked at, which is due every `period_s` seconds.

    `now` is real time, as the sources' hints are: not that of an emulated machine.
    """

    def __init__(
        self, period_s: float = math.inf, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._overdue_s = OVERDUE_PERIODS * period_s
        self._now = now
        self._looked_s = now()

    def looked(self) -> None:
        """Note that the host has been looked at."""
        self._looked_s = self._now()

    @property
    def problem(self) -> Message | None:
        """Warning that the inventory is overdue, or None. Constant, so that it is logged once."""
        if self._now() - self._looked_s <= self._overdue_s:
            return None
        return message("inventory-old", overdue_s=self._overdue_s)
