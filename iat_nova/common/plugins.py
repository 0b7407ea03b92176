# SPDX-License-Identifier: Apache-2.0
"""Parts that are found by name: strategies that ship, and entry points of installed packages.

A packager may leave `iat_nova.experiments` out of the package for compute hosts. The metadata of
the installed project still names its parts then.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
from collections.abc import Iterator, Mapping

COMMANDS = "iat_nova.commands"
"""Commands of iat-nova; in the name an underscore stands for a space."""

PLATFORMS = "iat_nova.platforms"
"""Machines beside the host's own, by the value of ``[iat] hardware``."""

STRATEGIES = "iat_nova.strategies"
"""Strategies beside those that ship, by the value of ``[iat] strategy``."""


_CONTROLLER = "iat_nova.strategies.iat.controller"
LABORATORY = "iat_nova.experiments"
"""The package of the emulated server and of strategies for comparisons; optional on a host."""

SHIPPED_STRATEGIES: Mapping[str, str] = {
    "unmanaged": f"{LABORATORY}.rivals.unmanaged:Unmanaged",
    "baseline": f"{_CONTROLLER}:Baseline",
    "core-only": f"{_CONTROLLER}:CoreOnly",
    "io-iso": f"{_CONTROLLER}:IoIso",
    "iat": f"{_CONTROLLER}:Controller",
    "pollute-buffer": "iat_nova.strategies.pollute_buffer.strategy:PolluteBuffer",
    "a4": f"{LABORATORY}.rivals.a4:A4",
}
"""What ships: a host without the agent, the paper's policies, ours, and a rival.

The first and the last are for comparisons and come with the emulated server.
"""

DEFAULT_STRATEGY = "pollute-buffer"
"""Critical guests gain most by this strategy on random hosts: doc/source/drawn.rst."""


class PluginError(Exception):
    """A part does not exist or does not load; the text names the available parts."""


def find(group: str, name: str) -> importlib.metadata.EntryPoint | None:
    """Return the entry point of this name, or None if it or its package is not installed."""
    return next((one for one in _named(group) if one.name == name and _installed(one)), None)


def missing(group: str, name: str) -> str | None:
    """Return the module of an entry point of this name whose package is missing, or None."""
    points = (one for one in _named(group) if one.name == name and not _installed(one))
    return next((one.module for one in points), None)


def found(group: str) -> Iterator[importlib.metadata.EntryPoint]:
    """Yield the entry points of a group whose package is installed."""
    yield from filter(_installed, _named(group))


def absent(group: str) -> Iterator[importlib.metadata.EntryPoint]:
    """Yield the entry points of a group whose package is not installed."""
    yield from (one for one in _named(group) if not _installed(one))


def _named(group: str) -> list[importlib.metadata.EntryPoint]:
    return sorted(importlib.metadata.entry_points(group=group))


def _installed(point: importlib.metadata.EntryPoint) -> bool:
    try:
        return importlib.util.find_spec(".".join(point.module.split(".")[:2])) is not None
    except ModuleNotFoundError:  # its parent package is missing too
        return False
