# SPDX-License-Identifier: Apache-2.0
"""A note of the agent's state directory, for a restore that cannot read the configuration.

The note is a file in ``/run``, where only root creates files: root's restore works in the noted
folder. The unit writes the note as root before each start; an agent that runs as root also writes
the note. An earlier folder stays in the note while it holds a snapshot: the configured state
directory may change before the host is restored.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from iat_nova.common.kernel_files import absent
from iat_nova.common.owned_folder import OwnedFolder

POINTER = Path("/run/iat-nova.state-dir")
OWNER = 0
"""The user id whose note counts."""

LEFT = ("snapshot.json", "hand-over.json")
"""The files of a state directory from which a host is restored."""

_MOST_BYTES = 4096  # PATH_MAX
_MOST_FOLDERS = 8  # an agent does not start before a restore from the earlier folders
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def write(state_dir: Path) -> None:
    """Note a state directory; the note lasts until a reboot. Raises `OSError`."""
    folder = Path(os.path.abspath(state_dir))
    earlier = [one for one in read() if one != folder and holds_snapshot(one)]
    lines = "".join(f"{one}\n" for one in (folder, *earlier)[:_MOST_FOLDERS])
    OwnedFolder(POINTER.parent).replace(POINTER.name, lines)


def read() -> tuple[Path, ...]:
    """Return the noted state directories, latest first; empty if root is not the note's owner.

    Raises `OSError` for a note that cannot be read.
    """
    most = _MOST_BYTES * _MOST_FOLDERS
    try:
        with open(OwnedFolder(POINTER.parent).open(POINTER.name), "rb") as file:
            status = os.fstat(file.fileno())
            content = os.fsdecode(file.read(most + 1))
    except OSError as error:
        if not absent(error, errno.ELOOP):  # a link
            raise
        return ()
    if status.st_uid != OWNER or status.st_mode & _OTHERS_WRITE:
        return ()
    paths = content.removesuffix("\n").split("\n")
    sound = len(content) <= most and len(paths) <= _MOST_FOLDERS and all(map(_sound, paths))
    return tuple(map(Path, paths)) if sound else ()


def holds_snapshot(state_dir: Path) -> bool:
    """Return whether a folder has files for a restore; True if the folder cannot be examined."""
    try:
        folder = OwnedFolder(state_dir)
        return any(folder.status(name) for name in LEFT)
    except OSError:
        return True


def _sound(path: str) -> bool:
    return path.startswith("/") and len(path) < _MOST_BYTES and "\0" not in path
