# SPDX-License-Identifier: Apache-2.0
"""A tenant's own demand row by row, that the table is total, and that it is what happens."""

from __future__ import annotations

import itertools
import unittest

from iat_nova.model import (
    Action,
    Allocation,
    DomainInventory,
    Parameters,
    Priority,
    Rates,
    Sample,
    Tenant,
)
from iat_nova.strategies.iat import own_demand
from iat_nova.strategies.iat.change import Moves
from iat_nova.strategies.iat.controller import CoreOnly
from iat_nova.strategies.iat.ledger import Ledger
from iat_nova.strategies.iat.own_demand import RULES, DemandSignal, DemandStanding, Do, standing
from iat_nova.strategies.iat.presets import PRESETS
from iat_nova.strategies.iat.realloc import RoundView
from iat_nova.strategies.iat.roster import Roster
from iat_nova.strategies.iat.state import Cause, FsmState, Grant, GrantTrial, IatState
from tests.unit.build import domain
from tests.unit.strategies.iat.worlds import QUIET, M, Story, guest, rates

CONTENT, ASKING, TRIAL = DemandStanding.CONTENT, DemandStanding.ASKING, DemandStanding.ON_TRIAL
SATISFIED, BARRED = DemandStanding.SATISFIED, DemandStanding.BARRED
S = DemandSignal
JUDGED = S.MEASURED | S.FREE

# A case a row, in the table's order: from, what is seen, to, what is done, whether that is all.
CASES = (
    (CONTENT, S.PRESSED, ASKING, Do.NOTHING, False),
    (CONTENT, S.FREE | S.WAY, CONTENT, Do.NOTHING, False),
    (ASKING, S.WAY | S.BACKED_OFF, ASKING, Do.NOTHING, True),
    (ASKING, S.FREE | S.WAY | S.BACKED_OFF, BARRED, Do.HOLD, False),
    (ASKING, S.FREE | S.WAY, TRIAL, Do.GRANT, True),
    (ASKING, S.FREE | S.AT_MAXIMUM, SATISFIED, Do.REFUSE, False),
    (ASKING, S.FREE, CONTENT, Do.REFUSE, True),
    (TRIAL, S.FREE | S.WAY, TRIAL, Do.NOTHING, False),
    (TRIAL, S.MEASURED | S.WAY, BARRED, Do.UNDO, True),
    (TRIAL, S.MEASURED | S.HELPED | S.WAY, TRIAL, Do.NOTHING, True),
    (TRIAL, JUDGED | S.HELPED | S.WAY, TRIAL, Do.GRANT, True),
    (TRIAL, JUDGED | S.RISING | S.AT_MAXIMUM, BARRED, Do.REFUSE_AND_UNDO, True),
    (TRIAL, JUDGED | S.HELPED, SATISFIED, Do.REFUSE, False),
    (SATISFIED, S.FREE | S.LAPSED | S.PRESSED, CONTENT, Do.GIVE_BACK, True),
    (SATISFIED, S.LAPSED | S.PRESSED, ASKING, Do.NOTHING, False),
    (SATISFIED, S.LAPSED, SATISFIED, Do.NOTHING, False),
    (BARRED, S.PRESSED | S.BACKED_OFF, ASKING, Do.NOTHING, False),
    (BARRED, S.BACKED_OFF, BARRED, Do.NOTHING, False),
    (BARRED, S.FREE, CONTENT, Do.NOTHING, False),
)


class TestRows(unittest.TestCase):
    def test_each_row(self) -> None:
        """What is seen finds the row, which leads where it says."""
        for rule, (source, seen, *what) in zip(RULES, CASES, strict=True):
            with self.subTest(rule=rule.text, source=source):
                self.assertIs(rule, RULES.first(source, seen))
                self.assertEqual(what, [rule.target, rule.do, rule.ends])

    def test_a_way_that_still_rises_is_tried_with_the_next(self) -> None:
        """The row of one that helped: both get a way more."""
        helped = RULES.first(TRIAL, JUDGED | S.HELPED | S.WAY)
        self.assertIs(helped, RULES.first(TRIAL, JUDGED | S.RISING | S.WAY))


class TestTotality(unittest.TestCase):
    def test_every_combination_has_an_answer(self) -> None:
        """Each standing with each set of signals finds a row that starts in it."""
        for source in DemandStanding:
            for chosen in itertools.product((False, True), repeat=len(DemandSignal)):
                seen = S.NONE
                for signal, holds in zip(DemandSignal, chosen, strict=True):
                    seen |= signal if holds else S.NONE
                if source is TRIAL and S.MEASURED not in seen:
                    seen &= ~(S.HELPED | S.RISING)
                if source is TRIAL and S.HELPED in seen:
                    seen &= ~S.RISING  # a verdict is one of three
                self.assertIs(source, RULES.first(source, seen).source)

    def test_a_way_moves_only_where_the_round_ends(self) -> None:
        """At most one way an iteration, but for those on trial that go back together."""
        for rule in RULES:
            if rule.do in (Do.GRANT, Do.UNDO, Do.REFUSE_AND_UNDO, Do.GIVE_BACK):
                self.assertTrue(rule.ends, rule)
            self.assertTrue(rule.text)


class TestStanding(unittest.TestCase):
    """One tenant through all standings, by the controller that has nothing else to do."""

    def setUp(self) -> None:
        """A guest with idle ways, at 1 % misses."""
        self.parameters = Parameters()
        self.controller = CoreOnly(self.parameters)
        self.tenant: Tenant = guest("a", Priority.PC, 2)
        self.inventory = DomainInventory(domain(), (self.tenant,))
        self.at_s = 0.0
        self.state: IatState = self.controller.initial(self.inventory, 0.0)
        self.see(10 * M, 1)

    def see(self, references: float, miss_percent: float, ipc: float = 1.0) -> DemandStanding:
        """Run an iteration; return where the guest stands after it."""
        self.at_s += 1.0
        misses = references * miss_percent / 100
        seen: Rates = rates(references, misses, ipc=ipc)
        sample = Sample(0, self.at_s, 1.0, {"a": seen}, 20 * M, 1 * M)
        self.state, self.decision = self.controller.step(self.state, self.inventory, sample)
        ledger = Ledger(
            Roster.of(self.inventory), self.parameters, PRESETS["core-only"], self.state, sample
        )
        return standing("a", ledger)

    def test_a_way_that_does_not_help(self) -> None:
        """Content, on trial, barred while the demand is the same, content again."""
        self.assertIs(CONTENT, self.see(10 * M, 1))
        self.assertIs(TRIAL, self.see(10 * M, 40, ipc=0.5))
        self.assertEqual(3, self.state.allocation.tenants["a"])
        self.assertIs(BARRED, self.see(10 * M, 40, ipc=0.5))
        self.assertEqual(2, self.state.allocation.tenants["a"])
        self.assertIs(BARRED, self.see(10 * M, 60, ipc=0.3))
        self.assertEqual("held-back", self.decision.steps[0].reason.code)
        self.at_s += self.parameters.backoff_initial_s
        self.assertIs(CONTENT, self.see(10 * M, 60, ipc=0.3))

    def test_ways_that_do_not_help_go_back_together(self) -> None:
        """Misses that still rise with the first way: the second is judged with it, and both go."""
        self.assertIs(TRIAL, self.see(10 * M, 40, ipc=0.5))
        self.assertIs(TRIAL, self.see(10 * M, 60, ipc=0.4))
        self.assertEqual(4, self.state.allocation.tenants["a"])
        self.assertIs(BARRED, self.see(10 * M, 60, ipc=0.4))
        self.assertEqual(2, self.state.allocation.tenants["a"])

    def test_ways_that_help_until_the_maximum(self) -> None:
        """On trial as long as each helps, satisfied at the maximum, content when it has gone."""
        self.tenant = guest("a", Priority.PC, 2, most=4)
        self.inventory = DomainInventory(domain(), (self.tenant,))
        self.state = self.controller.initial(self.inventory, 0.0)
        self.see(10 * M, 1)
        found = [self.see(10 * M, 40, ipc=0.5), self.see(10 * M, 30), self.see(10 * M, 20)]
        self.assertEqual([TRIAL, TRIAL, SATISFIED], found)
        self.assertEqual(4, self.state.allocation.tenants["a"])
        after = [self.see(2 * M, 1, ipc=2.0), self.see(2 * M, 1, ipc=2.0)]
        self.assertEqual([SATISFIED, CONTENT], after)
        self.assertEqual(2, self.state.allocation.tenants["a"])


class TestTurns(unittest.TestCase):
    """Two tenants that ask at the same time."""

    def test_one_way_an_iteration(self) -> None:
        """The second has its turn when the way of the first has been judged."""
        guests = guest("a", Priority.PC), guest("b", Priority.PC)
        story = Story(guests, features=PRESETS["core-only"]).settled()
        pressed = rates(QUIET.references_per_s, 0.5 * QUIET.references_per_s, ipc=0.5)
        story.second({"a": pressed, "b": pressed})
        grown = [
            [step.subject for step in decision.steps if step.action is Action.GROW]
            for decision in (story.decision, story.second(), story.second())
        ]
        self.assertEqual([["a"], [], ["b"]], grown)


class TestServe(unittest.TestCase):
    """Three critical guests ask: who gets a way, and who waits for a turn."""

    def serve(self, *, free=True, ways=2, most=11, seen="abc", idle=True, blocked=False, **state):
        guests = [guest(one, Priority.PC, ways, most=most if one == "a" else 11) for one in "abc"]
        roster = Roster.of(DomainInventory(domain() if idle else domain(6), tuple(guests)))
        sample = Sample(0, 9.0, 1.0, {one: rates(9 * M, 6 * M) for one in seen}, 20 * M, 1 * M)
        before = Sample(0, 8.0, 1.0, {one: rates(9 * M, 3 * M) for one in "ab"}, 20 * M, 1 * M)
        counts = Allocation(2, dict.fromkeys("abc", ways))
        known = IatState(roster.domain, 1, FsmState.LOW_KEEP, counts, **state)
        self.ledger = Ledger(roster, Parameters(), PRESETS["core-only"], known, sample)
        if blocked:
            self.ledger.back_off("a")
        view = RoundView(
            roster, Parameters(), PRESETS["core-only"], before, sample, None, Moves(()), None
        )
        waiting = own_demand.serve(view, self.ledger, tuple("cab"), free=free)
        steps = [(step.action, step.subject, step.reason.code) for step in self.ledger.steps]
        return waiting, steps

    def test_turns(self) -> None:
        """One way an iteration; who comes later waits, unless there is no way for anybody."""
        grown = [(Action.GROW, "a", "own-demand-points")]
        self.assertEqual((("b", "c"), grown), self.serve())
        self.assertEqual((("a", "b", "c"), []), self.serve(free=False))
        waiting, steps = self.serve(most=2)
        self.assertEqual((("c",), (Action.REFUSE, "a", "at-maximum")), (waiting, steps[0]))
        self.assertEqual((Action.GROW, "b"), steps[1][:2])
        waiting, steps = self.serve(blocked=True)
        self.assertEqual((("c",), (Action.REFUSE, "a", "held-back")), (waiting, steps[0]))
        self.assertEqual((Action.GROW, "b"), steps[1][:2])
        self.assertEqual(((), [(Action.REFUSE, "a", "no-way")]), self.serve(idle=False))

    def test_reasons(self) -> None:
        """The rise of the miss rate in points, where it is known."""
        self.serve()
        self.assertAlmostEqual(100 / 3, self.ledger.steps[0].reason.values["points"])
        self.serve(seen="c")
        self.assertEqual("own-demand", self.ledger.steps[0].reason.code)

    def test_a_trial_that_was_not_measured(self) -> None:
        """Stays on trial; others have their turn meanwhile."""
        trial = GrantTrial("c", Cause.OWN_DEMAND, 1, 1 * M, 0.5)
        waiting, steps = self.serve(seen="ab", trials=(trial,))
        self.assertEqual((Action.GROW, "a"), steps[0][:2])
        self.assertEqual(("b", "c"), waiting)

    def test_lapsed_grants(self) -> None:
        """The latest of those for own demand goes back, where the machine did nothing."""
        grants = (
            Grant("a", Cause.OWN_DEMAND, 99 * M, 1.0),
            Grant("b", Cause.OWN_DEMAND, 99 * M, 2.0),
            Grant("c", Cause.CORE_DEMAND, 99 * M, 3.0),
        )
        waiting, steps = self.serve(ways=3, grants=grants)
        self.assertEqual(("a", "b", "c"), waiting)
        self.assertEqual([(Action.SHRINK, "b")], [one[:2] for one in steps])
        waiting, steps = self.serve(ways=3, grants=grants[2:])
        self.assertEqual([(Action.GROW, "a")], [one[:2] for one in steps])
        waiting, steps = self.serve(ways=3, grants=grants, free=False)
        self.assertEqual((("a", "b", "c"), []), (waiting, steps))

    def test_standing(self) -> None:
        """Of one's own trial, back-off and grants for own demand."""
        self.serve(
            free=False,
            grants=(
                Grant("b", Cause.OWN_DEMAND, 9 * M, 1.0),
                Grant("c", Cause.CORE_DEMAND, 9 * M, 2.0),
            ),
            trials=(GrantTrial("b", Cause.OWN_DEMAND, 1, 1 * M, 0.5),),
        )
        found = [standing(one, self.ledger) for one in "abc"]
        self.assertEqual([CONTENT, TRIAL, CONTENT], found)
        self.ledger.trials.clear()
        self.assertEqual(
            [CONTENT, SATISFIED, CONTENT], [standing(one, self.ledger) for one in "abc"]
        )
