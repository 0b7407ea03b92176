# SPDX-License-Identifier: Apache-2.0
"""The Mealy machine of IAT (ISCA 2021, section IV-C and figure 6), as a table.

There is one machine per cache domain. The paper describes twelve transitions; `RULES` makes the
table total. For each state the rows are tried in order. The first row decides whose `needs` are all
present and whose `lacks` are all absent. The last row of each state always matches.

One principle settles the cases that the paper leaves open. A fall of DDIO misses after a grant of
the agent is the grant's success, not the end of the demand. Therefore the demand *ebbs* only in two
cases. Misses are at or below THRESHOLD_MISS_LOW, or misses and traffic (hits + misses) both fell.

This file contains all rules for transitions; the documentation draws its diagram from this file.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Generic, TypeVar

from iat_nova.strategies.iat.state import FsmState

State = TypeVar("State", bound=enum.Enum)
Signals = TypeVar("Signals", bound=enum.Flag)


@dataclasses.dataclass(frozen=True, slots=True)
class SignalRow(Generic[State, Signals]):
    """A row: from `source` to `target` if all of `needs` and none of `lacks` are signalled."""

    source: State
    target: State
    needs: Signals
    lacks: Signals

    def holds(self, signals: Signals) -> bool:
        """Return whether the row applies to the signals."""
        return signals & self.needs == self.needs and not signals & self.lacks


AnyRow = TypeVar("AnyRow", bound=SignalRow)  # type: ignore[type-arg]


class Table(Generic[AnyRow]):
    """Rows in order of priority; the last row of each source always applies."""

    def __init__(self, rows: Iterable[AnyRow]) -> None:
        self._rows = tuple(rows)
        self._by_source: dict[enum.Enum, list[AnyRow]] = {}
        for row in self._rows:
            self._by_source.setdefault(row.source, []).append(row)

    def __iter__(self) -> Iterator[AnyRow]:
        return iter(self._rows)

    def first(self, source: enum.Enum, signals: enum.Flag) -> AnyRow:
        """Return the first row of `source` that applies."""
        return next(row for row in self._by_source[source] if row.holds(signals))


class Signal(enum.Flag):
    """Inputs of the machine. Up and down: by more than THRESHOLD_STABLE from the reference."""

    NONE = 0
    MISSES_HIGH = enum.auto()  # DDIO misses above THRESHOLD_MISS_LOW
    MISSES_UP = enum.auto()
    MISSES_DOWN = enum.auto()
    HITS_DOWN = enum.auto()  # DDIO hits
    REFERENCES_UP = enum.auto()  # LLC references of the stack and the I/O tenants
    EBBS = enum.auto()  # misses low, or misses and traffic both down
    DDIO_AT_MIN = enum.auto()
    DDIO_AT_MAX = enum.auto()
    CORES_ABOVE_INITIAL = enum.auto()  # a tenant holds more than its initial ways


@dataclasses.dataclass(frozen=True, slots=True)
class Rule(SignalRow[FsmState, Signal]):
    """A row of the machine.

    `number`: the paper's number; None for rows in which the state stays. `meaning`: message code.
    """

    number: int | None
    meaning: str


_LOW, _IO, _CORE = FsmState.LOW_KEEP, FsmState.IO_DEMAND, FsmState.CORE_DEMAND
_RECLAIM, _HIGH = FsmState.RECLAIM, FsmState.HIGH_KEEP
_S = Signal
_NONE = Signal.NONE

RULES: Final[Table[Rule]] = Table((
    Rule(_LOW, _LOW, _NONE, _S.MISSES_HIGH, None, "misses-low"),
    Rule(_LOW, _CORE, _S.HITS_DOWN | _S.REFERENCES_UP, _NONE, 3, "cores-evict-low"),
    Rule(_LOW, _IO, _NONE, _NONE, 1, "io-presses"),
    Rule(_CORE, _RECLAIM, _S.EBBS, _NONE, 8, "demand-ebbs"),
    Rule(_CORE, _IO, _S.MISSES_UP, _S.HITS_DOWN, 4, "io-itself-presses"),
    Rule(_CORE, _CORE, _NONE, _NONE, None, "cores-still-press"),
    Rule(_IO, _RECLAIM, _S.EBBS, _NONE, 6, "demand-ebbs"),
    Rule(_IO, _CORE, _S.HITS_DOWN, _S.MISSES_DOWN, 7, "cores-evict"),
    Rule(_IO, _HIGH, _S.DDIO_AT_MAX, _NONE, 10, "ddio-has-maximum"),
    Rule(_IO, _IO, _NONE, _NONE, None, "io-still-presses"),
    Rule(_HIGH, _RECLAIM, _S.EBBS, _NONE, 11, "demand-ebbs"),
    Rule(_HIGH, _CORE, _S.HITS_DOWN, _S.MISSES_DOWN, 12, "cores-evict"),
    Rule(_HIGH, _HIGH, _NONE, _NONE, None, "ddio-keeps-maximum"),
    Rule(
        _RECLAIM, _CORE, _S.MISSES_HIGH | _S.MISSES_UP | _S.HITS_DOWN, _NONE, 9,
        "cores-evict-again",
    ),
    Rule(_RECLAIM, _IO, _S.MISSES_HIGH | _S.MISSES_UP, _NONE, 5, "io-presses-again"),
    Rule(_RECLAIM, _LOW, _S.DDIO_AT_MIN, _S.CORES_ABOVE_INITIAL, 2, "ddio-minimum"),
    Rule(_RECLAIM, _RECLAIM, _NONE, _NONE, None, "grants-needed"),
))  # fmt: skip
"""The made-total table, first match wins within a state."""

NUMBERED: Final[Mapping[int, Rule]] = {
    rule.number: rule for rule in RULES if rule.number is not None
}
"""The twelve transitions by the paper's number."""
