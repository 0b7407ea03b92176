# SPDX-License-Identifier: Apache-2.0
"""``python -m iat_nova.experiments.sim.warm``: compile the emulated server before its first use.

numba keeps the machine code in a folder, so that later starts need no compilation.
"""

from __future__ import annotations

import sys
import threading
import time

from iat_nova.experiments.sim._compile import cache_folder
from iat_nova.experiments.sim.reader import load_scenario
from iat_nova.experiments.sim.server import EmulatedServer


def warm() -> float:
    """Run a scenario briefly, which makes numba compile the server; return the time in seconds."""
    started = time.monotonic()
    server = EmulatedServer(load_scenario("quickstart"))
    server.wait(threading.Event(), 0.001)
    server.watch([0])
    server.read_counts()
    return time.monotonic() - started


def main() -> int:
    """Compile the emulated server by numba; print the folder of the machine code, and the time."""
    seconds = warm()
    folder = cache_folder()
    if folder is None:
        print(
            "iat-nova: no folder for compiled kernels can be written, so each start compiles "
            f"them anew ({seconds:.0f} s); set NUMBA_CACHE_DIR to one that can",
            file=sys.stderr,
        )
        return 1
    print(f"iat-nova: the emulated server is compiled ({seconds:.1f} s), kept in {folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
