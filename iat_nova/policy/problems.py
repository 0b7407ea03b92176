# SPDX-License-Identifier: Apache-2.0
"""How the policy says what is wrong with it."""

from __future__ import annotations

import dataclasses
import difflib
import re
from collections.abc import Iterable

from iat_nova.model import Message, message
from iat_nova.nova.extra_specs import SpecProblem

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
    message: Message

    @property
    def located(self) -> Message:
        """The message within those of its line and path."""
        said = self.message
        if self.path:
            said = message("at-path", path=self.path, problem=said)
        if self.line is not None:
            said = message("in-line", line=self.line, problem=said)
        return said


class PolicyError(Exception):
    """The policy cannot be used; `problems` holds everything that is wrong, in file order."""

    def __init__(self, problems: Iterable[Problem], source: str = "policy") -> None:
        self.problems = tuple(problems)
        self.source = source
        super().__init__(self.problems)

    @property
    def located(self) -> tuple[Message, ...]:
        """The message of each problem within that of its source, line and path."""
        return located(self.source, self.problems)

    @property
    def message(self) -> Message:
        """All of them, a line each."""
        return message("problems", problems=self.located)

    def __str__(self) -> str:
        return str(self.message)


def of_spec(problem: SpecProblem) -> Message:
    """Return the message of an extra spec that cannot be used."""
    return Message(problem.code, problem.values)


def located(source: str, problems: Iterable[Problem]) -> tuple[Message, ...]:
    """Return the messages of problems of one source."""
    return tuple(message("of-source", source=source, problem=one.located) for one in problems)


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


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the known word that is near to an unknown word; None when none is near."""
    return next(iter(difflib.get_close_matches(word, list(known), n=1)), None)
