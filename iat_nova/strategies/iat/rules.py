# SPDX-License-Identifier: Apache-2.0
"""State machines as tables: a row applies if signals are present or absent."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

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
