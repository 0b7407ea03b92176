# SPDX-License-Identifier: Apache-2.0
"""The commands of the ``openstack`` client on flavors, as the pages show them to operators."""

from __future__ import annotations

import dataclasses
import itertools
import pathlib
import re
import shlex
from collections.abc import Iterator

ROOT = pathlib.Path(__file__).parents[1]
VERSION = "--os-compute-api-version 2.86"
"""Nova checks extra specs from that version of its API on; the client asks with an older one."""

# A line that is typed at a prompt, or commented out in a file; with those that continue it.
_TYPED = re.compile(r"^[ \t]*[$#][ \t]+(openstack (?:.*\\\n)*.*)$", re.MULTILINE)
_ON_FLAVORS = re.compile(r"\bopenstack [^`\n]*?\bflavor (?:set|create)\b")


@dataclasses.dataclass(frozen=True)
class FlavorCommand:
    """A command that makes a flavor or changes one."""

    page: str
    text: str

    @property
    def words(self) -> list[str]:
        """The command as a shell takes it apart."""
        return shlex.split(self.text)

    @property
    def verb(self) -> str:
        """``create`` or ``set``."""
        return self.words[self.words.index("flavor") + 1]

    @property
    def flavor(self) -> str:
        """The one word that belongs to no option."""
        words = iter(self.words[self.words.index("flavor") + 2 :])
        (name,) = (word for word in words if not (word.startswith("--") and next(words)))
        return name

    @property
    def properties(self) -> dict[str, str]:
        """The extra specs."""
        pairs = (after for word, after in itertools.pairwise(self.words) if word == "--property")
        return {key: value for key, _, value in (pair.partition("=") for pair in pairs)}


def pages() -> Iterator[pathlib.Path]:
    """Return what operators read."""
    yield ROOT / "README.rst"
    for folder in ("doc/source", "devstack", "rally-jobs"):
        yield from sorted((ROOT / folder).rglob("*.rst"))
    yield from sorted((ROOT / "doc/source").rglob("output/*.txt"))
    yield from sorted((ROOT / "iat_nova").rglob("*.yaml"))
    yield from sorted((ROOT / "iat_nova").rglob("*.py"))
    yield ROOT / "devstack/plugin.sh"


def shown() -> list[FlavorCommand]:
    """Return all commands that are shown whole, for an operator to type."""
    return [
        FlavorCommand(str(page.relative_to(ROOT)), re.sub(r"\s*\\\n\s*", " ", text))
        for page in pages()
        for text in _TYPED.findall(page.read_text())
        if _ON_FLAVORS.match(text.replace("\\\n", " "))
    ]


def mentioned() -> list[tuple[str, str]]:
    """Return the page and the beginning of each command that is mentioned anywhere."""
    return [
        (str(page.relative_to(ROOT)), text)
        for page in pages()
        for text in _ON_FLAVORS.findall(page.read_text())
    ]
