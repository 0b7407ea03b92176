# SPDX-License-Identifier: Apache-2.0
"""Where the agent keeps its state, noted for a restore that cannot read the configuration.

The note lies in ``/run``, where root alone makes files: root's restore works in the folder that the
note names. The unit has root write it before each start, and so does an agent that runs as root.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from iat_nova.common.owned_folder import OwnedFolder

POINTER = Path("/run/iat-nova.state-dir")
OWNER = 0
"""The user whose note counts."""

_MOST_BYTES = 4096  # PATH_MAX
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def write(state_dir: Path) -> None:
    """Note a state directory; the note is there until a reboot. Raises `OSError`."""
    OwnedFolder(POINTER.parent).replace(POINTER.name, f"{os.path.abspath(state_dir)}\n")


def read() -> Path | None:
    """Return the state directory that was noted; None without a note that root wrote."""
    try:
        with open(OwnedFolder(POINTER.parent).open(POINTER.name), "rb") as file:
            status = os.fstat(file.fileno())
            content = os.fsdecode(file.read(_MOST_BYTES + 1))
    except OSError:
        return None
    if status.st_uid != OWNER or status.st_mode & _OTHERS_WRITE:
        return None
    path = content.removesuffix("\n")
    sound = path.startswith("/") and len(path) < _MOST_BYTES and not {"\n", "\0"} & set(path)
    return Path(path) if sound else None
