# SPDX-License-Identifier: Apache-2.0
"""The sources on which a measurement depends: results of other sources are not comparable."""

from __future__ import annotations

import functools
import hashlib
import pathlib
from collections.abc import Iterable

import iat_nova

PACKAGE = pathlib.Path(iat_nova.__file__).parent
_SUFFIXES = frozenset({".py", ".yaml", ".j2"})
_SHOW = frozenset({"cmd", "report"})
# Modules of the emulated server that draw, organise runs, or only propose layouts.
_BESIDE = frozenset(
    {
        "advise.py",
        "bound_search.py",
        "compare_chart.py",
        "draw.py",
        "kept_runs.py",
        "overview.py",
        "parallel.py",
        "store.py",
        "warm.py",
        "workload_rows.py",
    }
)
_APART = _BESIDE | {"figures", "scenarios"}


@functools.cache
def everything() -> tuple[pathlib.Path, ...]:
    """Return all sources of `iat_nova` except the packages that only show results."""
    return tuple(
        source
        for source in sorted(PACKAGE.rglob("*"))
        if source.suffix in _SUFFIXES and not _SHOW & set(source.relative_to(PACKAGE).parts)
    )


@functools.cache
def yardstick() -> tuple[pathlib.Path, ...]:
    """Return the sources that determine a given layout's performance on the emulated server.

    Strategies and figures are not among the sources. Scenarios, and the performance-critical guests
    in a scenario, are compared by their content.
    """
    parts = {source: source.relative_to(PACKAGE).parts for source in everything()}
    return tuple(
        source
        for source, path in parts.items()
        if path == ("hardware", "cat", "limits.py")
        or ({"model", "sim"} & set(path[:2]) and not _APART & set(path))
    )


def digest(files: Iterable[pathlib.Path]) -> str:
    """Return a digest of the files' contents."""
    return _digest(tuple(files))


def digest_text(text: str) -> str:
    """Return a digest of a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@functools.cache
def _digest(files: tuple[pathlib.Path, ...]) -> str:
    found = hashlib.sha256()
    for file in files:
        found.update(file.read_bytes())
    return found.hexdigest()[:16]
