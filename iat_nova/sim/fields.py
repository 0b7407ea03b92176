# SPDX-License-Identifier: Apache-2.0
"""Walks a scenario's document, keeps what is right and notes what is wrong, with line and path."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from iat_nova.policy.document import Document
from iat_nova.policy.problems import Path, Problem, nearest
from iat_nova.sim.values import Check, NotAllowed


class Fields:
    """The document, and its problems so far."""

    def __init__(self, parsed: Document) -> None:
        self.document = parsed
        self.problems: list[Problem] = list(parsed.problems)

    def complain(self, path: Path, message: str) -> None:
        """Note a problem."""
        self.problems.append(self.document.problem(path, message))

    def fields(
        self,
        value: object,
        path: Path,
        known: Mapping[str, Check],
        required: tuple[str, ...] = (),
    ) -> dict[str, Any]:
        """Return a mapping's checked values; wrong, unknown and missing keys are noted."""
        if not isinstance(value, dict):
            self.complain(path, "allowed: a mapping")
            return {}
        found: dict[str, Any] = {}
        for key, item in value.items():
            if key not in known:
                hint = nearest(key, known)
                message = "unknown key; allowed: " + ", ".join(known)
                self.complain((*path, key), message + (f"; {hint}" if hint else ""))
                continue
            try:
                found[key] = known[key](item)
            except NotAllowed as error:
                self.complain((*path, key), str(error))
        for key in required:
            if key not in value:
                self.complain(path, f"the key {key} is missing")
        return found

    def mapping(self, value: object, path: Path) -> dict[str, object]:
        """Return a section of names; empty, and a problem noted, when it is none."""
        if isinstance(value, dict):
            return value
        self.complain(path, "allowed: a mapping of names")
        return {}

    def listing(self, value: object, path: Path) -> list[object]:
        """Return a list; empty, and a problem noted, when it is none."""
        if isinstance(value, list):
            return value
        self.complain(path, "allowed: a list")
        return []
