# SPDX-License-Identifier: Apache-2.0
"""Holding the present masks for a while: one small file, written by a person, read by the loop."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import pathlib

from iat_nova.common import files

NAME = "pause.json"


@dataclasses.dataclass(frozen=True, slots=True)
class Pause:
    """Who holds the masks, since when, how long (wall clock) and why.

    `until_s` is infinite when only `resume` ends it.
    """

    since_s: float
    until_s: float = math.inf
    reason: str = ""
    by: str = ""


class PauseFile:
    """``pause.json`` in the state directory. Reading it again costs one stat while it is the same.

    A file that cannot be understood pauses without end: somebody wanted the masks held, and
    the reason says what is wrong.
    """

    def __init__(self, state_dir: str | os.PathLike[str]) -> None:
        self.path = pathlib.Path(state_dir) / NAME
        self._seen: tuple[int, int, int] | None = None
        self._pause: Pause | None = None

    def current(self, wall_s: float) -> Pause | None:
        """Return the pause in force at a time; None when there is none or it has run out."""
        try:
            found = self.path.stat()
        except (FileNotFoundError, NotADirectoryError):
            self._seen = None
            return None
        except OSError as error:
            return self._unreadable(error.strerror or str(error), 0.0)
        seen = (found.st_mtime_ns, found.st_size, found.st_ino)
        if seen != self._seen:
            self._pause = self._read(found.st_mtime)
            self._seen = seen
        pause = self._pause
        return pause if pause is not None and wall_s < pause.until_s else None

    def write(self, pause: Pause) -> None:
        """Begin a pause, or replace the one there is. Raises `OSError`."""
        plain = dataclasses.asdict(pause)
        if math.isinf(pause.until_s):
            plain["until_s"] = None
        files.replace_text(self.path, f"{json.dumps(plain)}\n")

    def clear(self) -> bool:
        """End the pause; False when there was none. Raises `OSError`."""
        try:
            self.path.unlink()
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def _read(self, since_s: float) -> Pause | None:
        try:
            plain = json.loads(files.read_bytes(self.path, follow=False))
            until_s = plain.get("until_s")
            return Pause(
                since_s=float(plain.get("since_s", since_s)),
                until_s=math.inf if until_s is None else float(until_s),
                reason=str(plain.get("reason") or ""),
                by=str(plain.get("by") or ""),
            )
        except FileNotFoundError:  # resumed in between
            return None
        except (OSError, ValueError, TypeError, AttributeError) as error:
            return self._unreadable(str(error), since_s)

    def _unreadable(self, why: str, since_s: float) -> Pause:
        return Pause(
            since_s,
            reason=f"{self.path} cannot be understood ({why}); `iat-nova resume` removes it",
        )
