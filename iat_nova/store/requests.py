# SPDX-License-Identifier: Apache-2.0
"""Requests of an operator, with or without an end: a pause of all decisions, holds of tenants.

Each request is a small file in the state directory. An operator's command writes the file and the
loop reads it. An unreadable file is a request too: its reason gives the error and the command that
ends the request.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import re
import secrets
import stat
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

from iat_nova.common import untrusted
from iat_nova.common.owned_folder import OwnedFolder
from iat_nova.common.readers import HOLD, PAUSE, FileKind
from iat_nova.model import WAYS_LIMIT, Hold, Pause

PAUSE_NAME = "pause.json"
FOLDER = "holds"
SUFFIX = ".json"
MOST_HOLDS = 1024
"""The maximum number of holds that are read; a host has fewer tenants."""

_TYPEABLE = re.compile(r"[A-Za-z0-9_.:][A-Za-z0-9_.:-]*")
_RELEASE_ALL = "`iat-nova release --all`"

Request = TypeVar("Request", bound=Pause | Hold)


class RequestFile(Generic[Request]):
    """One request in a file of a folder. Reading an unchanged file again costs one stat.

    `make` turns the file's object, and the time of its last change, into the request, and raises
    `Unreadable`. `unreadable` makes the request for a file that cannot be read.
    """

    def __init__(
        self,
        folder: OwnedFolder,
        name: str,
        kind: FileKind,
        make: Callable[[Mapping[str, Any], float], Request],
        unreadable: Callable[[float, str], Request],
    ) -> None:
        self.path = folder.path / name
        self._folder = folder
        self._name = name
        self._kind = kind
        self._make = make
        self._unreadable = unreadable
        self._seen: tuple[int, int, int, int] | None = None
        self._request: Request | None = None

    def current(self, wall_s: float) -> Request | None:
        """Return the request in force at a time; None without a request, or after its end."""
        try:
            found = self._folder.glance(self._name)
        except OSError as error:
            return self._unreadable(0.0, _reason(error))
        if found is None:
            self._seen = None
            return None
        seen = (found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino)
        if seen != self._seen:
            self._request = self._read(min(max(found.st_mtime, 0.0), untrusted.LAST_S))
            self._seen = seen
        request = self._request
        return request if request is not None and wall_s < request.until_s else None

    def write(self, request: Request) -> None:
        """Begin a request, or replace the present request. Raises `OSError`."""
        plain = {
            key: untrusted.storable(value) if isinstance(value, str) else value
            for key, value in dataclasses.asdict(request).items()
        }
        if math.isinf(request.until_s):
            plain["until_s"] = None
        _set_folder_aside(self._folder, self._name)
        self._folder.replace(self._name, f"{json.dumps(plain)}\n")

    def clear(self) -> bool:
        """End the request, also where another kind of file has its name.

        Return False if there is nothing to end. Raises `OSError`.
        """
        return _set_folder_aside(self._folder, self._name) or self._folder.remove(self._name)

    def _read(self, since_s: float) -> Request | None:
        try:
            content = self._folder.read(self._name, self._kind.most_bytes)
            return self._make(self._kind.parse_object(content), since_s)
        except FileNotFoundError:  # ended in between
            return None
        except (OSError, untrusted.Unreadable) as error:
            return self._unreadable(since_s, _reason(error))


class PauseFile(RequestFile[Pause]):
    """The file ``pause.json`` in a state directory."""

    def __init__(self, state_dir: str | os.PathLike[str]) -> None:
        super().__init__(
            OwnedFolder(state_dir),
            PAUSE_NAME,
            PAUSE,
            lambda plain, changed_s: Pause(**_terms(plain, changed_s)),
            lambda since_s, why: Pause(since_s, reason=PAUSE.unreadable(self.path, why)),
        )


class Holds:
    """The folder ``holds`` in a state directory, with one file per tenant."""

    def __init__(self, state_dir: str | os.PathLike[str]) -> None:
        self._above = OwnedFolder(state_dir)
        self._folder = self._above.subfolder(FOLDER)
        self.path = self._folder.path
        self._files: dict[str, RequestFile[Hold]] = {}

    def current(self, wall_s: float) -> tuple[Hold, ...]:
        """Return the holds in force at a time, by tenant. Raises `OSError`."""
        names = self._names()
        self._files = {name: self._files.get(name) or self._file(name) for name in names}
        found = (file.current(wall_s) for file in self._files.values())
        holds = tuple(hold for hold in found if hold is not None)
        problem = self._problem(len(names))
        return holds if problem is None else (*holds, Hold("", FOLDER, 0, 0.0, reason=problem))

    def write(self, hold: Hold) -> None:
        """Begin a hold, or replace the tenant's hold. Raises `OSError`."""
        self._folder.make()
        self._file(f"{hold.tenant}{SUFFIX}").write(hold)

    def clear(self, tenant: str) -> None:
        """End a tenant's hold, if any. Raises `OSError`."""
        self._file(f"{tenant}{SUFFIX}").clear()

    def clear_all(self) -> None:
        """End every hold, also unreadable holds. Raises `OSError`."""
        while names := self._names():
            for name in names:
                self._file(name).clear()
        if self._problem(0) is not None:
            self._above.remove(FOLDER)

    def _names(self) -> list[str]:
        if self._above.glance(FOLDER) is None:
            return []
        try:
            return self._folder.names(SUFFIX)[:MOST_HOLDS]
        except (FileNotFoundError, NotADirectoryError):
            return []

    def _problem(self, read: int) -> str | None:
        """Describe a problem of the whole folder, which no single file can report."""
        there = self._above.glance(FOLDER)
        if read == MOST_HOLDS:
            why = f"only its first {MOST_HOLDS} files are read"
        elif there is not None and not stat.S_ISDIR(there.st_mode):
            why = "it is not a folder"
        else:
            return None
        return HOLD.unreadable(self.path, why, _RELEASE_ALL)

    def _file(self, name: str) -> RequestFile[Hold]:
        path = self.path / name
        tenant = name.removesuffix(SUFFIX)
        typeable = _TYPEABLE.fullmatch(tenant) and tenant != FOLDER
        remedy = f"`iat-nova release {tenant}`" if typeable else _RELEASE_ALL
        return RequestFile(
            self._folder,
            name,
            HOLD,
            lambda plain, changed_s: _hold(tenant, plain, changed_s),
            lambda since_s, why: Hold(
                tenant, tenant, 0, since_s, reason=HOLD.unreadable(path, why, remedy)
            ),
        )


def _reason(error: OSError | untrusted.Unreadable) -> str:
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error)


def _cut(plain: Mapping[str, Any], key: str) -> str:
    """Return the text of a key, cut: earlier versions wrote longer texts. Raises `Unreadable`."""
    value = plain.get(key)
    return untrusted.storable(value) if isinstance(value, str) else untrusted.name(plain, key)


def _terms(plain: Mapping[str, Any], changed_s: float) -> dict[str, Any]:
    """Return what every request has: start, end, reason and author. Raises `Unreadable`."""
    endless = plain.get("until_s") is None
    return {
        "since_s": untrusted.moment(plain, "since_s") if "since_s" in plain else changed_s,
        "until_s": math.inf if endless else untrusted.moment(plain, "until_s"),
        "reason": _cut(plain, "reason"),
        "by": _cut(plain, "by"),
    }


def _hold(tenant: str, plain: Mapping[str, Any], changed_s: float) -> Hold:
    name = _cut(plain, "name") or tenant
    ways = untrusted.whole(plain, "ways", 1, WAYS_LIMIT)
    return Hold(tenant, name, ways, **_terms(plain, changed_s))


def _set_folder_aside(folder: OwnedFolder, name: str) -> bool:
    """Rename a folder in place of the file; return whether there was a folder.

    The folder is not removed: its content may be needed. Raises `OSError`.
    """
    there = folder.status(name)
    if there is None or not stat.S_ISDIR(there.st_mode):
        return False
    folder.rename(name, f".{name}.{secrets.token_hex(4)}")
    return True
