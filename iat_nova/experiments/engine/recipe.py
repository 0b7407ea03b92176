# SPDX-License-Identifier: Apache-2.0
"""How the engine is compiled, for `library` and for ``setup.py``, which runs this file alone."""

from __future__ import annotations

import hashlib
import pathlib
import platform
from collections.abc import Sequence

FOLDER = pathlib.Path(__file__).parent
# Units that are compiled; these include all other files.
UNITS = ("engine.c", "engine_avx2.c")
# Results are equal on all CPUs: no fused multiply-add, no other order of floating-point operations.
FLAGS = ("-std=c11", "-O3", "-ffp-contract=off", "-fPIC", "-Wall", "-Wextra")


def digest(flags: Sequence[str] = ()) -> str:
    """Return a digest of the sources, the flags and the kind of CPU."""
    made = hashlib.sha256(" ".join((platform.machine(), *FLAGS, *flags)).encode())
    for path in sorted(FOLDER.glob("*.[ch]")):
        made.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return made.hexdigest()[:16]
