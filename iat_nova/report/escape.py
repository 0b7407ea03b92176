# SPDX-License-Identifier: Apache-2.0
"""Names chosen by tenants, made harmless for a terminal, and cut to columns.

Control, format (bidirectional overrides, zero-width) and line-separating characters are written as
escapes: a name can neither move the cursor nor look like another name.
"""

from __future__ import annotations

import itertools
import unicodedata
from collections.abc import Iterable, Sequence

_HARMFUL = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_FORMULA = "=+-@\t\r\n\uff1d\uff0b\uff0d\uff20"  # begins of a formula, full width too
ELLIPSIS = "…"
LEAST_MIDDLE = 9  # columns; a shorter text is cut at its end


def plain(text: str) -> str:
    """Return the text with unprintable characters and backslashes as escapes (``\\x1b``)."""
    return harmless(text.replace("\\", "\\\\"))


def harmless(text: str) -> str:
    """Return the text like `plain`, but keep backslashes: the result stays the same if repeated."""
    return text if text.isprintable() else "".join(map(_escaped, text))


def csv_cell(value: object) -> object:
    """Return a value for a cell of CSV; a leading quote marks text that looks like a formula.

    Guests choose their names. Numbers stay unchanged, also as text. Source: OWASP, CSV Injection.
    """
    if not isinstance(value, str) or len(value) < 2 or value[0] not in _FORMULA:
        return value
    try:
        float(value)
    except ValueError:
        return f"'{value}"
    return value


def lines(text: str) -> str:
    """Return the text like `harmless`, but keep its line breaks: for texts of iat-nova."""
    return "\n".join(map(harmless, text.split("\n")))


def width(text: str) -> int:
    """Return the number of terminal columns of a text without control characters."""
    if text.isascii():
        return len(text)
    return sum(map(_columns, text))


def widths(rows: Iterable[Sequence[str]]) -> list[int]:
    """Return the width of each column of a table."""
    return [max(map(width, column)) for column in zip(*rows, strict=True)]


def cut(text: str, columns: int) -> str:
    """Return at most that many columns of the text, with an ellipsis if it was cut."""
    if width(text) <= columns:
        return text
    if columns <= 0:
        return ""
    kept = sum(used < columns for used in itertools.accumulate(map(_columns, text)))
    return text[:kept] + ELLIPSIS


def middle(text: str, columns: int) -> str:
    """Return at most that many columns of the text, cut in the middle.

    Names of similar guests often differ in their ends.
    """
    if width(text) <= columns or columns < LEAST_MIDDLE:
        return cut(text, columns)
    tail = ""
    for character in reversed(text):
        if 2 * width(character + tail) >= columns:
            break
        tail = character + tail
    return cut(text, columns - width(tail)) + tail


def wrap(text: str, columns: int, lines: int) -> list[str]:
    """Return the text, wrapped at blanks, in at most `lines` lines; an ellipsis marks a cut."""
    found = [""]
    for word in text.split():
        longer = f"{found[-1]} {word}".lstrip()
        if found[-1] and len(found) < lines and width(longer) > columns:
            found.append(word)
        else:
            found[-1] = longer
    return [cut(line, columns) for line in found]


def hanging(text: str, columns: int, lines: int, first: str, rest: str = "") -> list[str]:
    """Return the text like `wrap`, with `first` before its first line and `rest` before others.

    `rest` is at least as long as `first`, filled with blanks. `columns` include the longer one.
    """
    rest = f"{rest:<{len(first)}}"
    head, *tail = wrap(text, columns - len(rest), lines)
    return [first + head, *(rest + line for line in tail)]


def fit(text: str, columns: int, *, right: bool = False) -> str:
    """Return the text in exactly that many columns, cut or filled."""
    text = cut(text, columns)
    padding = " " * (columns - width(text))
    return padding + text if right else text + padding


def _escaped(character: str) -> str:
    if unicodedata.category(character) not in _HARMFUL:
        return character
    return character.encode("unicode_escape").decode()


def _columns(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1
