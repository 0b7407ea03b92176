# SPDX-License-Identifier: Apache-2.0
"""Strategies by name, built-in or from other packages.

A strategy is an entry point in the group ``iat_nova.strategies``. The entry point is a callable,
usually a class. The callable takes the policy's `Parameters`, and options by keyword, and returns a
`Strategy`.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable, Mapping
from typing import Any

from iat_nova.common import plugins
from iat_nova.common.untrusted import worded
from iat_nova.model import Message, Parameters
from iat_nova.strategies.api import Rule, Strategy

NAMESPACE = plugins.STRATEGIES

BUILT_IN = tuple(plugins.SHIPPED_STRATEGIES)
DEFAULT = plugins.DEFAULT_STRATEGY


class StrategyError(plugins.PluginError):
    """The strategy does not exist or does not load; the text names the available strategies."""


def make(name: str, parameters: Parameters, options: Mapping[str, Any] | None = None) -> Strategy:
    """Return a new instance of the strategy `name`. Raises `StrategyError`."""
    factory = find(name)
    try:
        return factory(parameters, **(options or {}))
    except (Exception, SystemExit) as error:
        raise StrategyError(f"strategy {name!r} does not start: {worded(error)}") from error


def find(name: str) -> Callable[..., Strategy]:
    """Return the factory of the strategy `name`. Raises `StrategyError`."""
    try:
        point = (
            importlib.metadata.EntryPoint(name, plugins.SHIPPED_STRATEGIES[name], NAMESPACE)
            if name in BUILT_IN
            else plugins.find(NAMESPACE, name)
        )
        found: Callable[..., Strategy] | None = None if point is None else point.load()
    except ModuleNotFoundError as error:
        if error.name is None or not error.name.startswith(plugins.LABORATORY):
            raise StrategyError(f"strategy {name!r} does not load: {worded(error)}") from error
        raise StrategyError(
            f"strategy {name!r} comes with the emulated server: install "
            "python3-iat-nova-simulator, or choose another strategy"
        ) from error
    except (Exception, SystemExit) as error:  # may be third-party code
        raise StrategyError(f"strategy {name!r} does not load: {worded(error)}") from error
    if found is None:
        if (package := plugins.missing(NAMESPACE, name)) is not None:
            text = f"its entry point names {package}, which is not installed"
            raise StrategyError(f"strategy {name!r} does not load: {text}")
        raise StrategyError(
            f"no strategy {name!r}: there are {', '.join(BUILT_IN)}, and no installed package has "
            f"an entry point of that name in {NAMESPACE}"
        )
    return found


def phases(name: str) -> tuple[str, ...]:
    """Return the phases that a strategy declares. Raises `StrategyError`."""
    return tuple(getattr(find(name), "phases", ()))


def thresholds(name: str, parameters: Parameters) -> tuple[Message, ...] | None:
    """Return a strategy's thresholds; None if the strategy declares none.

    Raises `StrategyError`.
    """
    said = getattr(find(name), "thresholds", None)
    return None if said is None else tuple(said(parameters))


def state_type(name: str) -> type | None:
    """Return the type of a strategy's states, or None if undeclared. Raises `StrategyError`."""
    return getattr(find(name), "state_type", None)


def rules(name: str) -> tuple[Rule, ...]:
    """Return the numbered rules that a strategy declares. Raises `StrategyError`."""
    return tuple(getattr(find(name), "rules", ()))
