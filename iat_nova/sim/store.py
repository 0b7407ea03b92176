# SPDX-License-Identifier: Apache-2.0
"""What has been measured, in a file, so that it is not measured again."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Mapping
from typing import Any

Point = Mapping[str, Any]
Row = Mapping[str, Any]


class Store:
    """The rows measured so far, in a file of one JSON object a line.

    A row counts for the `sources` (a digest) that it was measured with only: another version's is
    worthless.
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
        """Return what was measured at a point, None when nothing was."""
        return self._rows.get(key(point))

    def put(self, point: Point, row: Row, *, keep: bool = True) -> None:
        """Take what was measured; without `keep` for this run only."""
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
            return  # the end of a run that was killed while it wrote


def key(point: Point) -> str:
    """Return a point as a text that is the same for equal points."""
    return json.dumps(point, sort_keys=True)
