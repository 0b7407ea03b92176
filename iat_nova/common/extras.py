# SPDX-License-Identifier: Apache-2.0
"""The commands that install the extras of this project, as they have to be typed here."""

from __future__ import annotations

import shutil
import sys

_DEBIAN = {
    "metrics": "python3-prometheus-client python3-waitress",
    "sim": "python3-numba python3-numpy",
    "dask": "python3-distributed",
}


def install(extra: str) -> str:
    """Return the command that installs an extra for this Python.

    A distribution's Python refuses pip, and the pip of the search path may be of another Python.
    """
    if sys.prefix == sys.base_prefix and extra in _DEBIAN and shutil.which("apt-get"):
        return f"apt-get install {_DEBIAN[extra]}"
    return f"{sys.executable} -m pip install 'iat-nova[{extra}]'"
