# SPDX-License-Identifier: Apache-2.0
"""Quantities with units, as in a policy: ``3%``, ``1M/s``, ``500ms``, ``1MiB``.

A number without a unit is valid as a fraction, as a rate per second and as a duration in seconds.
A size needs a unit.
"""

from __future__ import annotations

import decimal
import enum
import re
from collections.abc import Mapping

from iat_nova.model import Message, message
from iat_nova.model.message import MessageError


class Kind(enum.StrEnum):
    """The kinds of quantities, each with the unit of the numbers that `parse` returns."""

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

ALLOWED: Mapping[Kind, Message] = {
    Kind.FRACTION: message("a-fraction"),
    Kind.RATE: message("a-rate"),
    Kind.DURATION: message("a-duration"),
    Kind.SIZE: message("a-size"),
}
"""The allowed forms of each kind of quantity, with examples."""

# Bounded lengths: every number is converted quickly.
_QUANTITY = re.compile(
    r"\s*([-+]?(?:[0-9]{1,15}(?:\.[0-9]{0,15})?|\.[0-9]{1,15})(?:[eE][-+]?[0-9]{1,2})?)"
    r"\s*([^\s0-9][^\s]*)?\s*"
)


class UnitError(MessageError, ValueError):
    """A text is not a quantity of the wanted kind; `message` names the allowed forms."""


def parse(kind: Kind, value: object) -> float:
    """Convert a policy's value to a number in the base unit of its kind. Raises `UnitError`."""
    known = isinstance(value, str | int | float)  # no number is written as True
    match = _QUANTITY.fullmatch(str(value)) if known else None
    if match is None:
        raise UnitError(message("no-quantity", allowed=ALLOWED[kind]))
    number, unit = match[1], match[2] or ""
    units = _UNITS[kind]
    if unit and unit not in units:
        raise UnitError(message("unit-unknown", unit=unit, allowed=ALLOWED[kind]))
    if unit not in units:
        raise UnitError(message("unit-missing", allowed=ALLOWED[kind]))
    # Decimal, so that 7% is the float nearest to 0.07 and not 7 * 0.01.
    return float(decimal.Decimal(number) * decimal.Decimal(units[unit]))


def text(kind: Kind, value: float) -> str:
    """Write a quantity in the largest unit that gives a whole number; a fraction in percent."""
    number = decimal.Decimal(str(value))
    if kind is Kind.FRACTION:
        return f"{(number * 100).normalize():f}%"
    unit, factor = "", decimal.Decimal(1)
    for name, written in _UNITS[kind].items():
        candidate = decimal.Decimal(written)
        if name and number and number % candidate == 0 and (not unit or candidate > factor):
            unit, factor = name, candidate
    return f"{float(number / factor):g}{unit}"
