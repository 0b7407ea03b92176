# SPDX-License-Identifier: Apache-2.0
"""Files that people or other programs put somewhere: read whole, but never without end.

A device or a pipe in a file's place would hold its reader up for ever, the loop included.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

MOST_BYTES = 4 << 20  # a policy or scenario is a few KiB


def check_regular(path: str | Path) -> None:
    """Raise `OSError` unless a path leads to a regular file."""
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise OSError(errno.EINVAL, "is no regular file", str(path))


def read_bytes(path: str | Path, most: int = MOST_BYTES) -> bytes:
    """Return a regular file's content. Raises `OSError`, also for other kinds and for more."""
    check_regular(path)
    with open(path, "rb") as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise OSError(errno.EFBIG, f"is larger than {most} bytes", str(path))
    return content
