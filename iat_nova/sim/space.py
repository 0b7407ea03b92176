# SPDX-License-Identifier: Apache-2.0
"""The address space of an emulated machine: who has which lines, and the chance behind it."""

from __future__ import annotations

import numpy as np

from iat_nova.sim.scenario import ScenarioError

# Lines of a page of 4 KiB; the largest sampling, too.
PAGE_LINES = 64
# Sampled lines that can be distinguished: an entry of a cache is a line and three bits, in 32 with
# a sign.
LINES_MAX = 1 << 28


class Space:
    """Lines, reserved one after another. `random` is the one source of chance of a machine."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self._next_line = 0

    def stretch(self, lines: int) -> int:
        """Reserve lines; the start is shifted at random by pages, with any sampling."""
        start = self._next_line + int(self.random.integers(0, 4096)) * PAGE_LINES
        self._next_line = -(-(start + lines) // PAGE_LINES) * PAGE_LINES
        return start

    def seed(self) -> int:
        """Return where somebody's own random numbers start."""
        return int(self.random.integers(1, 2**62))

    def check(self, name: str, sampling: int) -> None:
        """Raise `ScenarioError` where the last sampled line's number is too high for the caches."""
        enough = sampling
        while self._next_line // enough >= LINES_MAX:
            enough *= 2
        if enough > sampling:
            raise ScenarioError(
                f"{name}: sampling: found {sampling}; allowed: {enough} and more, as its workloads "
                "have more memory than the caches can distinguish at that"
            )
