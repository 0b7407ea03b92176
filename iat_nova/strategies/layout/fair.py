# SPDX-License-Identifier: Apache-2.0
"""Reduce over-committed way counts, one way at a time, largest first."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

K = TypeVar("K")


def cut(
    counts: dict[K, int], least: Mapping[K, int], excess: int, order: Callable[[K], Any]
) -> int:
    """Take up to `excess` ways from the keys of `least`; return the number of ways still in excess.

    `least`: the minimum of each key, in ways; no count falls below its minimum. Each way comes from
    the largest count; among equal counts from the first key by `order`. `counts` changes in place.
    """
    while excess > 0:
        able = [key for key, floor in least.items() if counts[key] > floor]
        if not able:
            return excess
        counts[min(able, key=lambda key: (-counts[key], order(key)))] -= 1
        excess -= 1
    return excess
