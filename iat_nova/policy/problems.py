# SPDX-License-Identifier: Apache-2.0
"""Problems of a policy: path, line and message."""

from __future__ import annotations

import dataclasses
import difflib
import re
from collections.abc import Iterable, Iterator, Mapping

from iat_nova.model import Message, message
from iat_nova.nova import extra_specs
from iat_nova.nova.extra_specs import SpecProblem

Path = tuple[str | int, ...]
"""The path of a value: keys of mappings and positions in lists. Empty: the whole policy."""

_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


@dataclasses.dataclass(frozen=True, slots=True)
class Problem:
    """One error or warning in a policy.

    `path` is written ``classes[2].ways.min``; empty: the whole file. `line` counts from 1 in the
    file on disk, before Jinja2; None when unknown.
    """

    path: str
    line: int | None
    message: Message

    @property
    def located(self) -> Message:
        """The message, inside the messages of path and line."""
        said = self.message
        if self.path:
            said = message("at-path", path=self.path, problem=said)
        if self.line is not None:
            said = message("in-line", line=self.line, problem=said)
        return said


class PolicyError(Exception):
    """The policy cannot be used; `problems` holds all errors in file order."""

    def __init__(self, problems: Iterable[Problem], source: str = "policy") -> None:
        self.problems = tuple(problems)
        self.source = source
        super().__init__(self.problems)

    @classmethod
    def of(
        cls, said: Message, *, path: str = "", line: int | None = None, source: str = "policy"
    ) -> PolicyError:
        """Return the error of a single problem; without a path it concerns the whole file."""
        return cls([Problem(path, line, said)], source)

    @property
    def located(self) -> tuple[Message, ...]:
        """The message of each problem, inside the messages of source, line and path."""
        return located(self.source, self.problems)

    @property
    def message(self) -> Message:
        """All problems, one per line."""
        return message("problems", problems=self.located)

    def __str__(self) -> str:
        return str(self.message)


def of_spec(problem: SpecProblem) -> Message:
    """Return the message of an invalid extra spec."""
    return Message(problem.code, problem.values)


def of_specs(specs: Mapping[str, str]) -> Iterator[tuple[str | None, Message]]:
    """Yield the problems of a flavor's extra specs, each with its key.

    Valid values may contradict each other: such problems have no key.
    """
    alone = False
    for key, text in specs.items():
        for problem in extra_specs.parse({key: text}).problems:
            alone = True
            yield key, of_spec(problem)
    if not alone:
        for problem in extra_specs.parse(specs).problems:
            yield None, of_spec(problem)


def located(source: str, problems: Iterable[Problem]) -> tuple[Message, ...]:
    """Return the messages of problems of one source."""
    return tuple(message("of-source", source=source, problem=one.located) for one in problems)


def path_text(path: Path) -> str:
    """Return the text of a path to a key of the policy, such as ``classes[2].ways.min``.

    A key with characters other than letters, digits, ``_`` and ``-`` is quoted:
    ``flavors["m1.a"]``.
    """
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
    """Return the known word nearest to an unknown word; None if no known word is similar."""
    return next(iter(difflib.get_close_matches(word, list(known), n=1)), None)
