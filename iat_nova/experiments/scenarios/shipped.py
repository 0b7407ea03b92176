# SPDX-License-Identifier: Apache-2.0
"""The scenarios that ship: names, files, and the head of each file.

The head is read without the rest, and without numpy: a list needs no more.
"""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Iterator

from iat_nova.common import own_yaml
from iat_nova.policy import units

SHIPPED = pathlib.Path(__file__).parent / "files"
"""The folder of the scenario files."""


@dataclasses.dataclass(frozen=True, slots=True)
class Head:
    """The head of a scenario file; `machine`: the name of the emulated server's CPU."""

    scenario: str
    title: str
    length_s: float
    machine: str
    file: pathlib.Path


def shipped() -> tuple[str, ...]:
    """Return the names of the scenarios that ship."""
    return tuple(sorted(path.stem for path in SHIPPED.glob("*.yaml")))


def heads() -> Iterator[Head]:
    """Yield the head of every scenario that ships."""
    for name in shipped():
        file = SHIPPED / f"{name}.yaml"
        given = own_yaml.load(file.read_text(encoding="utf-8"))
        length_s = units.parse(units.Kind.DURATION, str(given["length"]))
        yield Head(name, given["title"], length_s, given["machine"], file)
