# SPDX-License-Identifier: Apache-2.0
"""Compilation of the kernels: `kernel`, a numba decorator whose cache is keyed by content.

numba keys its own caches by a file's path, and checks this file alone. So another checkout compiles
the same sources again, and a kernel whose callee changed in another module runs the old code. Here
each module has a cache folder, named by a digest of the module's source, of all modules below
iat_nova.experiments.sim that the module imports (also indirectly), and of the compiler's version.
Checkouts and environments with equal sources share the folder.

The folders are in ``$NUMBA_CACHE_DIR``, else ``$XDG_CACHE_HOME/iat-nova``, else
``~/.cache/iat-nova``, else a folder of this user below the temporary folder. Folders unused for 30
days are removed.
"""

from __future__ import annotations

import ast
import contextlib
import fcntl
import functools
import hashlib
import os
import pathlib
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar, cast

from iat_nova.common.extras import install

try:
    import llvmlite
    import numba
    from numba import types
    from numba.core import caching
    from numba.core.compiler_lock import global_compiler_lock
    from numba.np import arrayobj
except ImportError as error:  # the core is installed without the extra
    raise ImportError(
        f"the emulated server needs numba and numpy ({error}): {install('sim')}"
    ) from error

F = TypeVar("F", bound=Callable[..., Any])

_KEPT_S = 30 * 86400.0
_SIM = pathlib.Path(__file__).parent
_NAME = __name__.rpartition(".")[0]


@functools.cache
def _imports(source: pathlib.Path) -> tuple[pathlib.Path, ...]:
    """Return a module's imports among the modules of the emulated server."""
    root = _SIM.parents[2]
    found = []
    for node in ast.walk(ast.parse(source.read_bytes())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(_NAME):
            place = root.joinpath(*(node.module or "").split("."))
            names = [place / alias.name for alias in node.names]
            found += [path.with_suffix(".py") for path in (place, *names)]
    return tuple(path for path in found if path.exists())


def _made_from(source: pathlib.Path) -> list[pathlib.Path]:
    """Return a module and all its direct and indirect imports, by name."""
    found = {source}
    waiting = [source]
    while waiting:
        new = set(_imports(waiting.pop())) - found
        found |= new
        waiting += new
    return sorted(found)


@functools.cache
def digest(source: pathlib.Path) -> str:
    """Return a short digest of the sources of a module's kernels, independent of their folder."""
    found = hashlib.sha256(f"{numba.__version__} {llvmlite.__version__}".encode())
    for path in _made_from(source):
        found.update(b"\0".join((path.name.encode(), path.read_bytes(), b"")))
    return found.hexdigest()[:16]


def _candidates() -> list[pathlib.Path]:
    """Return the candidates for the cache folder, best first."""
    found = []
    if chosen := os.environ.get("NUMBA_CACHE_DIR"):
        found.append(pathlib.Path(chosen))
    if base := os.environ.get("XDG_CACHE_HOME"):
        found.append(pathlib.Path(base) / "iat-nova")
    elif (home := pathlib.Path(os.path.expanduser("~"))).is_absolute():
        found.append(home / ".cache" / "iat-nova")
    found.append(pathlib.Path(tempfile.gettempdir()) / f"iat-nova-{os.getuid()}")
    return found


@functools.cache
def cache_folder() -> pathlib.Path | None:
    """Return the parent of all modules' folders, created if missing; None if not writable."""
    for base in _candidates():
        try:
            base.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(base, os.W_OK) and base.stat().st_uid == os.getuid():
            _remove_unused(base)
            return base
    return None


def is_cold() -> bool:
    """Tell whether the engine's kernels must be compiled first: about a minute."""
    base = cache_folder()
    if base is None:
        return True
    folder = base / f"kernels-engine-{digest(_SIM / 'engine.py')}"
    return not any(folder.glob("*.nbi"))


def module_folder(base: pathlib.Path, source: pathlib.Path) -> pathlib.Path:
    """Return the folder of a module's kernels, created if missing, and refresh its time stamp."""
    folder = base / f"kernels-{source.stem}-{digest(source)}"
    folder.mkdir(mode=0o700, exist_ok=True)
    os.utime(folder)
    return folder


def _remove_unused(base: pathlib.Path) -> None:
    """Remove this user's folders unused for 30 days; skip folders that cannot be removed."""
    for folder in base.glob("kernels-*"):
        try:
            left = folder.lstat()
        except FileNotFoundError:  # another process was quicker
            continue
        if left.st_uid == os.getuid() and time.time() - left.st_mtime > _KEPT_S:
            shutil.rmtree(folder, ignore_errors=True)


_Provided: Any
try:
    _Provided = caching.UserProvidedCacheLocator
except AttributeError:  # before numba 0.62, such as Debian 13's
    _Provided = caching._UserProvidedCacheLocator


class _Locator(_Provided):  # type: ignore[misc]
    """Give numba the folder of a module; the folder's name identifies the content."""

    def __init__(self, py_func: Callable[..., Any], py_file: str) -> None:
        self._lineno = py_func.__code__.co_firstlineno
        self._py_file = py_file
        base = cast(pathlib.Path, cache_folder())
        self._cache_path = str(module_folder(base, pathlib.Path(py_file)))

    def get_source_stamp(self) -> str:
        """Return an empty stamp: all content of one folder comes from equal sources."""
        return ""

    @classmethod
    def from_function(cls, py_func: Callable[..., Any], py_file: str) -> _Locator:
        """Return the locator of a kernel."""
        return cls(py_func, py_file)


class _Implementation(caching.CompileResultCacheImpl):  # type: ignore[misc]
    _locator_classes = [_Locator]


class _Cache(caching.FunctionCache):  # type: ignore[misc]
    _impl_class = _Implementation


_held: set[str] = set()


@contextlib.contextmanager
def _alone(folder: str) -> Iterator[None]:
    """Make other processes wait while this process compiles a module's kernels.

    The caller holds numba's own lock, so a single thread of this process is here at a time. One
    process may hold the locks of several modules, in the order of their imports.
    """
    if folder in _held:
        yield
        return
    with open(f"{folder}/lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        _held.add(folder)
        try:
            yield
        finally:
            _held.remove(folder)


def _as_given(context: Any, builder: Any, kind: Any, index: Any, _size: Any) -> Any:
    return context.cast(builder, index, kind, types.intp if kind.signed else types.uintp)


@contextlib.contextmanager
def _indices_as_given() -> Iterator[None]:
    """Leave out numba's code for negative indices, which takes a tenth of the server's time.

    Kernels have no negative indices. The caller holds numba's lock, so no other code is affected.
    """
    before = arrayobj.fix_integer_index
    arrayobj.fix_integer_index = _as_given
    try:
        yield
    finally:
        arrayobj.fix_integer_index = before


def _widened(kind: Any) -> Any:
    """Return the wider type for which a kernel is compiled when another kernel passes this type.

    Otherwise literal numbers and 32-bit numbers would each have a compiled form of their own.
    """
    kind = types.unliteral(kind)
    return types.int64 if kind in (types.int8, types.int16, types.int32) else kind


def _compiled(function: F, **options: bool | str) -> F:
    """Compile with this module's cache, without reference counts: kernels create no arrays."""
    dispatcher = numba.njit(nogil=True, _nrt=False, **options)(function)
    called, compile_one = dispatcher.get_call_template, dispatcher.compile

    def call_widened(args: Any, kws: Any) -> Any:
        wide = {name: _widened(kind) for name, kind in kws.items()}
        return called(tuple(_widened(kind) for kind in args), wide)

    def compile_alone(signature: Any) -> Any:
        with global_compiler_lock, _indices_as_given(), _alone(dispatcher._cache.cache_path):
            return compile_one(signature)

    dispatcher.get_call_template = call_widened
    if cache_folder() is not None:
        dispatcher._cache = _Cache(function)
        dispatcher.compile = compile_alone
    return cast(F, dispatcher)


def kernel(function: F) -> F:
    """Compile `function` in numba's nopython mode without the GIL; keep the machine code.

    A kernel must not create arrays: reference counting, which would cost more than the work, is
    off.
    """
    return _compiled(function)


def inlined(function: F) -> F:
    """As `kernel`, for functions called for every line or in every step: inlined into callers.

    A call copies the description of every array of the state, a few hundred words.
    """
    return _compiled(function, forceinline=True)


def merged(function: F) -> F:
    """As `inlined`, for long functions called in one place: compiled once, in the caller."""
    return _compiled(function, inline="always")
