# SPDX-License-Identifier: Apache-2.0
"""Files that people or other programs put somewhere: read whole, but never without end.

A device or a pipe in a file's place would hold its reader up for ever, the loop included. A file is
opened first and looked at then, so nothing can be put in its place in between; to open a pipe does
not wait for its writer (O_NONBLOCK).

An operator names these files (policy, configuration, scenario), and links are followed: in ``/etc``
they are usual. Files in folders of other accounts are `owned_folder`'s.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

MOST_BYTES = 4 << 20  # a policy or scenario is a few KiB


def read_bytes(path: str | Path, most: int = MOST_BYTES) -> bytes:
    """Return a regular file's content. Raises `OSError`, also for other kinds and for more."""
    with open(_open(path), "rb") as file:
        try:
            content = file.read(most + 1)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(path)) from error
    if len(content) > most:
        raise OSError(errno.EFBIG, f"is larger than {most} bytes", str(path))
    return content


def _open(path: str | Path) -> int:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "is not a regular file", str(path))
    return fd
