# SPDX-License-Identifier: Apache-2.0
"""Quantities as people write them: ``3%``, ``1M/s``, ``500ms``, ``1MiB``.

A bare number is accepted where one unit alone makes sense: a fraction, a rate a second, a
duration in seconds. A size must say its unit.
"""

from __future__ import annotations

import decimal
import enum
import re
from collections.abc import Mapping


class Kind(enum.StrEnum):
    """What a quantity measures, and with it the base unit of `parse`'s result."""

    FRACTION = "fraction"  # 1
    RATE = "rate"  # 1/s
    DURATION = "duration"  # s
    SIZE = "size"  # bytes


_UNITS: Mapping[Kind, Mapping[str, str]] = {
    Kind.FRACTION: {"": "1", "%": "0.01"},
    Kind.RATE: {"": "1", "/s": "1", "k/s": "1e3", "K/s": "1e3", "M/s": "1e6", "G/s": "1e9"},
    Kind.DURATION: {"": "1", "us": "1e-6", "ms": "1e-3", "s": "1", "min": "60", "h": "3600"},
    Kind.SIZE: {
        "B": "1",
        "kB": "1e3",
        "KB": "1e3",
        "MB": "1e6",
        "GB": "1e9",
        "KiB": "1024",
        "MiB": "1048576",
        "GiB": "1073741824",
    },
}

_EXAMPLES: Mapping[Kind, str] = {
    Kind.FRACTION: "a fraction such as 3% or 0.03",
    Kind.RATE: "a rate such as 100k/s, 1M/s or 1000 (a second)",
    Kind.DURATION: "a duration such as 500ms, 10s, 2min or 1.5 (seconds)",
    Kind.SIZE: "a size such as 512KiB, 1MiB or 2MB",
}

# Lengths are bounded so that no number takes long to convert.
_QUANTITY = re.compile(
    r"\s*([-+]?(?:[0-9]{1,15}(?:\.[0-9]{0,15})?|\.[0-9]{1,15})(?:[eE][-+]?[0-9]{1,2})?)"
    r"\s*([^\s0-9][^\s]*)?\s*"
)


class UnitError(ValueError):
    """A text that is not a quantity of the wanted kind; says what is allowed."""


def parse(kind: Kind, value: object) -> float:
    """Convert what stands in the policy to the base unit of its kind.

    Raises `UnitError` when the value is not a number with a unit of that kind.
    """
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise UnitError(f"allowed: {allowed(kind)}")
    match = _QUANTITY.fullmatch(str(value))
    if match is None:
        raise UnitError(f"allowed: {allowed(kind)}")
    number, unit = match[1], match[2] or ""
    units = _UNITS[kind]
    if unit not in units:
        what = f"unknown unit {unit!r}" if unit else "the unit is missing"
        raise UnitError(f"{what}; allowed: {allowed(kind)}")
    # Decimal, so that 7% is the float nearest to 0.07 and not 7 * 0.01.
    return float(decimal.Decimal(number) * decimal.Decimal(units[unit]))


def allowed(kind: Kind) -> str:
    """Return what a quantity of this kind looks like, in words."""
    return _EXAMPLES[kind]


def text(kind: Kind, value: float) -> str:
    """Write a quantity with the largest unit that divides it."""
    number = decimal.Decimal(str(value))
    if kind is Kind.FRACTION:
        return f"{(number * 100).normalize():f}%"
    unit, factor = "", decimal.Decimal(1)
    for name, written in _UNITS[kind].items():
        candidate = decimal.Decimal(written)
        if name and number and number % candidate == 0 and (not unit or candidate > factor):
            unit, factor = name, candidate
    return f"{float(number / factor):g}{unit}"
