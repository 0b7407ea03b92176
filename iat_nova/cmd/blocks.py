# SPDX-License-Identifier: Apache-2.0
"""Rows with many columns as lines: a table of these fits no terminal."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from iat_nova.report import escape

EDGES = 3  # columns of a cell's edge: a line and two blanks
_SHRUNK = 8  # columns to which cliff shrinks a column's cells; headings stay
_LINES = 12  # of a cell, at most
_LEAST = 8  # columns of a cell, also where a terminal has fewer


def too_wide(columns: Sequence[str], rows: Sequence[Sequence[object]], width: int) -> bool:
    """Tell whether a table is wider than `width`, even with its cells shrunk."""
    widest = 1
    for number, column in enumerate(columns):
        cells = max((escape.width(str(row[number])) for row in rows), default=0)
        widest += max(escape.width(column), min(cells, _SHRUNK)) + EDGES
    return widest > width


class Lines:
    """A format of cliff: lines for each row, instead of a table."""

    def emit_list(
        self,
        columns: Sequence[str],
        rows: Iterable[Sequence[object]],
        stdout: Any,
        parsed_args: argparse.Namespace,
    ) -> None:
        """Write the rows."""
        for line in lines(columns, rows, parsed_args.max_width):
            stdout.write(f"{line}\n")


def lines(columns: Sequence[str], rows: Iterable[Sequence[object]], width: int) -> Iterator[str]:
    """Yield a heading for each row, its first cell, and a line for each other cell with content."""
    _, *others = columns
    widest = max(map(len, others))
    room = max(_LEAST, width - widest - 4)
    for number, (name, *cells) in enumerate(rows):
        yield from [""] * bool(number)
        yield escape.middle(str(name), width)
        for column, value in zip(others, cells, strict=True):
            if value not in ("", None):
                pieces = escape.wrap(str(value), room, _LINES)
                for first, piece in zip((column, *[""] * _LINES), pieces, strict=False):
                    yield f"  {first:{widest}}  {piece}"
