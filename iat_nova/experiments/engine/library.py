# SPDX-License-Identifier: Apache-2.0
"""The compiled engine, loaded at import.

A package has the library beside the sources. Without a library of equal sources, as in a checkout,
it is compiled once, into ``$XDG_CACHE_HOME/iat-nova``, else ``~/.cache/iat-nova``, else a folder of
this user below the temporary folder. The library's name has a digest of sources and flags, so
checkouts with equal sources share it. Libraries unused for 30 days are removed.

``$IAT_NOVA_ENGINE_FLAGS`` has more flags for the compiler, such as ``-DSCALAR`` or ``-fsanitize``.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import pathlib
import re
import shlex
import shutil
import stat
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence

from iat_nova.experiments.engine import layout
from iat_nova.experiments.engine.recipe import FLAGS, FOLDER, UNITS, digest

_KEPT_S = 30 * 86400.0
_TYPES: dict[str, type[ctypes._SimpleCData[int]] | type[ctypes._SimpleCData[float]]] = {
    "i64": ctypes.c_int64,
    "f64": ctypes.c_double,
}


def _cache_folders() -> Iterator[pathlib.Path]:
    """Yield the folders in which libraries may be kept, best first."""
    if base := os.environ.get("XDG_CACHE_HOME"):
        yield pathlib.Path(base) / "iat-nova"
    elif (home := pathlib.Path.home()).is_absolute():
        yield home / ".cache" / "iat-nova"
    yield pathlib.Path(tempfile.gettempdir()) / f"iat-nova-{os.getuid()}"


def cache_folder() -> pathlib.Path:
    """Return a folder that nobody else can write, created if missing. Raises `ImportError`."""
    for folder in _cache_folders():
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            status = folder.lstat()
        except OSError:
            continue
        own = status.st_uid == os.getuid() and not status.st_mode & 0o022
        if stat.S_ISDIR(status.st_mode) and own and os.access(folder, os.W_OK):
            return folder
    tried = ", ".join(map(str, _cache_folders()))
    raise ImportError(
        f"the emulated server cannot be compiled, no folder can be written: {tried}; set "
        "XDG_CACHE_HOME to a folder of your own"
    )


def _compile(target: pathlib.Path, flags: Sequence[str]) -> None:
    """Compile the units at the same time, and link these. Raises `ImportError`."""
    compiler = shlex.split(os.environ.get("CC", "")) or next(
        ([found] for name in ("cc", "gcc", "clang") if (found := shutil.which(name))), []
    )
    if not compiler:
        raise ImportError(
            "the emulated server needs a C compiler to be built once: install gcc "
            "(apt-get install gcc, dnf install gcc)"
        )
    with tempfile.TemporaryDirectory(dir=target.parent, prefix="engine-") as folder:
        objects = [f"{folder}/{unit}.o" for unit in UNITS]
        commands = [
            [*compiler, *FLAGS, *flags, "-c", str(FOLDER / unit), "-o", made]
            for unit, made in zip(UNITS, objects, strict=True)
        ]
        _run(commands)
        _run([[*compiler, *flags, "-shared", *objects, "-o", f"{folder}/engine.so"]])
        os.replace(f"{folder}/engine.so", target)


def _run(commands: Sequence[Sequence[str]]) -> None:
    """Run commands at the same time. Raises `ImportError` with the output of a failed command."""
    try:
        running = [
            subprocess.Popen(one, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            for one in commands
        ]
    except OSError as error:
        raise ImportError(f"the emulated server cannot be compiled: {error}") from error
    for command, process in zip(commands, running, strict=True):
        output, _ = process.communicate()
        if process.returncode:
            text = f"the emulated server cannot be compiled: {shlex.join(command)}"
            raise ImportError(f"{text}\n{output}")


def _built(flags: Sequence[str]) -> pathlib.Path:
    """Return the library in the cache folder, compiled if missing. Other processes wait."""
    folder = cache_folder()
    target = folder / f"engine-{digest(flags)}.so"
    if target.exists():
        os.utime(target)
        return target
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if not target.exists():
            _compile(target, flags)
        for old in folder.glob("engine-*.so"):
            if time.time() - old.stat().st_mtime > _KEPT_S:
                old.unlink()
    finally:
        os.close(descriptor)
    return target


def _packaged() -> ctypes.CDLL | None:
    """Return the library that a package has beside the sources, None without equal sources."""
    for path in FOLDER.glob("engine.*.so"):
        library = ctypes.CDLL(str(path))
        library.iat_sources.restype = ctypes.c_char_p
        if library.iat_sources() == digest().encode():
            return library
    return None


def _load() -> ctypes.CDLL:
    flags = shlex.split(os.environ.get("IAT_NOVA_ENGINE_FLAGS", ""))
    return (None if flags else _packaged()) or ctypes.CDLL(str(_built(flags)))


_LIBRARY = _load()
_PREFIX = "iat_avx2_" if _LIBRARY.iat_has_avx2() else "iat_"
_EXPORT = re.compile(r"EXPORT\((\w+), (\w+)\)\((.*?)\)", re.DOTALL)


def _functions() -> Iterator[tuple[str, Callable[..., int | float]]]:
    """Yield each function that `engine.c` exports, with the types of the arguments."""
    for kind, name, arguments in _EXPORT.findall(layout.source("engine.c")):
        function = getattr(_LIBRARY, _PREFIX + name)
        function.restype = _TYPES.get(kind)
        function.argtypes = [
            ctypes.c_void_p if "*" in argument else _TYPES[argument.split()[0]]
            for argument in arguments.split(",")
        ]
        yield name, function


FUNCTIONS = dict(_functions())
"""The engine's functions by name; pointers are addresses."""
