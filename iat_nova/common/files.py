# SPDX-License-Identifier: Apache-2.0
"""Files from operators or other programs: read as a whole, with limits.

A device or a pipe in place of a file would block its reader for ever, and with the reader the loop.
A file is checked after the open, so another program cannot replace the file in between. O_NONBLOCK
opens a pipe without waiting for a writer.

An operator names these files (policy, configuration, scenario). Links are followed, as they are
usual in ``/etc``. For files in folders of other accounts, see `owned_folder`.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

MOST_BYTES = 4 << 20  # a policy or scenario is a few KiB


def read_bytes(path: str | Path, most: int = MOST_BYTES) -> bytes:
    """Return a regular file's content. Raises `OSError`, also for other kinds and beyond `most`."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "is not a regular file", str(path))
    return read_open(fd, path, most)


def read_open(fd: int, path: str | Path, most: int) -> bytes:
    """Return an open file's content, and close the file. Raises `OSError` that names `path`."""
    with open(fd, "rb") as file:
        try:
            content = file.read(most + 1)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(path)) from error
    if len(content) > most:
        raise OSError(errno.EFBIG, f"is larger than {most} bytes", str(path))
    return content
