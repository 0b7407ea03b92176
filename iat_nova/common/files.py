# SPDX-License-Identifier: Apache-2.0
"""Files that people or other programs put somewhere: read whole, but never without end.

A device or a pipe in a file's place would hold its reader up for ever, the loop included. A file is
opened first and looked at then, so nothing can be put in its place in between; to open a pipe does
not wait for its writer (O_NONBLOCK).

A symbolic link is followed where an operator named the file (policy, configuration, scenario: in
``/etc`` links are usual), and refused where a less privileged user may write into the folder: the
spool, and the folders of the service's user, in which root looks too.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import tempfile
from pathlib import Path

MOST_BYTES = 4 << 20  # a policy or scenario is a few KiB


def open_own(path: str | Path, flags: int) -> int:
    """Return a descriptor of a regular file in a folder that somebody less privileged may write.

    A file that is made has mode 0644. Raises `OSError`, also for a symbolic link (ELOOP).
    """
    return _open(path, flags | os.O_NOFOLLOW)


def read_bytes(path: str | Path, most: int = MOST_BYTES, *, follow: bool = True) -> bytes:
    """Return a regular file's content. Raises `OSError`, also for other kinds and for more.

    A symbolic link is refused unless `follow`.
    """
    with open(_open(path, os.O_RDONLY | (0 if follow else os.O_NOFOLLOW)), "rb") as file:
        try:
            content = file.read(most + 1)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(path)) from error
    if len(content) > most:
        raise OSError(errno.EFBIG, f"is larger than {most} bytes", str(path))
    return content


def replace_text(path: Path, text: str, mode: int = 0o644, *, durable: bool = False) -> None:
    """Put a file in the place of another at once: who reads it sees all or nothing of the text.

    `durable`: and wait until it is on the disk. Raises `OSError`.
    """
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with open(handle, "w", encoding="utf-8") as file:
            file.write(text)
            if durable:
                file.flush()
                os.fsync(handle)
        os.chmod(name, mode)
        os.replace(name, path)
        if durable:
            sync_folder(path.parent)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise


def sync_folder(path: Path) -> None:
    """Wait until what changed in a folder is on the disk. Raises `OSError`."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _open(path: str | Path, flags: int) -> int:
    fd = os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY, 0o644)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "is not a regular file", str(path))
    return fd
