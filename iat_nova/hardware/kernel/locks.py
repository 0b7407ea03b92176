# SPDX-License-Identifier: Apache-2.0
"""Files that one process at a time locks (flock), and the holder of a lock."""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path

from iat_nova.common.owned_folder import HeldFile
from iat_nova.hardware.kernel import files

PQOS_LOCK = Path("/var/lock/libpqos")
"""The lock of processes with libpqos: in newer versions held for the whole time of use."""


class LockHeld(Exception):
    """Another process holds the lock; `owner` is the PID in the file."""

    def __init__(self, owner: str) -> None:
        super().__init__(owner)
        self.owner = owner


class FileLock(HeldFile):
    """The lock of this process on the file at a path, with the PID in the file.

    All methods raise `LockHeld`, and `OSError` with the path of the file.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path, _lock)


def _lock(fd: int) -> None:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        owner = os.pread(fd, 32, 0).decode(errors="replace").strip()
        raise LockHeld(owner or "unknown") from None
    with contextlib.suppress(OSError):  # /run may be full; only messages use the PID
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)


def lock_holder(path: Path, proc: Path = Path("/proc")) -> int | None:
    """Return the PID of the process that holds a lock on a file, or None.

    The holder is read from ``/proc/locks`` by inode: a try to lock could make the owner's next try
    fail. Raises `HardwareError`.
    """
    status, locks = files.status(path), files.text_of(proc / "locks")
    if status is None:
        return None
    device = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    for line in locks.splitlines():
        fields = line.split()
        if device in fields and "->" not in fields:
            return int(fields[fields.index(device) - 1])
    return None
