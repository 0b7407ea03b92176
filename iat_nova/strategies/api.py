# SPDX-License-Identifier: Apache-2.0
"""What a strategy is: `initial`, `step`, and what others need to know to record and replay it."""

from __future__ import annotations

from typing import Any, Protocol

from iat_nova.model import Decision, DomainInventory, Layout, Sample

Rule = tuple[int, str, str]
"""A numbered rule by which a strategy goes from one of its phases to another."""


class Strategy(Protocol):
    """One decision an iteration for one cache domain. Pure: all memory is in the state.

    The state is the strategy's own type; whoever calls keeps it and hands it back. A strategy may
    further have `state_type`, a dataclass of plain data: then its states are recorded so that
    decisions can be replayed; `phases`, the words its decisions use for `phase`; and `rules`, the
    numbers they use for `rule`: these make its metrics complete from the start.
    """

    def initial(self, inventory: DomainInventory, at_s: float, layout: Layout | None = None) -> Any:
        """Return the state before the first step; `layout` is what lies on the hardware."""

    def step(self, state: Any, inventory: DomainInventory, sample: Sample) -> tuple[Any, Decision]:
        """Decide one iteration."""
