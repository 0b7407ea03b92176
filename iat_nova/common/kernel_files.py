# SPDX-License-Identifier: Apache-2.0
"""Files whose absence is an answer. Every other failure of a reading raises `OSError`."""

from __future__ import annotations

import errno
import os
from pathlib import Path


def absent(error: OSError, *others: int) -> bool:
    """Return whether an error means a missing file: by its number, or one of `others`."""
    return error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG, *others)


def status(path: str | os.PathLike[str]) -> os.stat_result | None:
    """Return the status of a path, links followed; None if missing."""
    try:
        return os.stat(path)
    except OSError as error:
        if not absent(error):
            raise
        return None


def exists(path: str | os.PathLike[str]) -> bool:
    """Return whether a path exists; `Path.exists` takes errors for absence."""
    return status(path) is not None


def names(folder: Path, *others: int) -> list[str]:
    """Return the sorted names in a folder; empty if missing, see `absent`."""
    try:
        return sorted(os.listdir(folder))
    except OSError as error:
        if not absent(error, *others):
            raise
        return []


def target(link: Path) -> str | None:
    """Return the name to which a symbolic link points; None without a link."""
    try:
        return link.readlink().name
    except OSError as error:
        if not absent(error, errno.EINVAL):
            raise
        return None


def text_of(path: Path, *others: int) -> str:
    """Return a file's text; empty if missing, see `absent`."""
    try:
        return path.read_text(errors="replace").strip()
    except OSError as error:
        if not absent(error, *others):
            raise
        return ""


def number_of(path: Path, *others: int) -> int | None:
    """Return a file's number; None without number or file, see `absent`."""
    try:
        return int(text_of(path, *others))
    except ValueError:
        return None
