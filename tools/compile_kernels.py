# SPDX-License-Identifier: Apache-2.0
"""Compile the emulated server's kernels; say so first, where there are some to compile."""

from __future__ import annotations

import sys

from numba.core.event import Event, Listener, install_listener

from iat_nova.experiments.sim import warm


class _Progress(Listener):
    """Tells once that it takes a while, and on a terminal how far it is.

    numba calls it for what its cache has not.
    """

    def __init__(self) -> None:
        self.started = self.done = 0

    def on_start(self, event: Event) -> None:
        if not self.started:
            print("==> compiling the emulated server: about a minute, once for all checkouts")
        self.started += 1
        self._show()

    def on_end(self, event: Event) -> None:
        self.done += 1
        self._show()

    def _show(self) -> None:
        """Those that are called are compiled first, so both numbers rise to the end."""
        if sys.stdout.isatty():
            print(f"\r    {self.done} kernels of {self.started} or more", end="")
            if self.done == self.started:
                print("\r\x1b[K", end="")
        sys.stdout.flush()


def main() -> int:
    """Compile; the exit status is 1 when the machine code cannot be kept."""
    with install_listener("numba:compile", _Progress()):
        return warm.main()


if __name__ == "__main__":
    sys.exit(main())
