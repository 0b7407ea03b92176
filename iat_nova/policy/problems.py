# SPDX-License-Identifier: Apache-2.0
"""How the policy says what is wrong with it."""

from __future__ import annotations

import dataclasses
import difflib
import re
from collections.abc import Iterable

Path = tuple[str | int, ...]
"""The way to a value: keys of mappings and positions in lists. Empty: the whole policy."""

_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


@dataclasses.dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong, or worth a warning.

    `path` is written ``classes[2].ways.min`` and empty where the whole file is meant. `line`
    counts from 1 in the file as it is on disk; None when it is not known.
    """

    path: str
    line: int | None
    message: str

    def __str__(self) -> str:
        where = f"line {self.line}: " if self.line is not None else ""
        return f"{where}{self.path}: {self.message}" if self.path else f"{where}{self.message}"


class PolicyError(Exception):
    """The policy cannot be used; `problems` holds everything that is wrong, in file order."""

    def __init__(self, problems: Iterable[Problem], source: str = "policy") -> None:
        self.problems = tuple(problems)
        self.source = source
        super().__init__(self.problems)

    def __str__(self) -> str:
        return "\n".join(f"{self.source}: {problem}" for problem in self.problems)


def path_text(path: Path) -> str:
    """Write a path as ``classes[2].ways.min``, odd keys in brackets: ``flavors["m1.a"]``."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        elif _PLAIN_KEY.fullmatch(step):
            text += f".{step}" if text else step
        else:
            escaped = step.replace("\\", "\\\\").replace('"', '\\"')
            text += f'["{escaped}"]'
    return text


def nearest(word: str, known: Iterable[str]) -> str:
    """Return ``did you mean ...?`` for a word that is not known, empty when none is near."""
    close = difflib.get_close_matches(word, list(known), n=1)
    return f"did you mean {close[0]}?" if close else ""
