# SPDX-License-Identifier: Apache-2.0
"""Ways held for single tenants: a small file each, written by a person, read by the loop."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import os
import pathlib

from iat_nova.common import files
from iat_nova.model import Hold

FOLDER = "holds"
SUFFIX = ".json"

_Seen = tuple[str, int, int, int]


class Holds:
    """The folder ``holds`` in the state directory. To read it again costs a stat a file.

    A file that cannot be understood is a hold of no ways whose reason says what is wrong.
    """

    def __init__(self, state_dir: str | os.PathLike[str]) -> None:
        self.path = pathlib.Path(state_dir) / FOLDER
        self._seen: tuple[_Seen, ...] = ()
        self._holds: tuple[Hold, ...] = ()

    def current(self, wall_s: float) -> tuple[Hold, ...]:
        """Return the holds in force at a time, by tenant. Raises `OSError`."""
        seen = self._look()
        if seen != self._seen:
            found = (self._read(name, mtime_ns / 1e9) for name, mtime_ns, _, _ in seen)
            self._holds = tuple(hold for hold in found if hold is not None)
            self._seen = seen
        return tuple(hold for hold in self._holds if wall_s < hold.until_s)

    def write(self, hold: Hold) -> None:
        """Begin a hold, or replace the tenant's. Raises `OSError`."""
        self.path.mkdir(mode=0o755, exist_ok=True)
        plain = dataclasses.asdict(hold)
        if math.isinf(hold.until_s):
            plain["until_s"] = None
        files.replace_text(self._file(hold.tenant), f"{json.dumps(plain)}\n")

    def clear(self, tenant: str) -> None:
        """End a tenant's hold, if there is one. Raises `OSError`."""
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            self._file(tenant).unlink()

    def _file(self, tenant: str) -> pathlib.Path:
        return self.path / f"{tenant}{SUFFIX}"

    def _look(self) -> tuple[_Seen, ...]:
        """Return what shows whether anything changed, a file each, by name."""
        try:
            with os.scandir(self.path) as entries:
                return tuple(sorted(_stat(one) for one in entries if one.name.endswith(SUFFIX)))
        except (FileNotFoundError, NotADirectoryError):  # also a file that went meanwhile
            return ()

    def _read(self, name: str, since_s: float) -> Hold | None:
        tenant = name.removesuffix(SUFFIX)
        try:
            plain = json.loads(files.read_bytes(self.path / name, follow=False))
            until_s = plain.get("until_s")
            ways = plain["ways"]
            if not isinstance(ways, int) or ways < 1:
                raise ValueError(f"ways: {ways!r}")
            return Hold(
                tenant=tenant,
                name=str(plain.get("name") or tenant),
                ways=ways,
                since_s=float(plain.get("since_s", since_s)),
                until_s=math.inf if until_s is None else float(until_s),
                reason=str(plain.get("reason") or ""),
                by=str(plain.get("by") or ""),
            )
        except FileNotFoundError:  # released in between
            return None
        except (OSError, ValueError, TypeError, AttributeError, KeyError) as error:
            why = f"{self.path / name} cannot be understood ({error})"
            return Hold(tenant, tenant, 0, since_s, reason=why)


def _stat(entry: os.DirEntry[str]) -> _Seen:
    found = entry.stat(follow_symlinks=False)
    return entry.name, found.st_mtime_ns, found.st_size, found.st_ino
