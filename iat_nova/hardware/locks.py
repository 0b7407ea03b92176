# SPDX-License-Identifier: Apache-2.0
"""Who holds a lock on a file, found out without touching the lock."""

from __future__ import annotations

import os
from pathlib import Path

PQOS_LOCK = Path("/var/lock/libpqos")
"""Held by a process that uses libpqos: in newer versions for as long as it does."""


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
