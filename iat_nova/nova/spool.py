# SPDX-License-Identifier: Apache-2.0
"""What a notification of Nova says about an instance here, and the folder that keeps it.

The standard library alone: this runs inside nova-compute. `iat_nova.inventory.spool` is the
reader, in the agent.
"""

from __future__ import annotations

import contextlib
import dataclasses
import heapq
import json
import os
import pathlib
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping

MOST_FILES = 2048
"""More instances than a host has; beyond it, those not heard of for the longest time go."""

MOST_BYTES = 128 * 1024
"""A larger record is not kept. Nova's own limits (128 extra specs of 255 characters) fit."""

_CHECK_EVERY = 64  # writes between two looks at the number of files
_ABANDONED_S = 3600.0  # a temporary file this old was left by a process that died
_SUFFIX = ".json"
_TEMPORARY = ".iat-"

_GONE_STATES = ("deleted", "shelved_offloaded")
# The guest is coming here, but the record of Nova still names the host it comes from.
_ARRIVALS = (
    "instance.live_migration_pre.", "instance.live_migration_post_dest.",
    "instance.rebuild.start", "instance.rebuild.end",  # evacuated
)  # fmt: skip
# The guest has gone, or was never built, but the record of Nova still names this host.
_DEPARTURES = ("instance.live_migration_post.end", "instance.create.error")


@dataclasses.dataclass(frozen=True, slots=True)
class News:
    """What became known of one instance; `extra_specs` None: it is not here any more."""

    uuid: str
    extra_specs: Mapping[str, str] | None


def news(message: object) -> News | None:
    """Read one notification; None when it says nothing of an instance on this host.

    `message` is what oslo.messaging hands to a driver. Only versioned payloads carry extra specs.
    Never raises, for any message.
    """
    publisher, event = _text(message, "publisher_id"), _text(message, "event_type")
    binary, _, host = publisher.partition(":")
    if binary != "nova-compute" or not event.startswith("instance."):
        return None
    instance = _data(_member(message, "payload"))
    identity = _uuid(_text(instance, "uuid"))
    if identity is None:
        return None
    if _reverting(event, instance) or _left(
        event, _text(instance, "state"), _text(instance, "host"), host
    ):
        return News(identity, None)
    specs = _member(_data(_member(instance, "flavor")), "extra_specs")
    if not isinstance(specs, Mapping):
        return None
    return News(identity, {str(name): str(value) for name, value in specs.items()})


def _reverting(event: str, instance: object) -> bool:
    """Whether a guest goes back to the host it was resized or migrated from.

    The host it leaves reports nothing but the usage it had until then.
    """
    return event == "instance.exists" and _text(instance, "task_state") == "resize_reverting"


def _left(event: str, state: str, instance_host: str, here: str) -> bool:
    if event in _DEPARTURES or state in _GONE_STATES:
        return True
    return bool(instance_host) and instance_host != here and not event.startswith(_ARRIVALS)


def _member(value: object, name: str) -> object:
    return value.get(name) if isinstance(value, Mapping) else None


def _text(value: object, name: str) -> str:
    found = _member(value, name)
    return found if isinstance(found, str) else ""


def _data(value: object) -> object:
    """Return the fields of one of Nova's versioned objects."""
    return _member(value, "nova_object.data")


def _uuid(text: str) -> str | None:
    """Return a UUID in the spelling libvirt uses; it becomes a file's name, so it is checked."""
    try:
        return str(uuid.UUID(text))
    except ValueError:
        return None


class SpoolFolder:
    """One file an instance, replaced whole; bounded in number and size.

    Nothing is flushed to the disk: a host that lost its power has lost its guests as well, and a
    flush could hold nova-compute up. Callable from several threads and processes. All methods
    raise `OSError` and nothing else.
    """

    def __init__(self, path: str | os.PathLike[str], most_files: int = MOST_FILES) -> None:
        self.path = pathlib.Path(path)
        self._most_files = most_files
        self._writes = 0

    def keep(self, item: News) -> bool:
        """Write or remove the file of an instance. False: its record is too large to be kept.

        Where it cannot be written the previous record goes: it is not true any more.
        """
        target = self.path / f"{item.uuid}{_SUFFIX}"
        if item.extra_specs is None:
            target.unlink(missing_ok=True)
            return True
        content = json.dumps({"extra_specs": item.extra_specs}, sort_keys=True).encode()
        if len(content) > MOST_BYTES:
            target.unlink(missing_ok=True)  # what it holds is out of date
            return False
        self._replace(target, content)
        if self._writes % _CHECK_EVERY == 0:
            self.clean_up()
        self._writes += 1
        return True

    def clean_up(self) -> None:
        """Remove what died processes left, and the oldest files beyond the most there may be."""
        abandoned_s = time.time() - _ABANDONED_S
        files = []
        for entry, modified_s in self._entries():
            if entry.name.startswith(_TEMPORARY):
                if modified_s < abandoned_s:
                    pathlib.Path(entry).unlink(missing_ok=True)
            elif entry.name.endswith(_SUFFIX):
                files.append((modified_s, entry.name))
        for _, name in heapq.nsmallest(len(files) - self._most_files, files):
            (self.path / name).unlink(missing_ok=True)

    def _entries(self) -> Iterator[tuple[os.DirEntry[str], float]]:
        """Yield the folder's files with the time of their last change."""
        with os.scandir(self.path) as entries:
            for entry in entries:
                with contextlib.suppress(FileNotFoundError):  # another thread removed it
                    yield entry, entry.stat(follow_symlinks=False).st_mtime

    def _replace(self, target: pathlib.Path, content: bytes) -> None:
        self.path.mkdir(mode=0o755, exist_ok=True)
        try:
            descriptor, temporary = tempfile.mkstemp(prefix=_TEMPORARY, dir=self.path)
        except OSError:
            with contextlib.suppress(OSError):
                target.unlink()
            raise
        try:
            with open(descriptor, "wb") as file:
                os.fchmod(descriptor, 0o644)  # the agent runs as another user
                file.write(content)
            os.replace(temporary, target)
        except OSError:
            for leftover in (temporary, target):
                with contextlib.suppress(OSError):
                    os.unlink(leftover)
            raise
