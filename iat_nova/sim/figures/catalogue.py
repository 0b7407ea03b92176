# SPDX-License-Identifier: Apache-2.0
"""Which figures there are; a module has one as ``FIGURE`` or several as ``FIGURES``."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Mapping

from iat_nova.sim.figures.api import Figure

MODULES: tuple[str, ...] = (
    "iat_3",
    "iat_4",
    "iat_8",
    "iat_10",
    "iat_12",
    "iat_13",
    "iat_14",
    "a4_micro",
    "a4_setups",
    "iat_15",
    "mempool",
    "adca",
)


@functools.cache
def figures() -> Mapping[str, Figure]:
    """Return all figures by name, in the order of the catalogue."""
    found: dict[str, Figure] = {}
    for name in MODULES:
        module = importlib.import_module(f"iat_nova.sim.figures.{name}")
        several = getattr(module, "FIGURES", None)
        for figure in several if several is not None else (module.FIGURE,):
            found[figure.name] = figure
    return found
