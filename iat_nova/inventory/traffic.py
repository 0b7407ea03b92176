# SPDX-License-Identifier: Apache-2.0
"""Packet rates between inventories, from counters that may be reset at any time."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

Key = tuple[str, int, str]  # guest's uuid, its run, device


@dataclasses.dataclass(frozen=True, slots=True)
class _Mark:
    packets: int
    at_s: float
    packets_per_s: float | None  # over the window that ended here


class Traffic:
    """Computes rates from counts at least `window_s` apart: reconciles may come in bursts."""

    def __init__(self, window_s: float = 1.0) -> None:
        self._window_s = window_s
        self._marks: dict[Key, _Mark] = {}

    def rates(self, now_s: float, packets: Mapping[Key, int]) -> Mapping[Key, float | None]:
        """Return packets per second by key; None until two counts are a window apart.

        A count below the last count was reset: the measurement starts again. Within the window the
        last rate is returned. Keys without a count are forgotten.
        """
        self._marks = {key: self._mark(key, now_s, count) for key, count in packets.items()}
        return {key: mark.packets_per_s for key, mark in self._marks.items()}

    def _mark(self, key: Key, now_s: float, count: int) -> _Mark:
        last = self._marks.get(key)
        if last is None or count < last.packets:
            return _Mark(count, now_s, None)
        elapsed_s = now_s - last.at_s
        if elapsed_s < self._window_s:
            return last
        return _Mark(count, now_s, (count - last.packets) / elapsed_s)
