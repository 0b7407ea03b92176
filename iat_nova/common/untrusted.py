# SPDX-License-Identifier: Apache-2.0
"""Numbers, texts, JSON and YAML from operators or other programs, read within limits.

Python's own `int` raises beyond 4,300 digits and accepts digits of other scripts, signs and
``1_0``. Python's parsers of JSON and YAML are recursive: their maximum depth depends on the depth
of the caller.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

import yaml

LAST_S = 253_402_300_799.0
"""The last second of the year 9999, in seconds since 1970: Python has no later date."""

MOST_DEPTH = 64
"""Maximum levels of nesting in a YAML file; the files that are read here have up to 12."""

MOST_DIGITS = 20
"""Maximum digits of a whole number in a JSON file: 64 bits have 20."""

MOST_TEXT = 400
"""Maximum characters of a name or a reason."""

_FLOAT_CHARACTERS = 40  # `repr` of a float has up to 24


class Unreadable(ValueError):
    """A malformed content, or a content beyond a limit; the text describes the error."""


def bounded_int(text: str, most: int) -> int | None:
    """Return the whole number from 0 to `most` in a text, else None.

    The text has decimal ASCII digits and may have blanks around the digits.
    """
    digits = text.strip().lstrip("0") or text.strip()[-1:]
    if not (digits.isascii() and digits.isdigit()) or len(digits) > len(str(most)):
        return None
    number = int(digits)
    return number if number <= most else None


def shortened(text: str, most: int = 60) -> str:
    """Return a text for a message, cut to `most` characters."""
    return text if len(text) <= most else f"{text[: most - 3]}..."


def worded(
    error: BaseException, most: int = 200, form: Callable[[BaseException], str] = repr
) -> str:
    """Return the `form` of an exception from other code; its type if `form` raises.

    This is the last place that runs code of such an exception: its methods may raise any error.
    """
    try:
        return shortened(form(error), most)
    except (Exception, SystemExit):  # noqa: BLE001 - see above
        name = type.__getattribute__(type(error), "__name__")
        return f"{name} (its text cannot be read)"


def parse_json(content: bytes, *, depth: int, infinite: bool = False) -> Any:
    """Return the value of a JSON text in UTF-8, nested at most `depth` levels deep.

    Whole numbers have at most `MOST_DIGITS` digits. `infinite`: ``Infinity`` counts as a number.
    Raises `Unreadable`.
    """
    try:
        text = content.decode("utf-8-sig")
        _check_depth(text, depth)
        return json.loads(
            text,
            parse_int=_int,
            parse_float=_float,
            parse_constant=float if infinite else _refuse_constant,
        )
    except Unreadable:
        raise
    except ValueError as error:
        raise Unreadable(f"not JSON: {error}") from error


def compose_yaml(text: str) -> yaml.Node | None:
    """Return the root node of a YAML text, None for an empty text.

    Raises `yaml.YAMLError`, and `Unreadable` for more than `MOST_DEPTH` levels.
    """
    try:
        node: yaml.Node | None = yaml.compose(text, Loader=_Safe)
    except Unreadable:
        raise
    except (ValueError, OverflowError) as error:  # escapes and directives that are no numbers
        raise Unreadable(f"not YAML: {error}") from error
    return node


def parse_yaml_texts(content: bytes) -> Any:
    """Parse YAML in UTF-8: every scalar is a string, and `<<` is an ordinary key.

    Values of aliases are shared, not copied. Raises `Unreadable`.
    """
    try:
        return yaml.load(content.decode("utf-8-sig"), Loader=_Base)
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        raise Unreadable(f"not YAML: {error}") from error


def number(plain: Mapping[str, Any], key: str, least: float, most: float) -> float:
    """Return the number of a key. Raises `Unreadable` unless it is within the bounds."""
    value: Any = plain.get(key)
    if type(value) in (int, float) and least <= value <= most:
        return float(value)
    raise _unexpected(value, key, f"a number from {least:g} to {most:g}")


def whole(plain: Mapping[str, Any], key: str, least: int, most: int) -> int:
    """Return the whole number of a key. Raises `Unreadable` unless it is within the bounds."""
    value = plain.get(key)
    if type(value) is int and least <= value <= most:
        return value
    raise _unexpected(value, key, f"a whole number from {least} to {most}")


def moment(plain: Mapping[str, Any], key: str) -> float:
    """Return the time of a key, in seconds since 1970 and before the year 10000.

    Raises `Unreadable`.
    """
    return number(plain, key, 0, LAST_S)


def name(plain: Mapping[str, Any], key: str, most: int = MOST_TEXT) -> str:
    """Return the text of a key; empty if missing or null.

    Raises `Unreadable` for other types, for a text that is too long, and for invalid Unicode.
    """
    value = plain.get(key)
    if value is None:
        return ""
    if isinstance(value, str) and len(value) <= most and is_unicode(value):
        return value
    raise _unexpected(value, key, f"a text of up to {most} characters")


def _unexpected(value: object, key: str, expected: str) -> Unreadable:
    return Unreadable(f"{key}: found {shortened(json.dumps(value))}, expected {expected}")


def storable(text: str, most: int = MOST_TEXT) -> str:
    """Return a text that `name` accepts: cut to `most`, half surrogate pairs as escapes."""
    return shortened(text.encode("utf-8", "backslashreplace").decode(), most)


def is_unicode(text: str) -> bool:
    """Tell whether a text can be written as UTF-8: without halves of surrogate pairs."""
    return text.isascii() or not any("\ud800" <= one <= "\udfff" for one in text)


def _check_depth(text: str, most: int) -> None:
    """Raise `Unreadable` for brackets that are nested deeper than `most`."""
    bare = re.sub(r'"[^"]*"?', "", re.sub(r"\\.", "", text, flags=re.DOTALL))
    depth = 0
    for bracket in re.findall(r"[][{}]", bare):
        depth += 1 if bracket in "[{" else -1
        if depth > most:
            raise Unreadable(f"nested more than {most} levels deep")


def _int(text: str) -> int:
    if len(text.lstrip("-")) > MOST_DIGITS:
        raise Unreadable(f"{shortened(text)} has more than {MOST_DIGITS} digits")
    return int(text)


def _float(text: str) -> float:
    found = float(text) if len(text) <= _FLOAT_CHARACTERS else math.inf
    if not math.isfinite(found):
        raise Unreadable(f"the number {shortened(text)} is too long or too large")
    return found


def _refuse_constant(text: str) -> NoReturn:
    raise Unreadable(f"{text} is not a number")


class _Bounded:
    """Composes YAML nodes no deeper than `MOST_DEPTH`."""

    _depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        """Compose a node. Raises `Unreadable`."""
        if self._depth >= MOST_DEPTH:
            raise Unreadable("nested too deeply")
        self._depth += 1
        try:
            return super().compose_node(parent, index)  # type: ignore[misc]
        finally:
            self._depth -= 1


class _Safe(_Bounded, yaml.SafeLoader):
    pass


class _Base(_Bounded, yaml.BaseLoader):
    pass
