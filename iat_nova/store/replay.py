# SPDX-License-Identifier: Apache-2.0
"""Deciding a recorded iteration once more: its state, inventory and sample give its decision."""

from __future__ import annotations

from iat_nova.model import Decision, DomainInventory
from iat_nova.store import records
from iat_nova.store.records import Iteration, Settings
from iat_nova.strategies import registry


class ReplayError(Exception):
    """An iteration cannot be decided once more; the text says why."""


def replay(iteration: Iteration, inventory: DomainInventory, settings: Settings) -> Decision:
    """Return what the strategy of `settings` decides from what a recorded iteration saw.

    Equal to `iteration.decision` when history and strategy are both intact. Raises `ReplayError`,
    `registry.StrategyError` where the strategy is not installed, `records.RecordError` where its
    state has another form now.
    """
    if iteration.state_lost is not None:
        raise ReplayError(f"its state was not recorded ({iteration.state_lost})")
    parameters = settings.parameters.of(iteration.domain)
    strategy = registry.make(settings.strategy, parameters, settings.options)
    kind = getattr(strategy, "state_type", None)
    state = iteration.state if kind is None else records.structure(iteration.state, kind)
    _, decision = strategy.step(state, inventory, iteration.sample)
    return decision
