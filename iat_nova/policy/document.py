# SPDX-License-Identifier: Apache-2.0
"""YAML to plain values with their lines in the file.

PyYAML's nodes carry line numbers, PyYAML's values do not, so this module builds the values. Scalars
follow YAML 1.1 without its surprises: ``yes`` and ``0x600`` are a boolean and a number, ``010`` and
``1:30`` stay text.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterator

import yaml

from iat_nova.common.untrusted import Unreadable, compose_yaml, is_unicode
from iat_nova.model import Message, message
from iat_nova.model.message import as_message
from iat_nova.policy.problems import Path, PolicyError, Problem, path_text
from iat_nova.policy.rendered import Rendered

MAX_VALUES = 100_000
"""Maximum number of values: more would come from aliases of aliases, which multiply."""

MAX_DEPTH = 32

_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9_]{0,30})|0x_*[0-9a-fA-F][0-9a-fA-F_]{0,31}")
_FLOAT = re.compile(r"[-+]?[0-9]{1,30}\.[0-9]{0,30}([eE][-+][0-9]{1,3})?")
_BOOLEANS = {"yes": True, "true": True, "on": True, "no": False, "false": False, "off": False}
_TAG = "tag:yaml.org,2002:"


@dataclasses.dataclass(frozen=True, slots=True)
class Document:
    """The policy as mappings with text keys, lists and scalars.

    `marks`: rendered line (from 1) of every value. `texts`: scalars as written in the file.
    `problems`: errors in the YAML that leave the rest readable.
    """

    value: object
    rendered: Rendered
    marks: dict[Path, int]
    texts: dict[Path, str]
    problems: tuple[Problem, ...]

    def problem(self, path: Path, said: Message) -> Problem:
        """Return a problem at a path, with the line of the nearest existing value above."""
        known = path
        while known and known not in self.marks:
            known = known[:-1]
        return _problem(self.rendered, path, self.marks.get(known, 1), said)


def read(rendered: Rendered) -> Document:
    """Read a rendered policy. Raises `PolicyError` for invalid YAML."""
    try:
        node = compose_yaml(rendered.text)
    except yaml.YAMLError as error:
        raise PolicyError(_syntax_problems(rendered, error)) from None
    except Unreadable as error:
        raise PolicyError.of(as_message(error)) from None
    if node is None:
        raise PolicyError.of(message("policy-empty"))
    builder = _Builder(rendered)
    value = builder.build(node, ())
    return Document(value, rendered, builder.marks, builder.texts, tuple(builder.problems))


class _Builder:
    """Turn YAML nodes into values, and collect marks, texts and problems."""

    def __init__(self, rendered: Rendered) -> None:
        self.rendered = rendered
        self.marks: dict[Path, int] = {}
        self.texts: dict[Path, str] = {}
        self.problems: list[Problem] = []
        self._open: set[int] = set()  # nodes under construction: an alias to one never ends

    def build(self, node: yaml.Node, path: Path) -> object:
        line = node.start_mark.line + 1
        self.marks.setdefault(path, line)
        if len(self.marks) > MAX_VALUES:
            raise PolicyError.of(message("too-many-values", most=MAX_VALUES))
        if len(path) > MAX_DEPTH:
            raise PolicyError.of(message("too-deep"), line=self.rendered.source_line(line))
        if isinstance(node, yaml.ScalarNode):
            if not is_unicode(node.value):
                self._complain(path, line, message("half-surrogate"))
                return None
            return self._scalar(node, path)
        if id(node) in self._open:
            self._complain(path, line, message("alias-within-itself"))
            return None
        self._open.add(id(node))
        value: object
        if isinstance(node, yaml.MappingNode):
            self._expect_tag(node, path, "map")
            value = self._mapping(node, path)
        else:
            self._expect_tag(node, path, "seq")
            value = [self.build(item, (*path, n)) for n, item in enumerate(node.value)]
        self._open.discard(id(node))
        return value

    def _mapping(self, node: yaml.MappingNode, path: Path) -> dict[str, object]:
        result: dict[str, object] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode):
                self._complain(path, line, message("key-not-text"))
                continue
            key = key_node.value
            if not is_unicode(key):
                self._complain(path, line, message("half-surrogate-key"))
                continue
            if key in result:
                first = self.rendered.source_line(self.marks[*path, key])
                said = message("key-twice") if first is None else message("key-again", line=first)
                self._complain((*path, key), line, said)
                continue
            self.marks[*path, key] = line
            result[key] = self.build(value_node, (*path, key))
        return result

    def _scalar(self, node: yaml.ScalarNode, path: Path) -> object:
        text = node.value
        self.texts[path] = text
        match node.tag.removeprefix(_TAG):
            case "null":
                return None
            case "bool" if text.lower() in _BOOLEANS:
                return _BOOLEANS[text.lower()]
            case "int" if _INTEGER.fullmatch(text):
                return int(text.replace("_", ""), 16 if text.startswith("0x") else 10)
            case "float" if _FLOAT.fullmatch(text) and math.isfinite(float(text)):
                return float(text)
            case "str" | "bool" | "int" | "float" | "timestamp" | "merge" | "value":
                return text
        self._expect_tag(node, path, "str")
        return text

    def _expect_tag(self, node: yaml.Node, path: Path, name: str) -> None:
        if node.tag != _TAG + name:
            line = node.start_mark.line + 1
            self._complain(path, line, message("tag-found", tag=node.tag))

    def _complain(self, path: Path, line: int, said: Message) -> None:
        self.problems.append(_problem(self.rendered, path, line, said))


def _problem(rendered: Rendered, path: Path, line: int, said: Message) -> Problem:
    source = rendered.source_line(line)
    if source is None:
        said = message("in-rendered-line", problem=said, line=line)
    return Problem(path_text(path), source, said)


def _syntax_problems(rendered: Rendered, error: yaml.YAMLError) -> Iterator[Problem]:
    """Yield the YAML parser's error; if a tab is the cause, every line indented by a tab."""
    if isinstance(error, yaml.MarkedYAMLError):
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark is not None else 1
        tabs = [
            number
            for number, text in enumerate(rendered.text.split("\n"), 1)
            if re.match(r" *\t\s*\S", text)
        ]
        if mark is not None and rendered.text[mark.index : mark.index + 1] == "\t" and tabs:
            for number in tabs:
                yield _problem(rendered, (), number, message("tab-found"))
            return
        context = f" {error.context}" if error.context else ""
        said = message("not-yaml", error=f"{error.problem}{context}")
        yield _problem(rendered, (), line, said)
    elif isinstance(error, yaml.reader.ReaderError):
        line = rendered.text.count("\n", 0, error.position) + 1
        character = f"U+{error.character:04X}"
        yield _problem(rendered, (), line, message("character-found", character=character))
    else:
        yield Problem("", None, message("not-yaml", error=str(error)))
