# SPDX-License-Identifier: Apache-2.0
"""Replay of recorded iterations: state, inventory and sample give the decision.

Not every iteration's state is stored. A strategy's result depends on nothing else, so a missing
state comes from a replay of earlier iterations, from the last stored state on. A state is stored
once a minute, and for each iteration with an action.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from iat_nova.model import Decision, DomainInventory
from iat_nova.store import records
from iat_nova.store.reader import HistoryReader, Recorded
from iat_nova.store.records import Iteration, SettingsInForce
from iat_nova.strategies import registry


class ReplayError(Exception):
    """An iteration cannot be replayed; the text says why."""


class Replay:
    """Replays the iterations of a history, each from its own state.

    The result equals the recorded decision if history and strategy are both intact. A replay
    remembers its position in each cache domain: consecutive iterations cost one step each.
    """

    def __init__(self, reader: HistoryReader) -> None:
        self._reader = reader
        self._came: dict[int, tuple[int, Any]] = {}  # a domain's last row and the state after it

    def whole(self, recorded: Recorded) -> Iteration:
        """Return an iteration with its state, as plain JSON types or of the strategy's own type.

        Raises `ReplayError`, `registry.StrategyError` where the strategy is not installed,
        `records.RecordError` for a state of another form, and the reader's errors.
        """
        iteration = recorded.iteration
        if not iteration.follows:
            return iteration
        pending: list[Recorded] = []
        state, one = None, recorded
        while True:
            before = self._reader.before(one)
            number = iteration.decision.iteration - len(pending) - 1
            if before is None or before.iteration.decision.iteration != number:
                raise ReplayError(
                    f"its state is not there: it follows from iteration #{number}, which was"
                    " thinned out"
                )
            row, came = self._came.get(iteration.domain, (None, None))
            if before.row == row:
                state = came
                break
            pending.append(before)
            if not before.iteration.follows:
                state = before.iteration.state
                break
            one = before
        for earlier in reversed(pending):
            state = self._after(earlier, dataclasses.replace(earlier.iteration, state=state))
        return dataclasses.replace(iteration, state=state, follows=False)

    def decide(self, recorded: Recorded, settings: SettingsInForce | None = None) -> Decision:
        """Return the replayed decision, with recorded or given settings. Raises as `whole`."""
        iteration = self.whole(recorded)
        inventory, known = self._context(recorded)
        return _step(iteration, inventory, settings or known)[1]

    def _after(self, recorded: Recorded, whole: Iteration) -> Any:
        """Return the state after an iteration; raise `ReplayError` if the decision differs."""
        state, decision = _step(dataclasses.replace(whole, follows=False), *self._context(recorded))
        if decision != whole.decision:
            number = whole.decision.iteration
            raise ReplayError(
                f"its state follows from iteration #{number}, which comes out otherwise today"
            )
        self._came[whole.domain] = (recorded.row, state)
        return state

    def _context(self, recorded: Recorded) -> tuple[DomainInventory, SettingsInForce]:
        iteration = recorded.iteration
        inventory = self._reader.domain_inventory(iteration)
        settings = self._reader.settings(recorded)
        if inventory is None or settings is None:
            raise ReplayError(
                f"the tenants or the parameters of iteration #{iteration.decision.iteration} were"
                " not recorded"
            )
        return inventory, settings


def _step(
    iteration: Iteration, inventory: DomainInventory, settings: SettingsInForce
) -> tuple[Any, Decision]:
    if iteration.state_lost is not None:
        raise ReplayError(f"its state was not recorded ({iteration.state_lost})")
    if iteration.follows:
        raise ReplayError("its state was not written: it follows from the iterations before")
    parameters = settings.parameters.of(iteration.domain)
    strategy = registry.make(settings.strategy, parameters, settings.options)
    kind = getattr(strategy, "state_type", None)
    state = iteration.state
    if kind is not None and not isinstance(state, kind):
        state = records.structure(state, kind)
    return strategy.step(state, inventory, iteration.sample)
