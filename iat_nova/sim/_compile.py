# SPDX-License-Identifier: Apache-2.0
"""How the kernels are compiled: `kernel`, a numba decorator whose cache always works.

numba looks at the time of change of one file only and so would run old code when a kernel in
another module changed, and it may find the package's folder read-only. Both are avoided by a
cache folder of our own, named after the content of all kernel sources:
``$NUMBA_CACHE_DIR``, else ``$XDG_CACHE_HOME/iat-nova``, else ``~/.cache/iat-nova``, else a folder
of this user's below the temporary one. Folders of other contents that were not used for 30 days go.
"""

from __future__ import annotations

import functools
import hashlib
import os
import pathlib
import shutil
import tempfile
import time
from collections.abc import Callable
from typing import Any, TypeVar, cast

try:
    import numba
    import numba.core.config
except ImportError as error:  # the core is installed without the extra
    raise ImportError(
        "the emulated server needs numba and numpy, which are not installed: "
        "pip install 'iat-nova[sim]'"
    ) from error

F = TypeVar("F", bound=Callable[..., Any])

_KEPT_S = 30 * 86400.0


def _digest() -> str:
    """Return a short digest of every source but the figures', which compile nothing."""
    folder = pathlib.Path(__file__).parent
    digest = hashlib.sha256(numba.__version__.encode())
    for source in sorted(folder.rglob("*.py")):
        if source.parent.name != "figures":
            digest.update(source.read_bytes())
    return digest.hexdigest()[:16]


def _candidates() -> list[pathlib.Path]:
    """Return the folders in which a cache may be made, best first."""
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
    """Return the folder of compiled kernels, made if need be; None when none can be written."""
    for base in _candidates():
        folder = base / f"kernels-{_digest()}"
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(folder, os.W_OK) and folder.stat().st_uid == os.getuid():
            os.utime(folder)
            _remove_unused(base)
            return folder
    return None


def _remove_unused(base: pathlib.Path) -> None:
    """Remove what other versions left, some 40 MB each; what cannot be removed stays."""
    for folder in base.glob("kernels-*"):
        try:
            left = folder.lstat()
        except FileNotFoundError:  # another process was quicker
            continue
        if left.st_uid == os.getuid() and time.time() - left.st_mtime > _KEPT_S:
            shutil.rmtree(folder, ignore_errors=True)


def _compiled(function: F, **options: bool) -> F:
    """Compile with a cache folder of ours; without reference counts, as kernels make no arrays."""
    folder = cache_folder()
    before = numba.core.config.CACHE_DIR
    numba.core.config.CACHE_DIR = str(folder or "")
    try:
        decorate = numba.njit(nogil=True, cache=folder is not None, _nrt=False, **options)
        return cast(F, decorate(function))
    finally:
        numba.core.config.CACHE_DIR = before


def kernel(function: F) -> F:
    """Compile `function` in numba's nopython mode without the GIL; keep the machine code.

    A kernel must not make arrays: reference counting is off, which would cost more than the work.
    """
    return _compiled(function)


def inlined(function: F) -> F:
    """As `kernel`, for what is small and called for every line: inlined into its callers."""
    return _compiled(function, forceinline=True)
