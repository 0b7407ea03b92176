# SPDX-License-Identifier: Apache-2.0
"""Numbers and texts that others wrote, bounded: no length of theirs costs time or memory.

Python's own `int` raises beyond 4,300 digits and reads other scripts' digits, signs and ``1_0``.
"""

from __future__ import annotations


def bounded_int(text: str, most: int) -> int | None:
    """Return the whole number from 0 to `most` that a text holds, else None.

    Decimal ASCII digits with nothing but blanks around them.
    """
    digits = text.strip().lstrip("0") or text.strip()[-1:]
    if not (digits.isascii() and digits.isdigit()) or len(digits) > len(str(most)):
        return None
    number = int(digits)
    return number if number <= most else None


def shortened(text: str, most: int = 60) -> str:
    """Return a text for a message, cut to `most` characters."""
    return text if len(text) <= most else f"{text[: most - 3]}..."
