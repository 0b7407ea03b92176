# SPDX-License-Identifier: Apache-2.0
"""What plain JSON values must look like before anything is done with them.

A snapshot is applied to a production host's registers: every value in it is looked at first.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

Shape = Callable[[Any], None]
"""Looks at a value. Raises `ValueError`, which names the place in it and what was expected."""

_MOST_SHOWN = 40


def text(pattern: str, expected: str) -> Shape:
    """Return the shape of a text that matches a pattern as a whole."""
    compiled = re.compile(pattern)

    def check(value: Any) -> None:
        if not isinstance(value, str) or not compiled.fullmatch(value):
            raise _expected(expected, value)

    return check


def whole(least: int, most: int) -> Shape:
    """Return the shape of a whole number within bounds."""

    def check(value: Any) -> None:
        if type(value) is not int or not least <= value <= most:  # True is an int to isinstance
            raise _expected(f"a whole number from {least} to {most}", value)

    return check


def record(needed: Mapping[str, Shape], optional: Mapping[str, Shape] | None = None) -> Shape:
    """Return the shape of an object with these keys, no others, some of which may be missing."""
    shapes = {**needed, **(optional or {})}

    def check(value: Any) -> None:
        if not isinstance(value, dict):
            raise _expected("an object", value)
        if missing := needed.keys() - value.keys():
            raise ValueError(f"{min(missing)}: missing")
        if unknown := value.keys() - shapes.keys():
            raise ValueError(f"{min(unknown)}: unknown")
        for key, inner in value.items():
            _at(key, shapes[key], inner)

    return check


def mapping(key: Shape, value: Shape) -> Shape:
    """Return the shape of an object whose keys and values are all alike."""

    def check(whole_value: Any) -> None:
        if not isinstance(whole_value, dict):
            raise _expected("an object", whole_value)
        for name, inner in whole_value.items():
            key(name)
            _at(name, value, inner)

    return check


def listing(item: Shape) -> Shape:
    """Return the shape of an array whose items are all alike."""

    def check(value: Any) -> None:
        if not isinstance(value, list):
            raise _expected("an array", value)
        for number, inner in enumerate(value):
            _at(str(number), item, inner)

    return check


def row(*items: Shape) -> Shape:
    """Return the shape of an array with one item for each of these."""

    def check(value: Any) -> None:
        if not isinstance(value, list) or len(value) != len(items):
            raise _expected(f"an array of {len(items)}", value)
        for number, (shape, inner) in enumerate(zip(items, value, strict=True)):
            _at(str(number), shape, inner)

    return check


def _at(place: str, shape: Shape, value: Any) -> None:
    try:
        shape(value)
    except ValueError as error:
        raise ValueError(f"{place}: {error}") from None


def _expected(what: str, value: Any) -> ValueError:
    shown = repr(value)
    if len(shown) > _MOST_SHOWN:
        shown = f"{shown[:_MOST_SHOWN]}..."
    return ValueError(f"expected {what}, found {shown}")


NUMBER = text(r"\d{1,6}", "a number")
HEX = text(r"[0-9a-f]{1,16}", "a number of 64 bits in hexadecimal digits")
INDEX = whole(0, 10**6 - 1)
VALUE = whole(0, (1 << 64) - 1)
