# SPDX-License-Identifier: Apache-2.0
"""Extra specs in Nova's notifications about instances on this host, and the folder that keeps them.

This module runs inside nova-compute, so only the standard library is imported.
`iat_nova.inventory.spool` is the reader, in the agent.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import heapq
import json
import os
import pathlib
import secrets
import time
import uuid
from collections.abc import Iterator, Mapping

MOST_FILES = 2048
"""More instances than a host has; beyond this number the oldest files are removed."""

MOST_BYTES = 128 * 1024
"""The maximum size of a record. Nova's own limits (128 extra specs of 255 characters) fit."""

_CHECK_EVERY = 64  # writes between two checks of the number of files
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


@dataclasses.dataclass(frozen=True)
class News:
    """The content of a notification about an instance; `extra_specs` None: it has left."""

    uuid: str
    extra_specs: Mapping[str, str] | None


def news(message: object) -> News | None:
    """Parse one notification; None if the notification is not about an instance on this host.

    `message` is a message from oslo.messaging to a driver. Only versioned payloads carry extra
    specs. Never raises, for any message.
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
    """Whether a guest returns to the host from which it was resized or migrated.

    The host that the guest leaves sends nothing but ``instance.exists``.
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
    return _member(value, "nova_object.data")


def _uuid(text: str) -> str | None:
    """Return a UUID in libvirt's spelling, which is safe as a file's name; None for other text."""
    try:
        return str(uuid.UUID(text))
    except ValueError:
        return None


class SpoolFolder:
    """A folder that keeps the extra specs of each instance in a file, bounded in number and size.

    A file is replaced as a whole. Each call opens the folder once and uses the descriptor. A
    symbolic link in place of the folder, or a folder of another account, is refused: another
    account could redirect writes. Files are not flushed to disk: a power failure ends the guests as
    well, and a flush could delay nova-compute.

    Callable from several threads and processes. All methods raise `OSError` and nothing else.
    """

    def __init__(self, path: str | os.PathLike[str], most_files: int = MOST_FILES) -> None:
        self.path = pathlib.Path(path)
        self._most_files = most_files
        self._writes = 0

    def keep(self, item: News) -> bool:
        """Write or remove the file of an instance. Return False if the record is too large.

        If the new record cannot be written, the previous record is removed, as it is out of date.
        """
        name = f"{item.uuid}{_SUFFIX}"
        if item.extra_specs is None:
            with contextlib.suppress(FileNotFoundError), self._opened() as folder:
                os.unlink(name, dir_fd=folder)
            return True
        content = json.dumps({"extra_specs": item.extra_specs}, sort_keys=True).encode()
        self.path.mkdir(mode=0o755, exist_ok=True)
        with self._opened() as folder:
            if len(content) > MOST_BYTES:
                _unlink(name, folder)  # the old content is out of date
                return False
            _replace(folder, name, content)
        if self._writes % _CHECK_EVERY == 0:
            self.clean_up()
        self._writes += 1
        return True

    def clean_up(self) -> None:
        """Remove abandoned temporary files, and the oldest files beyond the maximum number."""
        abandoned_s = time.time() - _ABANDONED_S
        records = []
        with self._opened() as folder:
            for name, modified_s in _entries(folder):
                if name.startswith(_TEMPORARY):
                    if modified_s < abandoned_s:
                        _unlink(name, folder)
                elif name.endswith(_SUFFIX):
                    records.append((modified_s, name))
            for _, name in heapq.nsmallest(len(records) - self._most_files, records):
                _unlink(name, folder)

    @contextlib.contextmanager
    def _opened(self) -> Iterator[int]:
        """Yield a descriptor of the folder, which belongs to this account or to root."""
        folder = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            if os.fstat(folder).st_uid not in (os.geteuid(), 0):
                text = "belongs to another account; install -d -o nova"
                raise PermissionError(errno.EPERM, text, str(self.path))
            yield folder
        finally:
            os.close(folder)


def _entries(folder: int) -> Iterator[tuple[str, float]]:
    """Yield a folder's files with the times of last change; links are not followed."""
    with os.scandir(folder) as entries:
        for entry in entries:
            with contextlib.suppress(FileNotFoundError):  # another thread removed it
                yield entry.name, entry.stat(follow_symlinks=False).st_mtime


def _replace(folder: int, name: str, content: bytes) -> None:
    temporary = f"{_TEMPORARY}{secrets.token_hex(8)}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with open(os.open(temporary, flags, 0o600, dir_fd=folder), "wb") as file:
            os.fchmod(file.fileno(), 0o644)  # the agent runs as another user
            file.write(content)
        os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError:
        for leftover in (temporary, name):
            with contextlib.suppress(OSError):
                os.unlink(leftover, dir_fd=folder)
        raise


def _unlink(name: str, folder: int) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder)
