# SPDX-License-Identifier: Apache-2.0
"""The progress of long work, on standard error."""

from __future__ import annotations

import sys
import time

from iat_nova.report import times


class Progress:
    """Shows progress and remaining time: live on a terminal, else at each tenth.

    `form` is the text, with ``{done}`` and ``{total}``; call the object with both numbers during
    work.
    """

    def __init__(self, form: str) -> None:
        self._form = form
        self._started_s = time.monotonic()
        self._first: int | None = None
        self._told = 0
        self._live = sys.stderr.isatty()

    def __enter__(self) -> Progress:
        return self

    def __call__(self, done: int, total: int) -> None:
        """Show the progress."""
        if self._first is None:
            self._first = done - 1  # earlier work took no time here
        pace_s = (time.monotonic() - self._started_s) / (done - self._first)
        left = times.duration(pace_s * (total - done))
        text = f"{self._form.format(done=done, total=total)}, about {left} left"
        if self._live:
            sys.stderr.write(f"\r\x1b[K{text}")
            sys.stderr.flush()
        elif done * 10 // total > self._told:
            self._told = done * 10 // total
            print(text, file=sys.stderr, flush=True)

    def __exit__(self, *error: object) -> None:
        """Clear the line."""
        if self._live:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
