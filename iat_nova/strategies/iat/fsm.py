# SPDX-License-Identifier: Apache-2.0
"""The Mealy machine of IAT (ISCA 2021, section IV-C and figure 6), as a table.

One machine a cache domain. The paper words twelve transitions; `RULES` makes them total: for each
state the rows are tried in order, the first whose `needs` all hold and whose `lacks` are all
absent decides, and the last row of each state always does. One principle resolves what the words
leave open: a fall of DDIO misses that follows our own grant is the grant's success, not the end
of the demand. So the demand *ebbs* when misses are at or below THRESHOLD_MISS_LOW, or when misses
and traffic (hits + misses) both went down.

Everything that decides a transition is in this file; the documentation draws its diagram from it.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping
from typing import Final

from iat_nova.strategies.iat.state import FsmState


class Signal(enum.Flag):
    """What the machine sees. Up and down: by more than THRESHOLD_STABLE from the reference."""

    NONE = 0
    MISSES_HIGH = enum.auto()  # DDIO misses above THRESHOLD_MISS_LOW
    MISSES_UP = enum.auto()
    MISSES_DOWN = enum.auto()
    HITS_DOWN = enum.auto()  # DDIO hits
    REFERENCES_UP = enum.auto()  # LLC references of the stack and the I/O tenants
    EBBS = enum.auto()  # misses low, or misses and traffic both down
    DDIO_AT_MIN = enum.auto()
    DDIO_AT_MAX = enum.auto()
    CORES_ABOVE_INITIAL = enum.auto()  # a tenant holds a way beyond those it started with


@dataclasses.dataclass(frozen=True, slots=True)
class Rule:
    """One row: from `source` to `target` when all of `needs` and none of `lacks` hold.

    `number` is the paper's; None for the rows in which a state stays. `meaning`: message code.
    """

    number: int | None
    source: FsmState
    target: FsmState
    needs: Signal
    lacks: Signal
    meaning: str

    def holds(self, signals: Signal) -> bool:
        """Tell whether the row applies to what was seen."""
        return signals & self.needs == self.needs and not signals & self.lacks


_LOW, _IO, _CORE = FsmState.LOW_KEEP, FsmState.IO_DEMAND, FsmState.CORE_DEMAND
_RECLAIM, _HIGH = FsmState.RECLAIM, FsmState.HIGH_KEEP
_S = Signal
_NONE = Signal.NONE

RULES: Final[tuple[Rule, ...]] = (
    Rule(None, _LOW, _LOW, _NONE, _S.MISSES_HIGH, "misses-low"),
    Rule(
        3, _LOW, _CORE, _S.HITS_DOWN | _S.REFERENCES_UP, _NONE,
        "cores-evict-low",
    ),
    Rule(1, _LOW, _IO, _NONE, _NONE, "io-presses"),
    Rule(8, _CORE, _RECLAIM, _S.EBBS, _NONE, "demand-ebbs"),
    Rule(
        4, _CORE, _IO, _S.MISSES_UP, _S.HITS_DOWN,
        "io-itself-presses",
    ),
    Rule(None, _CORE, _CORE, _NONE, _NONE, "cores-still-press"),
    Rule(6, _IO, _RECLAIM, _S.EBBS, _NONE, "demand-ebbs"),
    Rule(
        7, _IO, _CORE, _S.HITS_DOWN, _S.MISSES_DOWN,
        "cores-evict",
    ),
    Rule(10, _IO, _HIGH, _S.DDIO_AT_MAX, _NONE, "ddio-has-maximum"),
    Rule(None, _IO, _IO, _NONE, _NONE, "io-still-presses"),
    Rule(11, _HIGH, _RECLAIM, _S.EBBS, _NONE, "demand-ebbs"),
    Rule(
        12, _HIGH, _CORE, _S.HITS_DOWN, _S.MISSES_DOWN,
        "cores-evict",
    ),
    Rule(None, _HIGH, _HIGH, _NONE, _NONE, "ddio-keeps-maximum"),
    Rule(
        9, _RECLAIM, _CORE, _S.MISSES_HIGH | _S.MISSES_UP | _S.HITS_DOWN, _NONE,
        "cores-evict-again",
    ),
    Rule(
        5, _RECLAIM, _IO, _S.MISSES_HIGH | _S.MISSES_UP, _NONE,
        "io-presses-again",
    ),
    Rule(
        2, _RECLAIM, _LOW, _S.DDIO_AT_MIN, _S.CORES_ABOVE_INITIAL,
        "ddio-minimum",
    ),
    Rule(None, _RECLAIM, _RECLAIM, _NONE, _NONE, "grants-needed"),
)  # fmt: skip
"""The made-total table, first match wins within a state."""

NUMBERED: Final[Mapping[int, Rule]] = {
    rule.number: rule for rule in RULES if rule.number is not None
}
"""The twelve transitions by the paper's number."""

_BY_SOURCE: Final[Mapping[FsmState, tuple[Rule, ...]]] = {
    state: tuple(rule for rule in RULES if rule.source is state) for state in FsmState
}


def transition(state: FsmState, signals: Signal) -> Rule:
    """Return the row that decides; its `number` is None when the state stays."""
    return next(rule for rule in _BY_SOURCE[state] if rule.holds(signals))
