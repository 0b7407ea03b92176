# SPDX-License-Identifier: Apache-2.0
"""A second strategy in the shadow of the first: it sees the same samples, and nothing is written.

So it decides from samples that were taken under the other's masks: what it would do first is what
it would do; how its trials would end is not seen.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from iat_nova.layout import check
from iat_nova.model import Decision, DomainInventory, Parameters, Sample
from iat_nova.store import records
from iat_nova.store.records import ShadowDomain
from iat_nova.strategies.api import Strategy, check_decision

Make = Callable[[Parameters], Strategy]


def decide(
    strategy: Strategy, state: Any, inventory: DomainInventory, sample: Sample, now_s: float
) -> tuple[Any, Any, Decision]:
    """Return the state before, the state after, and the decision, which others can apply and tell.

    `state` None: the strategy begins. Raises what the strategy raises, and what
    `check_decision` and `check.check` do.
    """
    if state is None:
        state = strategy.initial(inventory, now_s)
    after, decision = strategy.step(state, inventory, sample)
    check_decision(decision, inventory.domain.id)
    check.check(inventory, decision.layout)
    return state, after, decision


class Shadow:
    """The second strategy and what it would have done. `since_s` is of the wall clock."""

    def __init__(self, name: str, make: Make, parameters: Parameters, since_s: float) -> None:
        self._make = make
        self.use(parameters)
        self._states: dict[int, Any] = {}
        self.now = records.Shadow(name, since_s)

    def use(self, parameters: Parameters) -> None:
        """Decide by other numbers from now on. Raises `StrategyError`."""
        strategy = self._make(parameters)
        own = {number: self._make(one) for number, one in parameters.domains.items()}
        self._strategy, self._own = strategy, own

    def look(
        self, inventory: DomainInventory, sample: Sample, actual: Decision, now_s: float
    ) -> str | None:
        """Decide on a sample beside what was decided; return what went wrong.

        The boundary beyond which nothing of this strategy ends the loop, as in `Agent`.
        """
        number = inventory.domain.id
        try:
            before = self._states.get(number)
            strategy = self._own.get(number, self._strategy)
            _, after, decision = decide(strategy, before, inventory, sample, now_s)
        except Exception as error:  # noqa: BLE001 - see above
            return f"cache domain {number}: the shadow strategy failed: {error!r}"
        self._states[number] = after
        known = self.now.domains.get(number)
        if known is None or decision.moved or actual.moved or known.layout != decision.layout:
            told = ShadowDomain(
                decision.layout,
                (known.moved if known else 0) + len(decision.moved),
                (known.moved_meanwhile if known else 0) + len(actual.moved),
            )
            domains = {**self.now.domains, number: told}
            self.now = dataclasses.replace(self.now, domains=domains)
        return None
