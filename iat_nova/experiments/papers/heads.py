# SPDX-License-Identifier: Apache-2.0
"""Name, title and source of each figure, read from its file without the emulated server."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Iterator

from iat_nova.common import own_yaml

STEMS: tuple[str, ...] = (
    "iat_3",
    "iat_4",
    "iat_8",
    "iat_10",
    "consolidation",
    "a4_micro",
    "a4_setups",
    "a4_mixes",
    "iat_15",
    "mempool",
    "adca",
    "validation",
)
"""The files of the figures, in the order of display."""


@dataclasses.dataclass(frozen=True, slots=True)
class Head:
    """The head of a figure: name, title and paper."""

    name: str
    title: str
    source: str


def heads() -> Iterator[Head]:
    """Yield the head of each figure, in the order of display."""
    for stem in STEMS:
        file = pathlib.Path(__file__).with_name(f"{stem}.yaml")
        for name, given in own_yaml.load(file.read_text(encoding="utf-8"))["figures"].items():
            yield Head(name, given["title"], given["source"])
