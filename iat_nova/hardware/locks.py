# SPDX-License-Identifier: Apache-2.0
"""Files that one process at a time locks (flock), and who holds a lock."""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path

from iat_nova.common import files

PQOS_LOCK = Path("/var/lock/libpqos")
"""Held by a process that uses libpqos: in newer versions for as long as it does."""


class LockHeld(Exception):
    """Another process holds the lock; `owner` is its number, as it wrote it into the file."""

    def __init__(self, owner: str) -> None:
        super().__init__(owner)
        self.owner = owner


def acquire(path: Path) -> int:
    """Lock a file with our process number in it; return its descriptor, which holds the lock.

    File and folder are made where missing. The kernel drops the lock with the descriptor, however
    its process ends. The folder may be the service's and the caller root: what is not a regular
    file, a symbolic link too, is refused. Raises `LockHeld`, and `OSError` which names the file.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.ExitStack() as undo:
            fd = files.open_own(path, os.O_RDWR | os.O_CREAT)
            undo.callback(os.close, fd)
            _lock(fd)
            os.ftruncate(fd, 0)
            os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
            undo.pop_all()
            return fd
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


def _lock(fd: int) -> None:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        owner = os.pread(fd, 32, 0).decode(errors="replace").strip()
        raise LockHeld(owner or "unknown") from None


def lock_holder(path: Path, proc: Path = Path("/proc")) -> int | None:
    """Return the process that holds a lock on a file, None when nobody does.

    Read in ``/proc/locks`` by inode: asking for the lock could make its owner's next try fail.
    """
    try:
        status = path.stat()
        locks = (proc / "locks").read_text()
    except OSError:
        return None
    device = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    for line in locks.splitlines():
        fields = line.split()
        if device in fields and "->" not in fields:
            return int(fields[fields.index(device) - 1])
    return None
