# SPDX-License-Identifier: Apache-2.0
"""Rank correlation (Spearman): whether one number puts things in the order of another."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

LEAST = 3
"""Fewest pairs that have a correlation."""


def correlation(pairs: Sequence[tuple[float, float]]) -> float | None:
    """Return the rank correlation, -1..1; None with too few pairs, or if one side is all alike."""
    if len(pairs) < LEAST:
        return None
    first, second = (_ranks(values) for values in zip(*pairs, strict=True))
    try:
        return statistics.correlation(first, second)
    except statistics.StatisticsError:  # one side is constant
        return None


def _ranks(values: Sequence[float]) -> list[float]:
    """Return the rank of each value; equal values share the mean of their ranks."""
    ordered = sorted(values)
    return [ordered.index(one) + (ordered.count(one) - 1) / 2 for one in values]
