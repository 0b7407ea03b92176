# SPDX-License-Identifier: Apache-2.0
"""Noise on counters, as on real hardware."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np


class Noisy:
    """Add noise to counters and keep each counter's last reading.

    `noise`: relative standard deviation of each reading's increment.
    """

    def __init__(self, noise: float, random: np.random.Generator) -> None:
        self._noise = noise
        self._random = random
        self._seen: dict[tuple[str, int], tuple[float, float]] = {}

    def read_all(self, names: Sequence[str], index: int, totals: Iterable[float]) -> list[int]:
        """Return the readings of several counters of one CPU or domain."""
        return [self.read(name, index, n) for name, n in zip(names, totals, strict=True)]

    def read(self, name: str, index: int, total: float) -> int:
        """Return a counter's reading: the total, with noise on the increment of each reading."""
        if not self._noise:
            return int(total)
        before, shown = self._seen.get((name, index), (0.0, 0.0))
        factor = max(0.0, 1.0 + self._noise * float(self._random.standard_normal()))
        shown += (total - before) * factor
        self._seen[name, index] = (total, shown)
        return int(shown)
