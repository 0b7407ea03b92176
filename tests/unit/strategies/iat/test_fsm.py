# SPDX-License-Identifier: Apache-2.0
"""The state machine row by row, and that the table is total."""

from __future__ import annotations

import itertools
import unittest

from iat_nova.report.sentences import SENTENCES
from iat_nova.strategies.iat.fsm import NUMBERED, RULES, Signal
from iat_nova.strategies.iat.state import FsmState

LOW, IO, CORE = FsmState.LOW_KEEP, FsmState.IO_DEMAND, FsmState.CORE_DEMAND
RECLAIM, HIGH = FsmState.RECLAIM, FsmState.HIGH_KEEP
S = Signal

# number, from, what is seen, to
CASES = {
    1: (LOW, S.MISSES_HIGH, IO),
    2: (RECLAIM, S.EBBS | S.DDIO_AT_MIN, LOW),
    3: (LOW, S.MISSES_HIGH | S.HITS_DOWN | S.REFERENCES_UP, CORE),
    4: (CORE, S.MISSES_HIGH | S.MISSES_UP, IO),
    5: (RECLAIM, S.MISSES_HIGH | S.MISSES_UP, IO),
    6: (IO, S.EBBS, RECLAIM),
    7: (IO, S.MISSES_HIGH | S.HITS_DOWN, CORE),
    8: (CORE, S.EBBS, RECLAIM),
    9: (RECLAIM, S.MISSES_HIGH | S.MISSES_UP | S.HITS_DOWN, CORE),
    10: (IO, S.MISSES_HIGH | S.DDIO_AT_MAX, HIGH),
    11: (HIGH, S.EBBS | S.DDIO_AT_MAX, RECLAIM),
    12: (HIGH, S.MISSES_HIGH | S.HITS_DOWN | S.MISSES_UP, CORE),
}

STAYS = (
    (LOW, S.EBBS | S.HITS_DOWN | S.REFERENCES_UP | S.MISSES_UP),
    (CORE, S.MISSES_HIGH | S.MISSES_UP | S.HITS_DOWN),
    (CORE, S.MISSES_HIGH | S.MISSES_DOWN),
    (IO, S.MISSES_HIGH | S.MISSES_DOWN | S.HITS_DOWN),
    (HIGH, S.MISSES_HIGH | S.MISSES_UP | S.DDIO_AT_MAX),
    (RECLAIM, S.EBBS | S.MISSES_UP | S.HITS_DOWN),
    (RECLAIM, S.EBBS | S.DDIO_AT_MIN | S.CORES_ABOVE_INITIAL),
    (RECLAIM, S.MISSES_HIGH | S.HITS_DOWN),
)


class TestRows(unittest.TestCase):
    """The paper's transitions by their numbers."""

    def test_each_number(self) -> None:
        """What is seen leads from the row's source to its target under the row's number."""
        for number, (source, seen, target) in CASES.items():
            with self.subTest(number=number):
                rule = RULES.first(source, seen)
                self.assertEqual((number, target), (rule.number, rule.target))

    def test_no_row_lacks_its_case(self) -> None:
        """All twelve numbers are in the table once, and each has a case here."""
        numbers = [rule.number for rule in RULES if rule.number is not None]
        self.assertEqual(list(range(1, 13)), sorted(numbers))
        self.assertEqual(set(NUMBERED), set(CASES))

    def test_what_stays(self) -> None:
        """Everything else leaves the state as it is."""
        for source, seen in STAYS:
            with self.subTest(source=source, seen=seen):
                rule = RULES.first(source, seen)
                self.assertEqual((None, source), (rule.number, rule.target))

    def test_hits_that_fall_go_before_the_maximum(self) -> None:
        """In I/O Demand row 7 is tried before row 10."""
        seen = S.MISSES_HIGH | S.HITS_DOWN | S.DDIO_AT_MAX
        self.assertEqual(7, RULES.first(IO, seen).number)


class TestTotality(unittest.TestCase):
    """The machine answers everything and never leaves its states."""

    def test_every_combination_has_an_answer(self) -> None:
        """Each state with each set of signals finds a row that starts in it."""
        for state in FsmState:
            for chosen in itertools.product((False, True), repeat=len(Signal)):
                seen = S.NONE
                for signal, holds in zip(Signal, chosen, strict=True):
                    seen |= signal if holds else S.NONE
                rule = RULES.first(state, seen)
                self.assertIs(state, rule.source)
                self.assertIn(rule.target, FsmState)

    def test_each_state_ends_with_a_row_that_always_holds(self) -> None:
        """The last row of a state needs nothing and lacks nothing."""
        for state in FsmState:
            last = [rule for rule in RULES if rule.source is state][-1]
            self.assertEqual((S.NONE, S.NONE), (last.needs, last.lacks))

    def test_a_numbered_row_moves_and_the_others_stay(self) -> None:
        """A number stands for a change of state, its absence for none."""
        for rule in RULES:
            self.assertEqual(rule.number is None, rule.source is rule.target, rule)
            self.assertIn(rule.meaning, SENTENCES)
