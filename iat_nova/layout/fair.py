# SPDX-License-Identifier: Apache-2.0
"""Cutting what does not fit: a way at a time from the largest."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

K = TypeVar("K")


def cut(
    counts: dict[K, int], least: Mapping[K, int], excess: int, order: Callable[[K], Any]
) -> int:
    """Take up to `excess` ways from those named in `least`, nobody below it; return the rest.

    Each way comes from the largest; among equals from the first by `order`.
    """
    while excess > 0:
        able = [key for key, floor in least.items() if counts[key] > floor]
        if not able:
            return excess
        counts[min(able, key=lambda key: (-counts[key], order(key)))] -= 1
        excess -= 1
    return excess
