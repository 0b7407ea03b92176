# SPDX-License-Identifier: Apache-2.0
"""Which sources a measurement depends on: what other ones measured is not comparable."""

from __future__ import annotations

import functools
import hashlib
import pathlib
from collections.abc import Iterable

import iat_nova

PACKAGE = pathlib.Path(iat_nova.__file__).parent
_SUFFIXES = frozenset({".py", ".yaml", ".j2"})
_SHOW = frozenset({"cmd", "report"})


@functools.cache
def everything() -> tuple[pathlib.Path, ...]:
    """Return all sources of this package but those that only show."""
    return tuple(
        source
        for source in sorted(PACKAGE.rglob("*"))
        if source.suffix in _SUFFIXES and not _SHOW & set(source.relative_to(PACKAGE).parts)
    )


def digest(files: Iterable[pathlib.Path]) -> str:
    """Return a digest of what files contain."""
    return _digest(tuple(files))


@functools.cache
def _digest(files: tuple[pathlib.Path, ...]) -> str:
    found = hashlib.sha256()
    for file in files:
        found.update(file.read_bytes())
    return found.hexdigest()[:16]
