# SPDX-License-Identifier: Apache-2.0
"""The command that installs an extra here."""

from __future__ import annotations

import shutil
import sys

_DEBIAN = {
    "metrics": "python3-prometheus-client",
    "sim": "python3-matplotlib python3-numpy",
    "dask": "python3-distributed",
}


def of_distribution() -> bool:
    """Tell whether this Python is the distribution's own, which may refuse pip.

    The Python of a virtual environment is not, nor one below /usr/local or in a home directory.
    """
    return sys.prefix == "/usr"


def install(extra: str) -> str:
    """Return the command that installs an extra for this Python.

    It names this Python's own pip: the pip of the search path may be of another Python.
    """
    if not of_distribution():
        return f"{sys.executable} -m pip install 'iat-nova[{extra}]'"
    if extra in _DEBIAN and shutil.which("apt-get"):
        return f"apt-get install {_DEBIAN[extra]}"
    return f"pip install 'iat-nova[{extra}]' in a virtual environment"
