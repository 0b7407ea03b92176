# SPDX-License-Identifier: Apache-2.0
"""An iteration without an action says why: numbers, thresholds, and tenants that would lose."""

import dataclasses
import random
import unittest
from typing import cast

from iat_nova.model import Decision, Message, Parameters
from iat_nova.report.sentences import text
from iat_nova.strategies import registry
from iat_nova.strategies.pollute_buffer import moves
from iat_nova.strategies.pollute_buffer.state import Phase
from iat_nova.strategies.pollute_buffer.strategy import PolluteBuffer
from tests import said
from tests.unit.strategies.formulas.host import FormulaHost
from tests.unit.strategies.test_pollute_buffer import BE, FITS, PC, STREAM, Run, host


def loop(name: str, here: FormulaHost, seconds: int) -> list[Decision]:
    """Return a strategy's decisions on a host with DDIO misses of every size."""
    strategy, dice = registry.make(name, Parameters()), random.Random(name)
    state, decisions = None, []
    for second in range(seconds):
        state = state or strategy.initial(here.inventory, 0.0)
        sample = here.sample(getattr(state, "layout", None), second + 1.0, dice, 0.005)
        sample = dataclasses.replace(sample, ddio_misses_per_s=(2e4, 4e7)[second // 10 % 2])
        state, decision = strategy.step(state, here.inventory, sample)
        decisions.append(decision)
    return decisions


class EveryStrategyTest(unittest.TestCase):
    def test_a_quiet_iteration_has_a_reason(self) -> None:
        """Of each shipped strategy; each reason has a sentence for each value."""
        here = host((PC, FITS), (PC, FITS), (BE, STREAM))
        for name in registry.BUILT_IN:
            with self.subTest(name):
                quiet = [one for one in loop(name, here, 60) if not one.steps]
                self.assertTrue(quiet)
                for decision in quiet:
                    self.assertTrue(decision.why, decision)
                    for why in decision.why:
                        self.assertNotRegex(text(why), "[a-z]=")


class RestTest(unittest.TestCase):
    """Of pollute-buffer, when the search is over."""

    def setUp(self) -> None:
        self.here, self.run_ = host((PC, FITS), (PC, FITS), (BE, STREAM)), Run(0.005)
        self.run_.on(self.here, 60)

    def last(self, code: str) -> Message:
        """Return the newest reason of a code."""
        found = [why for one in self.run_.decisions for why in one.why if why.code == code]
        return found[-1]

    def test_the_end_of_a_search_names_moves_numbers_and_limits(self) -> None:
        """What was tried, what it cost whom, what a move may gain at most."""
        causes = self.last("nothing-to-try").values["causes"]
        assert isinstance(causes, tuple)
        self.assertTrue(causes)
        for cause in causes:
            assert isinstance(cause, Message)
            self.assertIn("move", cause.values)
            if cause.code == "too-little":
                self.assertLessEqual(cause.values["promise"], cause.values["least"])
            elif not cause.code.startswith("replaced"):
                self.assertIn("cause", cause.values)

    def test_a_move_that_is_not_tried_names_its_tenant(self) -> None:
        """Of moves of one kind, such as two tenants into the buffer, each names its tenant."""
        run = Run(0.005)
        run.on(host((BE, STREAM), (BE, STREAM)), 60)
        moves = {
            text(move)
            for decision in run.decisions
            for why in decision.why
            if why.code == "nothing-to-try"
            for cause in cast(tuple[Message, ...], why.values["causes"])
            if "tenant" in (move := cast(Message, cause.values["move"])).values
        }
        self.assertLess(1, len(moves))
        for move in moves:
            self.assertRegex(move, r"the pollute buffer \(t[0-2]\)$")

    def test_a_failed_move_names_who_lost(self) -> None:
        """The tenant with the largest part in the loss, with its own loss."""
        undone = self.run_.steps("undone")[0].reason.values["cause"]
        assert isinstance(undone, Message)
        self.assertIn(undone.code, ("speeds-most", "speeds-and-floors", "would-lose"))
        kept = self.run_.steps("kept")[0].reason.values["cause"]
        assert isinstance(kept, Message)
        self.assertEqual("speeds-most", kept.code)
        self.assertIn(kept.values["tenant"], ("t0", "t1"))
        self.assertGreater(kept.values["change"], 0.0)

    def test_at_rest_the_largest_change_and_the_limit_are_named(self) -> None:
        """The numbers before and after."""
        why = self.last("same-load")
        largest = why.values["largest"]
        assert isinstance(largest, Message)
        self.assertLess(largest.values["change"], why.values["limit"])
        self.assertLessEqual({"tenant", "before", "after"}, largest.values.keys())

    def test_busy_ddio_that_hurts_nobody(self) -> None:
        """The rate, the threshold, and the tenant with I/O that waits most for misses."""
        tenants = tuple(dataclasses.replace(one, io=one.id == "t1") for one in self.here.tenants)
        inventory = dataclasses.replace(self.here.inventory, tenants=tenants)
        run = Run(0.005)
        loads = {one.id: load for one, load in zip(tenants, self.here.loads, strict=True)}
        run.on(FormulaHost(inventory, loads, self.here.inbound), 60)
        state = run.state
        assert state is not None
        self.assertEqual(Phase.REST, state.phase)
        self.assertNotIn("ddio-busy", said_by(run.decisions[-1]))
        sample = self.here.sample(state.layout, run.at_s + 1.0, run.dice, 0.005)
        sample = dataclasses.replace(sample, ddio_misses_per_s=48.6e6)
        idle = PolluteBuffer(Parameters(), without=moves.FAMILIES)
        _, decision = idle.step(state, inventory, sample)
        self.assertEqual((), decision.steps)
        why = next(one for one in decision.why if one.code == "ddio-busy")
        self.assertEqual("t1", why.values["tenant"])
        self.assertIn("48.6 M/s (busy above 1.0 M/s)", text(why))


def said_by(decision: Decision) -> tuple[str, ...]:
    """Return the codes of a decision's reasons."""
    return tuple(code for why in decision.why for code in said.codes(why))
