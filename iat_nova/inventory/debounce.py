# SPDX-License-Identifier: Apache-2.0
"""Combine many hints into one wake-up: after a quiet time, with a bound, and periodically."""

from __future__ import annotations

import threading

from iat_nova.common.clock import Clock


class Debouncer:
    """Sets `changed` on a thread of its own.

    Any thread may call `hint`. `changed` is set after `quiet_s` without a hint, at the latest
    `bound_s` after the first hint. Without any hint `changed` is set every `slow_timer_s`.
    """

    def __init__(
        self,
        changed: threading.Event,
        clock: Clock,
        *,
        quiet_s: float,
        bound_s: float,
        slow_timer_s: float,
    ) -> None:
        self._changed = changed
        self._clock = clock
        self._quiet_s = quiet_s
        self._bound_s = bound_s
        self._slow_timer_s = slow_timer_s
        self._lock = threading.Lock()
        self._first_s: float | None = None  # of the hints not yet forwarded
        self._last_s = 0.0
        self._fired_s = clock.now()
        self._wake = threading.Event()
        self._stop = False
        self._thread = threading.Thread(target=self._run, name="inventory-hints", daemon=True)

    def start(self) -> None:
        """Start to forward hints."""
        self._thread.start()

    def close(self) -> None:
        """End the thread."""
        self._stop = True
        self._wake.set()
        if self._thread.ident is not None:
            self._thread.join()

    def hint(self) -> None:
        """Report a change."""
        with self._lock:
            self._last_s = self._clock.now()
            if self._first_s is not None:
                return  # the thread knows the next time already
            self._first_s = self._last_s
        self._wake.set()

    def due_s(self) -> float:
        """Return when `changed` will be set, on the clock, if no further hint comes."""
        with self._lock:
            if self._first_s is None:
                return self._fired_s + self._slow_timer_s
            return min(self._last_s + self._quiet_s, self._first_s + self._bound_s)

    def fire_if_due(self) -> bool:
        """Set `changed` when due; return whether it was due."""
        now_s = self._clock.now()
        if now_s < self.due_s():
            return False
        with self._lock:
            self._first_s = None
            self._fired_s = now_s
        self._changed.set()
        return True

    def _run(self) -> None:
        while not self._stop:
            self._clock.wait(self._wake, max(0.0, self.due_s() - self._clock.now()))
            self._wake.clear()
            self.fire_if_due()
