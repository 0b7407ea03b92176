# SPDX-License-Identifier: Apache-2.0
"""The address space of an emulated machine: reserved lines, and the source of all chance."""

from __future__ import annotations

import numpy as np

from iat_nova.experiments.scenarios.scenario import ScenarioError

# Lines of a page of 4 KiB; also the largest sampling.
PAGE_LINES = 64
# Maximum number of sampled lines: a cache entry is a line and three bits, in signed 32 bits.
LINES_MAX = 1 << 28


class LineSpace:
    """Lines, reserved one after another. `random`: the source of all chance in a machine."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self._next_line = 0

    def stretch(self, lines: int) -> int:
        """Reserve lines; the start is shifted by a random number of pages, with any sampling."""
        start = self._next_line + int(self.random.integers(0, 4096)) * PAGE_LINES
        self._next_line = -(-(start + lines) // PAGE_LINES) * PAGE_LINES
        return start

    def seed(self) -> int:
        """Return a seed for a separate sequence of random numbers."""
        return int(self.random.integers(1, 2**62))

    def check(self, name: str, sampling: int, most: int = LINES_MAX) -> None:
        """Raise `ScenarioError` if there are more than `most` sampled lines."""
        enough = sampling
        while self._next_line // enough >= most:
            enough *= 2
        if enough > sampling:
            raise ScenarioError(
                f"{name}: sampling: invalid value {sampling}: expected {enough} or more, as its "
                "workloads have more memory than the caches can distinguish at that"
            )
