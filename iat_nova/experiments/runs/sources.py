# SPDX-License-Identifier: Apache-2.0
"""The sources on which a measurement depends: results of other sources are not comparable."""

from __future__ import annotations

import ast
import functools
import hashlib
import pathlib
from collections.abc import Iterable, Iterator

import iat_nova

PACKAGE = pathlib.Path(iat_nova.__file__).parent
_DATA = frozenset({".yaml", ".j2", ".c", ".h"})
_SHOW = frozenset({"cmd", "report"})


@functools.cache
def everything() -> tuple[pathlib.Path, ...]:
    """Return all sources of `iat_nova` except the packages that only show results."""
    return tuple(
        source
        for source in sorted(PACKAGE.rglob("*"))
        if source.suffix in _DATA | {".py"} and not _SHOW & set(source.relative_to(PACKAGE).parts)
    )


@functools.cache
def closure(*modules: str) -> tuple[pathlib.Path, ...]:
    """Return the sources of modules, of all their direct and indirect imports, and their data.

    Packages that only show results are left out. The data of a module are the data files of its
    folder. Modules that are found by name at run time, such as strategies, do not count as imports.
    """
    due = {_source(module) for module in modules}
    sources: set[pathlib.Path] = set()
    while due:
        source = due.pop()
        sources.add(source)
        due |= set(_imports(source)) - sources
    data = {
        path
        for folder in {source.parent for source in sources}
        for path in folder.iterdir()
        if path.suffix in _DATA
    }
    return tuple(sorted(sources | data))


def _source(module: str) -> pathlib.Path:
    place = PACKAGE.parent.joinpath(*module.split("."))
    return place / "__init__.py" if place.is_dir() else place.with_suffix(".py")


def _imports(source: pathlib.Path) -> Iterator[pathlib.Path]:
    """Yield the sources of `iat_nova` that a module imports, and their packages' own sources."""
    modules: set[str] = set()
    for node in ast.walk(ast.parse(source.read_bytes())):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            modules |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
    for module in modules:
        names = module.split(".")
        if names[0] == PACKAGE.name and not _SHOW & set(names):
            paths = (_source(".".join(names[:count])) for count in range(1, len(names) + 1))
            yield from (path for path in paths if path.is_file())


def digest(files: Iterable[pathlib.Path]) -> str:
    """Return a digest of the files' contents."""
    return _digest(tuple(files))


def digest_text(text: str) -> str:
    """Return a digest of a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@functools.cache
def _digest(files: tuple[pathlib.Path, ...]) -> str:
    contents = hashlib.sha256()
    for file in files:
        contents.update(file.read_bytes())
    return contents.hexdigest()[:16]
