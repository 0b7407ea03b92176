# SPDX-License-Identifier: Apache-2.0
"""JSON Schemas that plain JSON values must satisfy before use.

A snapshot is applied to a production host's registers: every value in the snapshot is checked
first.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

from iat_nova.common.untrusted import shortened

Shape = Mapping[str, Any]
"""A JSON Schema; ``title`` describes the expected value."""

_MOST_SHOWN = 120  # characters of an error


def text(pattern: str, expected: str) -> Shape:
    """Return the JSON Schema of a text that fully matches a pattern."""
    return {"type": "string", "pattern": rf"\A(?:{pattern})\Z", "title": expected}


def whole(least: int, most: int) -> Shape:
    """Return the JSON Schema of a whole number within bounds."""
    title = f"a whole number from {least} to {most}"
    return {"type": "integer", "minimum": least, "maximum": most, "title": title}


def one_of(values: Sequence[int]) -> Shape:
    """Return the JSON Schema of a whole number among these values."""
    title = f"one of {', '.join(map(str, values))}"
    return {"type": "integer", "enum": list(values), "title": title}


def record(needed: Mapping[str, Shape], optional: Mapping[str, Shape] | None = None) -> Shape:
    """Return the JSON Schema of an object with needed, optional and no other keys."""
    return {
        "type": "object",
        "properties": {**needed, **(optional or {})},
        "required": list(needed),
        "additionalProperties": False,
    }


def mapping(key: Shape, value: Shape) -> Shape:
    """Return the JSON Schema of an object with one shape for all keys and one for all values."""
    return {"type": "object", "propertyNames": key, "additionalProperties": value}


def listing(item: Shape) -> Shape:
    """Return the JSON Schema of an array with one shape for all items."""
    return {"type": "array", "items": item}


def row(*items: Shape) -> Shape:
    """Return the JSON Schema of an array with exactly one item per given shape."""
    count = len(items)
    return {"type": "array", "prefixItems": items, "minItems": count, "maxItems": count}


@functools.cache
def _validators() -> Any:
    import jsonschema  # noqa: PLC0415 - slow to load

    standard = jsonschema.Draft202012Validator
    # JSON Schema accepts 1.0 as a whole number; Python accepts True.
    checker = standard.TYPE_CHECKER.redefine("integer", lambda _, value: type(value) is int)
    extend: Any = jsonschema.validators.extend
    return extend(standard, type_checker=checker)


def check(shape: Shape, value: Any) -> None:
    """Raise `ValueError` with path and expected value, unless the value satisfies the shape."""
    for error in _validators()(shape).iter_errors(value):
        place = "".join(f"{step}: " for step in error.absolute_path)
        expected = error.schema.get("title")
        why = f"expected {expected}, found {error.instance!r}" if expected else error.message
        raise ValueError(place + shortened(why, _MOST_SHOWN))


NUMBER = text("0|[1-9][0-9]{0,5}", "a number")
HEX = text(r"[0-9a-f]{1,16}", "a number of 64 bits in hexadecimal digits")
INDEX = whole(0, 10**6 - 1)
VALUE = whole(0, (1 << 64) - 1)
