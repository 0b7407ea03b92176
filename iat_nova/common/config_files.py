# SPDX-License-Identifier: Apache-2.0
"""Configuration files that are read by default: nova-compute's files, then iat-nova's.

oslo.config's own search covers the files of one project only. The search also includes the home of
the calling user and leaves out ``/usr/share``, where RDO's packages put changed defaults.
"""

from __future__ import annotations

import contextlib
import errno
import fnmatch
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from iat_nova.common import kernel_files

PATTERNS = (
    "/usr/share/nova/nova-dist.conf",  # RDO
    "/etc/nova/nova.conf",
    "/etc/nova/nova-compute.conf",  # Debian, Ubuntu
    "/etc/nova/nova.conf.d/*.conf",
    "/etc/nova/nova-compute.conf.d/*.conf",
    "/usr/share/iat-nova/*-dist.conf",
    "/etc/iat-nova/iat-nova.conf",
    "/etc/iat-nova/iat-nova.conf.d/*.conf",
)
"""The patterns in reading order: if several files set an option, the last value counts."""


def by_default(root: str | Path = "/") -> list[str]:
    """Return the files of `PATTERNS` below a root that this process may read."""
    return [
        name
        for pattern in PATTERNS
        for name in _matching(Path(root, pattern[1:]))
        if may_read(name)
    ]


def _matching(pattern: Path) -> Iterator[str]:
    """Yield the files of a folder that match the last part of a path."""
    with contextlib.suppress(PermissionError):
        for name in fnmatch.filter(kernel_files.names(pattern.parent), pattern.name):
            if not name.startswith("."):
                yield str(pattern.parent / name)


def may_read(name: str | Path) -> bool:
    """Tell whether this process can open a file for reading.

    The file is opened for the test. os.access() checks the real user ID and ignores effective
    rights: with CAP_DAC_OVERRIDE the agent can read files that os.access() reports as unreadable.
    Raises `OSError`, but not for a missing file or right.
    """
    try:
        os.close(os.open(name, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY))
    except OSError as error:
        if not kernel_files.absent(error, errno.EACCES, errno.EPERM):
            raise
        return False
    return True


def folder(name: str) -> str:
    """Return a folder's name with a final slash, by which `expanded` recognises folders."""
    return os.path.join(name, "")


def expanded(names: Iterable[str | os.PathLike[str]]) -> list[str]:
    """Return the files, each folder replaced by its ``*.conf``, sorted by name. Raises `OSError`.

    A folder's name ends with a slash (`folder`).
    """
    found = []
    for given in names:
        name = os.fspath(given)
        if name.endswith("/"):
            inside = sorted(one for one in os.listdir(name) if one.endswith(".conf"))
            found += [os.path.join(name, one) for one in inside if not one.startswith(".")]
        else:
            found.append(name)
    return found
