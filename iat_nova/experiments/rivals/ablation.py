# SPDX-License-Identifier: Apache-2.0
"""The default strategy without some families of moves, as laboratory runs name such variants.

An ablation has a label such as ``pollute-buffer without ddio-ways``. Only the instruments
understand labels; the agent's configuration and the policy do not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from iat_nova.strategies.pollute_buffer import moves
from iat_nova.strategies.registry import DEFAULT, StrategyError

FAMILIES = tuple(moves.FAMILIES)
"""Names of the families of moves, in the order in which a search considers them."""

EACH = "each"
"""Stands for all families, each left out in a run of its own."""

_WITHOUT = f"{DEFAULT} without "


def labels(asked: Iterable[str]) -> Iterator[str]:
    """Yield a label for each request: a family, several joined by commas, or `EACH`.

    Raises `StrategyError` for an unknown family.
    """
    for text in asked:
        for names in FAMILIES if text == EACH else (text,):
            families = names.split(",")
            for name in families:
                if name not in FAMILIES:
                    raise StrategyError(
                        f"no family of moves {name!r}: there are {', '.join(FAMILIES)}, and {EACH}"
                    )
            yield _WITHOUT + ",".join(families)


def resolve(label: str) -> tuple[str, dict[str, Any]]:
    """Return the name and the options of the strategy that a label, or a plain name, stands for."""
    if label.startswith(_WITHOUT):
        return DEFAULT, {"without": label.removeprefix(_WITHOUT).split(",")}
    return label, {}
