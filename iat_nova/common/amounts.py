# SPDX-License-Identifier: Apache-2.0
"""Formats of figures in reasons: short, in the field's units."""

from __future__ import annotations

import math
from collections.abc import Iterable


def rate(per_s: float) -> str:
    """Return events per second as ``2.4 M/s``, ``120 k/s`` or ``30 /s``."""
    if abs(per_s) >= 1e6:
        return f"{per_s / 1e6:.1f} M/s"
    if abs(per_s) >= 1e3:
        return f"{per_s / 1e3:.0f} k/s"
    return f"{per_s:.0f} /s"


def size(count: float) -> str:
    """Return bytes as ``1.5 GiB``, ``22.0 MiB`` or ``64 KiB``."""
    for unit, shift in (("GiB", 30), ("MiB", 20)):
        if abs(count) >= 1 << shift:
            return f"{count / (1 << shift):.1f} {unit}"
    return f"{count / 1024:.0f} KiB"


def percent(fraction: float) -> str:
    """Return a signed relative change as ``+31 %``; ``from zero`` if the change is infinite."""
    return f"{fraction * 100:+.0f} %" if math.isfinite(fraction) else "from zero"


def ways(count: int) -> str:
    """Return ``1 way`` or ``3 ways``."""
    return f"{count} way" if count == 1 else f"{count} ways"


def names(all_names: Iterable[str], most: int = 4) -> str:
    """Return ``a, b, c`` or, when there are many, ``a, b, c, d and 12 more``."""
    every = list(all_names)
    shown = ", ".join(every[:most])
    return shown if len(every) <= most else f"{shown} and {len(every) - most} more"
