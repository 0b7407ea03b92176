# SPDX-License-Identifier: Apache-2.0
"""What a strategy is: `initial`, `step`, and what others need to know to record and replay it."""

from __future__ import annotations

from typing import Any, Protocol

from iat_nova.model import Change, Decision, DomainInventory, Layout, Message, Sample, Step

Rule = tuple[int, str, str]
"""A numbered rule by which a strategy goes from one of its phases to another."""


class Strategy(Protocol):
    """One decision an iteration for one cache domain. Pure: all memory is in the state.

    The state is the strategy's own type; the caller keeps it and hands it back. A strategy may
    further have `state_type`, a dataclass of plain data: then its states are recorded so that
    decisions can be replayed; `phases`, the words its decisions use for `phase`; and `rules`, the
    numbers they use for `rule`: these make its metrics complete from the start; and
    `thresholds(parameters)`, messages with the numbers by which it decides, for `iat-nova explain`.
    A strategy of another package gives sentences as `iat_nova.model.verbatim`.
    """

    def initial(self, inventory: DomainInventory, at_s: float, layout: Layout | None = None) -> Any:
        """Return the state before the first step; `layout` is what lies on the hardware."""

    def step(self, state: Any, inventory: DomainInventory, sample: Sample) -> tuple[Any, Decision]:
        """Decide one iteration."""


def check_decision(decision: object, domain: int) -> None:
    """Raise `TypeError` or `ValueError` unless others can record and tell what was decided.

    A strategy may be anybody's code. Its layout is checked elsewhere (`iat_nova.layout.check`).
    """
    if not isinstance(decision, Decision):
        raise TypeError(f"its step returned {type(decision).__name__}, expected a Decision")
    if decision.domain != domain:
        raise ValueError(f"it decided for cache domain {decision.domain}, expected {domain}")
    parts = ((decision.steps, Step), (decision.changes, Change), (decision.why, Message))
    for found, kind in (*parts, (decision.moved, str)):
        if not isinstance(found, tuple) or not all(isinstance(one, kind) for one in found):
            raise TypeError(f"its decision has {found!r}, expected a tuple of {kind.__name__}")
    texts = [decision.phase, decision.phase_before]
    texts += [step.subject for step in decision.steps]
    for text in texts:
        if not isinstance(text, str):
            raise TypeError(f"its decision has {text!r}, expected text")
    for step in decision.steps:
        if not isinstance(step.reason, Message):
            raise TypeError(f"its decision has {step.reason!r}, expected a Message")
