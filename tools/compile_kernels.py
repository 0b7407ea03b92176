# SPDX-License-Identifier: Apache-2.0
"""Compile the emulated server's kernels; say so first, where there are some to compile."""

from __future__ import annotations

import sys

from numba.core.event import Event, Listener, install_listener

from iat_nova.sim import warm


class _Announce(Listener):
    """Tells once that it takes a while. numba calls it for what its cache has not."""

    told = False

    def on_start(self, event: Event) -> None:
        if not self.told:
            print("==> compiling the emulated server: half a minute, more on a busy machine")
            sys.stdout.flush()
            self.told = True

    def on_end(self, event: Event) -> None:
        pass


def main() -> int:
    """Compile; the exit status is 1 when the machine code cannot be kept."""
    with install_listener("numba:compile", _Announce()):
        return warm.main()


if __name__ == "__main__":
    sys.exit(main())
