# SPDX-License-Identifier: Apache-2.0
"""Counters whose readings are a little off, as real ones are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np


class Noisy:
    """Remembers what each counter showed. `noise`: relative standard deviation of what is added."""

    def __init__(self, noise: float, random: np.random.Generator) -> None:
        self._noise = noise
        self._random = random
        self._seen: dict[tuple[str, int], tuple[float, float]] = {}

    def read_all(self, names: Sequence[str], index: int, totals: Iterable[float]) -> list[int]:
        """Return the readings of several counters of one CPU or domain."""
        return [self.read(name, index, n) for name, n in zip(names, totals, strict=True)]

    def read(self, name: str, index: int, total: float) -> int:
        """Return a counter's reading: the total, with noise on what each reading adds."""
        if not self._noise:
            return int(total)
        before, shown = self._seen.get((name, index), (0.0, 0.0))
        factor = max(0.0, 1.0 + self._noise * float(self._random.standard_normal()))
        shown += (total - before) * factor
        self._seen[name, index] = (total, shown)
        return int(shown)
