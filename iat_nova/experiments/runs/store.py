# SPDX-License-Identifier: Apache-2.0
"""A file of measured rows, so that no point is measured twice."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Mapping
from typing import Any

Point = Mapping[str, Any]
Row = Mapping[str, Any]


class Store:
    """The rows measured so far, in a file with one JSON object per line.

    A row is valid only for the `sources` (a digest) with which the row was measured. Rows of other
    versions are ignored.
    """

    def __init__(self, path: pathlib.Path, sources: str) -> None:
        self._path = path
        self._sources = sources
        self._rows: dict[str, Row] = {}
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            for line in path.read_text(encoding="utf-8").splitlines():
                self._take(line)

    def get(self, point: Point) -> Row | None:
        """Return the row measured at a point, or None."""
        return self._rows.get(key(point))

    def put(self, point: Point, row: Row, *, keep: bool = True) -> None:
        """Add a measured row; without `keep`, for this run only."""
        self._rows[key(point)] = row
        if not keep:
            return
        with self._path.open("a", encoding="utf-8") as file:
            line = {"sources": self._sources, "point": point, "row": row}
            file.write(json.dumps(line) + "\n")

    def _take(self, line: str) -> None:
        try:
            kept = json.loads(line)
            if kept["sources"] == self._sources:
                self._rows[key(kept["point"])] = kept["row"]
        except (ValueError, LookupError, TypeError, RecursionError):
            return  # the last line of a run that was killed while writing


def key(point: Point) -> str:
    """Return a point as text; equal points have equal texts."""
    return json.dumps(point, sort_keys=True)
