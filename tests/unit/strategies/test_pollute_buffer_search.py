# SPDX-License-Identifier: Apache-2.0
"""When a move is worth a trial: bars, promises, and limits, by figures done by hand."""

import dataclasses
import unittest

from iat_nova.model import DomainInventory, Parameters, Priority, Rates, Sample, message
from iat_nova.strategies import readings
from iat_nova.strategies.pollute_buffer import search
from iat_nova.strategies.pollute_buffer.judge import Now
from iat_nova.strategies.pollute_buffer.plan import Move, Plan
from iat_nova.strategies.pollute_buffer.state import Failure, Phase, State
from tests.unit.build import domain, tenant

NUMBERS = Parameters()
TENANTS = (tenant("c", 1, priority=Priority.PC), tenant("b", 2))
PLAIN = Plan(frozenset(), 2, 2)
WHAT = message("confine", tenant="b")


def state(**more):
    """A state at rest."""
    here = State(3, domain(), (), PLAIN, phase=Phase.REST, counted=3)
    return dataclasses.replace(here, **more)


def failure(at_s, delay_s=10.0, plan=PLAIN, what=WHAT, why=None):
    return Failure(plan, what, delay_s, at_s + delay_s, why)


class FailuresTest(unittest.TestCase):
    def test_which_are_barred(self) -> None:
        """Until the end of its wait; longer, by the longest wait, if it failed under this load."""
        most_s = NUMBERS.backoff_max_s
        for at_s, since_s, now_s, barred in (
            (100.0, 200.0, 109.0, True),
            (100.0, 200.0, 109.9, True),
            (100.0, 200.0, 110.0, False),
            (100.0, 200.0, 111.0, False),
            (100.0, 100.0, 110.0 + most_s - 1, True),
            (100.0, 99.0, 110.0 + most_s - 1, True),
            (100.0, 99.0, 110.0 + most_s, False),
            (100.0, 101.0, 111.0, False),
        ):
            with self.subTest(at_s=at_s, since_s=since_s, now_s=now_s):
                one = failure(at_s)
                here = state(failures=(one,), load_since_s=since_s)
                found = search.failures(here, now_s, NUMBERS)
                self.assertEqual([one] if barred else [], found)

    def test_the_same_move_from_other_masks(self) -> None:
        """It waits as long as after its failure; the same masks wait as long as they are barred."""
        other, move = Plan(frozenset({"c"}), 2, 2), Move("b", Plan(frozenset({"b"}), 2, 2), WHAT)
        same, elsewhere = failure(100.0, plan=move.plan), failure(100.0, plan=other)
        for known, now_s, expected in (
            ([], 105.0, None),
            ([elsewhere], 109.9, elsewhere),
            ([elsewhere], 110.0, None),
            ([failure(100.0, plan=other, what=message("confine", tenant="c"))], 105.0, None),
            ([failure(100.0, plan=other, what=None)], 105.0, None),
            ([same], 109.9, same),
            ([same], 300.0, same),
            ([elsewhere, same], 105.0, same),
        ):
            with self.subTest(known=known, now_s=now_s):
                self.assertEqual(expected, search._bars(known, move, PLAIN, now_s))

    def test_what_is_said(self) -> None:
        """Under this load until a new one; else the seconds left. The cause, where known."""
        gained = message("no-gain")
        for at_s, what, why, code, cause, wait_s in (
            (100.0, WHAT, None, "failed-in-search", "no-gain", None),
            (101.0, None, None, "failed-in-search", "replaced", None),
            (99.0, WHAT, None, "failed-before", "no-gain", 4.5),
            (99.0, None, None, "failed-before", "replaced", 4.5),
            (99.0, None, gained, "failed-before", "no-gain", 4.5),
            (99.0, WHAT, WHAT, "failed-before", "confine", 4.5),
        ):
            with self.subTest(at_s=at_s, what=what, why=why):
                one = failure(at_s, what=what, why=why)
                told = search._failed(one, WHAT, state(load_since_s=100.0), at_s + 5.5)
                self.assertEqual(
                    (code, WHAT, cause, wait_s),
                    (told.code, told.values["move"], told.values["cause"].code,
                     told.values.get("wait_s")),
                )  # fmt: skip


class LeastTest(unittest.TestCase):
    def test_cost_repaid(self) -> None:
        """A trial's cost, .15 of a second, over the seconds of the load; .006 at least."""
        for lasted_s, interval_s, expected in (
            (0.0, 1.0, 0.15),
            (0.5, 1.0, 0.15),
            (1.0, 1.0, 0.15),
            (10.0, 1.0, 0.015),
            (25.0, 1.0, 0.006),
            (100.0, 1.0, 0.006),
            (10.0, 2.0, 0.03),
            (1.0, 2.0, 0.15),
        ):
            with self.subTest(lasted_s=lasted_s, interval_s=interval_s):
                numbers = dataclasses.replace(NUMBERS, interval_s=interval_s)
                found = search.least(state(load_since_s=50.0), 50.0 + lasted_s, numbers)
                self.assertAlmostEqual(expected, found)

    def test_too_little(self) -> None:
        """Twice as much after each failure of the kind; the reason has what is promised."""
        for promise, failures, code, asked in (
            (0.02, 0, None, 0.01),
            (0.01, 0, "too-little", 0.01),
            (0.004, 0, "too-little", 0.01),
            (0.02, 1, "too-little-again", 0.02),
            (0.021, 1, None, 0.02),
            (0.03, 2, "too-little-again", 0.04),
            (0.01, 2, "too-little", 0.04),
            (0.004, 2, "too-little", 0.04),
            (0.03123456, 2, "too-little-again", 0.04),
        ):
            with self.subTest(promise=promise, failures=failures):
                told = search._too_little(promise, WHAT, failures, 0.01)
                self.assertEqual(code, told and told.code)
                if told:
                    values = told.values
                    self.assertEqual(
                        (WHAT, round(promise, 4), asked),
                        (values["move"], values["promise"], values["least"]),
                    )
                    self.assertEqual(
                        failures if code == "too-little-again" else None, values.get("failures")
                    )
        said = search._promise(0.0123456, 0.0067891).values
        self.assertEqual((0.0123, 0.0068), (said["promise"], said["least"]))


class NextTest(unittest.TestCase):
    def next(self, at_s=1000.0, numbers=NUMBERS, misses=2e6, **more):
        """The next move: c is stalled, b fills three times as much."""
        rates = {"c": Rates(1e9, 1e9, 1e7, misses), "b": Rates(1e9, 1e9, 1e7, 3 * misses)}
        sample = Sample(0, at_s, 1.0, rates, 1e6, 1e6)
        looks = readings.look(TENANTS, sample)
        now = Now(DomainInventory(domain(), TENANTS), sample, looks)
        return search.next_move(state(looks=looks, **more), now, numbers)

    def test_masks_moved_often(self) -> None:
        """A trial may change masks twice within the minute."""
        for limit, times, tried in (
            (6, 4, True),
            (6, 5, False),
            (6, 6, False),
            (6, 0, True),
            (2, 0, True),
            (2, 1, False),
            (1, 0, False),
        ):
            with self.subTest(limit=limit, times=times):
                numbers = dataclasses.replace(NUMBERS, mask_changes_per_minute=limit)
                changes = tuple(990.0 + n for n in range(times))
                move, why = self.next(numbers=numbers, changes_at_s=changes)
                self.assertEqual(tried, move is not None)
                self.assertEqual("promise" if tried else "moved-often", why[0].code)
                if not tried:
                    self.assertEqual({"times": times, "most": limit}, dict(why[0].values))

    def test_the_most_promising_first(self) -> None:
        """The next one if its plan failed; its kind must then promise twice as much."""
        first, said = self.next()
        self.assertEqual(0.006, said[0].values["least"])
        one = failure(995.0, plan=first.plan.barred(PLAIN), what=first.what)
        second, said = self.next(failures=(one,))
        self.assertNotEqual(first.plan, second.plan)
        again = second.what.code == first.what.code
        self.assertEqual(0.012 if again else 0.006, said[0].values["least"])

    def test_settled(self) -> None:
        """After a kept move none that takes it back is tried at once."""
        clear = dataclasses.replace(PLAIN, clear=True, ddio=4)
        for phase, offered in ((Phase.TRIAL, False), (Phase.REST, True), (Phase.MEASURE, True)):
            codes = set()
            failed = ()
            for _ in range(9):
                move, _ = self.next(phase=phase, plan=clear, failures=failed)
                if move is None:
                    break
                codes.add(move.what.code)
                failed += (failure(995.0, plan=move.plan.barred(clear), what=None),)
            with self.subTest(phase):
                self.assertEqual(offered, "keep-clear-no-more" in codes)

    def test_nothing_promises_enough(self) -> None:
        """At most three reasons; nobody is stalled."""
        move, why = self.next(misses=1.0)
        self.assertIsNone(move)
        self.assertEqual(["too-little"], [one.code for one in why])
        failed = ()
        for _ in range(20):
            move, why = self.next(failures=failed)
            if move is None:
                break
            failed += (failure(995.0, plan=move.plan.barred(PLAIN), what=None),)
        self.assertIsNone(move)
        self.assertEqual(3 * ["failed-in-search"], [one.code for one in why])
