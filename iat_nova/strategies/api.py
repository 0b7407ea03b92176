# SPDX-License-Identifier: Apache-2.0
"""The interface of a strategy, and checks of a decision."""

from __future__ import annotations

from typing import Any, Protocol

from iat_nova.model import Action, Change, Decision, DomainInventory, Layout, Message, Sample, Step
from iat_nova.model.message import MOST_DEPTH
from iat_nova.strategies.layout import check
from iat_nova.strategies.outlook import Outlook

Rule = tuple[int, str, str]
"""A numbered rule by which a strategy goes from one of its phases to another."""


class Strategy(Protocol):
    """A strategy makes one decision per iteration and cache domain.

    Pure: all memory is in the state.

    The state is of the strategy's own type; the caller keeps the state and passes it to the next
    step. A strategy may have further attributes:

    * `state_type`: a dataclass of plain data. States are then recorded, so that decisions can be
      replayed.
    * `phases`, `rules`: all values of `phase` and `rule` in decisions, to make metrics complete
      from the start.
    * `thresholds(parameters)`: messages with the strategy's thresholds, for `iat-nova explain`.
    * `outlook(state, at_s)`: whether moves are left (`iat_nova.strategies.outlook`).

    A strategy of another package gives sentences as `iat_nova.model.verbatim`.
    """

    def initial(self, inventory: DomainInventory, at_s: float, layout: Layout | None = None) -> Any:
        """Return the state before the first step.

        `layout`: the agent's layout on the hardware, or None.
        """

    def step(self, state: Any, inventory: DomainInventory, sample: Sample) -> tuple[Any, Decision]:
        """Decide one iteration; return the next state and the decision."""


Checked = tuple[DomainInventory, Layout]
"""A layout that `check.check` accepted, and the inventory at that time."""


def decide(
    strategy: Strategy,
    state: Any,
    inventory: DomainInventory,
    sample: Sample,
    now_s: float,
    checked: Checked | None = None,
) -> tuple[Any, Any, Decision]:
    """Return the state before, the state after, and a checked decision.

    `state`: None if the strategy begins. `checked`: the last layout; the same layout for the same
    inventory is not checked again. Raises the strategy's own errors, and those of `check_decision`
    and `check.check`.
    """
    if state is None:
        state = strategy.initial(inventory, now_s)
    after, decision = strategy.step(state, inventory, sample)
    check_decision(decision, inventory.domain.id)
    if checked is None or checked[0] is not inventory or checked[1] is not decision.layout:
        check.check(inventory, decision.layout)
    return state, after, decision


def outlook(strategy: Strategy, state: Any, at_s: float) -> Outlook:
    """Return whether the strategy has moves left. Raises the strategy's own errors.

    Raises `ValueError` for a code that is not in the list.
    """
    ask = getattr(strategy, "outlook", None)
    return Outlook.UNKNOWN if ask is None else Outlook(ask(state, at_s))


MOST = (1 << 63) - 1
"""The largest iteration, rule or count of ways: SQLite's integers have 64 bits."""


def check_decision(decision: object, domain: int) -> None:
    """Raise `TypeError` or `ValueError` unless the decision can be recorded and shown.

    A strategy may be third-party code. The layout is checked elsewhere
    (`iat_nova.strategies.layout.check`).
    """
    if not isinstance(decision, Decision):
        raise TypeError(f"its step returned {type(decision).__name__}, expected a Decision")
    if decision.domain != domain:
        raise ValueError(f"it decided for cache domain {decision.domain!r}, expected {domain}")
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
        if not isinstance(step.action, Action):
            raise TypeError(f"its decision has {step.action!r}, expected an Action")
    _check_numbers(decision)
    for message in (*decision.why, *(step.reason for step in decision.steps)):
        _check_message(message, MOST_DEPTH)


def _check_message(message: Message, depth: int) -> None:
    """Raise `TypeError` or `ValueError` for a message that cannot be recorded or worded.

    Types are compared exactly: methods of a subclass may raise anything when a value is shown.
    Messages may be nested `depth` levels deep.
    """
    if depth == 0:
        raise ValueError(f"its decision has messages nested more than {MOST_DEPTH} levels deep")
    if type(message.code) is not str:
        found = type(message.code).__name__
        raise TypeError(f"its decision has a message whose code is of type {found}, expected str")
    where = f"the message {message.code[:60]!r}"
    if type(message.values) is not dict or any(type(name) is not str for name in message.values):
        raise TypeError(f"its decision has {where}, whose values are no dict of texts to values")
    for name, value in message.values.items():
        _check_value(value, f"{name[:60]!r} of {where}", depth)


def _check_value(value: object, where: str, depth: int) -> None:
    """Raise `TypeError` or `ValueError` for a value of a message; `where` names the value."""
    several = value if type(value) is tuple else (value,)
    for one in several:
        if type(one) is Message:
            _check_message(one, depth - 1)
        elif type(one) is int and abs(one) > MOST:
            raise ValueError(f"its decision has {where} beyond {MOST}, the largest number")
        elif type(one) not in (_WITHIN if several is value else _ALONE):
            raise TypeError(
                f"its decision has {where} of type {type(one).__name__}, expected str, int, float, "
                "bool, None, a Message, or a tuple of str and Message"
            )


_WITHIN = (str,)
_ALONE = (str, bool, int, float, type(None))


def _check_numbers(decision: Decision) -> None:
    """Raise `TypeError` or `ValueError` for numbers outside the range of the history's columns."""
    counts = [decision.iteration]
    counts += [one for one in (decision.rule,) if one is not None]
    ways = [count for step in decision.steps for count in (step.ways_before, step.ways_after)]
    counts += [count for count in ways if count is not None]
    for count in counts:
        if isinstance(count, bool) or not isinstance(count, int):
            raise TypeError(f"its decision has {count!r}, expected a whole number")
        if not 0 <= count <= MOST:
            raise ValueError(f"its decision has {count}, expected a number from 0 to {MOST}")
    numbers = [decision.at_s]
    numbers += [one for one in (decision.since_s,) if one is not None]
    numbers += [one for change in decision.changes for one in (change.before, change.after)]
    for number in numbers:
        if isinstance(number, bool) or not isinstance(number, int | float):
            raise TypeError(f"its decision has {number!r}, expected a number")
