# SPDX-License-Identifier: Apache-2.0
"""Who decides: a preset of the controller, or a plug-in with the same `step`.

A plug-in is an entry point in the group ``iat_nova.strategies``: a callable that takes the
policy's `Parameters` and returns a `Strategy`.
"""

from __future__ import annotations

from typing import Any, Protocol

import stevedore.driver
import stevedore.exception

from iat_nova.control.controller import Controller
from iat_nova.model import (
    PRESETS,
    Decision,
    DomainInventory,
    Layout,
    Parameters,
    Sample,
)

NAMESPACE = "iat_nova.strategies"


class StrategyError(Exception):
    """There is no such strategy, or its plug-in does not load."""


class Strategy(Protocol):
    """One decision an iteration for one cache domain. Pure: all memory is in the state.

    The state is the strategy's own type; whoever calls keeps it and hands it back.
    """

    def initial(self, inventory: DomainInventory, at_s: float, layout: Layout | None = None) -> Any:
        """Return the state before the first step; `layout` is what lies on the hardware."""

    def step(self, state: Any, inventory: DomainInventory, sample: Sample) -> tuple[Any, Decision]:
        """Decide one iteration."""


def make(name: str, parameters: Parameters) -> Strategy:
    """Return the strategy of that name. Raises `StrategyError`, naming what there is."""
    if name in PRESETS:
        return Controller(parameters, PRESETS[name])
    try:
        manager: Any = stevedore.driver.DriverManager(
            NAMESPACE,
            name,
            invoke_on_load=True,
            invoke_args=(parameters,),
            warn_on_missing_entrypoint=False,
        )
    except (stevedore.exception.NoMatches, RuntimeError) as error:
        raise StrategyError(
            f"no strategy {name!r}: the presets are {', '.join(PRESETS)}, and no entry point of "
            f"that name in {NAMESPACE} loads ({error})"
        ) from error
    strategy: Strategy = manager.driver
    return strategy
