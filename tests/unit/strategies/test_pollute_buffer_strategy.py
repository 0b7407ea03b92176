# SPDX-License-Identifier: Apache-2.0
"""Single iterations of the default strategy, by figures done by hand."""

import dataclasses
import unittest

from iat_nova.model import (
    Action,
    DomainInventory,
    Group,
    Layout,
    Parameters,
    Priority,
    Sample,
    Step,
    WayMask,
    WayRequest,
    message,
)
from iat_nova.strategies.outlook import Outlook
from iat_nova.strategies.pollute_buffer import masks, strategy
from iat_nova.strategies.pollute_buffer.judge import Now
from iat_nova.strategies.pollute_buffer.plan import Limit, Move, Own, Plan
from iat_nova.strategies.pollute_buffer.state import Failure, Phase, State, members_of
from iat_nova.strategies.pollute_buffer.strategy import PolluteBuffer
from iat_nova.strategies.readings import Look
from tests.unit.build import domain, tenant

NUMBERS = Parameters()
TENANTS = (tenant("c", 1, priority=Priority.PC), tenant("b", 2), tenant("d", 3))
INVENTORY = DomainInventory(domain(), TENANTS)
PLAIN = Plan(frozenset(), 2, 2)
CONFINED = dataclasses.replace(PLAIN, confined=frozenset("b"))
WHAT = message("confine", tenant="b")
LOOK = Look(1.0, 0.1, 1e6, 1e7, cycles_per_s=1e9)


def state(plan=PLAIN, **more):
    """A state at rest, whose layout is that of the plan."""
    here = State(6, INVENTORY.domain, members_of(INVENTORY), plan, phase=Phase.REST)
    placed = masks.layout(INVENTORY, plan)
    return dataclasses.replace(here, **{"layout": placed, "counted": 3, **more})


def now(at_s=1000.0, inventory=INVENTORY, **looks):
    """A sample in which all are as they were, but for these readings."""
    seen = {one.id: LOOK for one in inventory.tenants} | looks
    return Now(inventory, Sample(0, at_s, 1.0, {}), seen)


class OutlookTest(unittest.TestCase):
    def test_codes(self) -> None:
        """Unsettled, searching, all moves failed, or none that promises enough."""
        kept = Failure(CONFINED, None, 10.0, 1e4)
        failed = Failure(CONFINED, WHAT, 10.0, 1e4)
        for at_s, more, expected in (
            (107.9, {"calm_s": 8.0}, Outlook.UNSETTLED),
            (108.0, {"calm_s": 8.0}, Outlook.SEARCHING),
            (200.0, {"calm_s": 8.0}, Outlook.NO_PROMISE),
            (50.0, {}, Outlook.SEARCHING),
            (110.0, {}, Outlook.SEARCHING),
            (124.0, {}, Outlook.SEARCHING),
            (126.0, {}, Outlook.NO_PROMISE),
            (200.0, {"phase": Phase.TRIAL}, Outlook.SEARCHING),
            (200.0, {"phase": Phase.MEASURE}, Outlook.SEARCHING),
            (200.0, {"failures": (kept,)}, Outlook.NO_PROMISE),
            (200.0, {"failures": (kept, failed)}, Outlook.ALL_FAILED),
            (2e4, {"failures": (failed,)}, Outlook.NO_PROMISE),
        ):
            with self.subTest(at_s=at_s, more=more):
                here = state(load_since_s=100.0, **more)
                self.assertIs(expected, PolluteBuffer(NUMBERS).outlook(here, at_s))

    def test_thresholds(self) -> None:
        """A trial costs .15 of an interval at most."""
        for interval_s, cost_s in ((1.0, 0.15), (2.0, 0.3), (0.5, 0.075)):
            numbers = dataclasses.replace(NUMBERS, interval_s=interval_s)
            told = {one.code: one.values for one in PolluteBuffer.thresholds(numbers)}
            self.assertAlmostEqual(cost_s, told["threshold-repaid"]["cost_s"])

    def test_before_the_first_step(self) -> None:
        """Nothing is known of any tenant, and no iteration has passed."""
        first = PolluteBuffer(NUMBERS).initial(INVENTORY, 5.0)
        self.assertEqual(State(0, INVENTORY.domain, (), PLAIN), first)
        self.assertEqual((Phase.MEASURE, 0, 0, 0.0, 0.0, 0.0),
                         (first.phase, first.counted, first.trial_counted, first.deviation,
                          first.load_since_s, first.calm_s))  # fmt: skip


class LoadTest(unittest.TestCase):
    def test_short_loads(self) -> None:
        """After one of less than 5 s, or than twice the calm time, the next waits twice as long."""
        for lasted_s, calm_s, changed, waits_s in (
            (4.9, 0.0, ("c",), 5.0),
            (5.0, 0.0, ("c",), 0.0),
            (4.9, 0.0, (), 0.0),
            (0.0, 0.0, (), 0.0),
            (15.9, 8.0, ("c",), 16.0),
            (15.9, 8.0, (), 16.0),
            (16.0, 8.0, ("c",), 0.0),
            (3.0, 2.0, ("c",), 5.0),
            (3.0, 3.0, ("c",), 6.0),
            (9.0, 500.0, ("c",), 640.0),
        ):
            with self.subTest(lasted_s=lasted_s, calm_s=calm_s, changed=changed):
                here = state(
                    dataclasses.replace(CONFINED, limits=(Limit("b", 50),), clear=True),
                    load_since_s=1000.0 - lasted_s,
                    calm_s=calm_s,
                )
                cause = None if changed else message("speed-changed", tenant="c")
                fresh, (step,), why = PolluteBuffer(NUMBERS)._another_load(
                    here, now(), changed, cause
                )
                self.assertEqual((1000.0, waits_s), (fresh.load_since_s, fresh.calm_s))
                self.assertEqual((Phase.MEASURE, {}, 0), (fresh.phase, fresh.looks, fresh.counted))
                self.assertEqual((Action.WATCH, "layout", ()), (step.action, step.subject, why))
                told = step.reason.values
                expected = cause or message("another-load", tenant="c")
                self.assertEqual(expected, told["cause"])
                if waits_s:
                    self.assertEqual("no-trials", step.reason.code)
                    self.assertAlmostEqual(lasted_s, told["lasted_s"])
                    self.assertEqual((waits_s, PLAIN), (told["calm_s"], fresh.plan))
                else:
                    self.assertEqual("measuring-anew", step.reason.code)
                    left = dataclasses.replace(CONFINED, clear=True)
                    self.assertEqual(left, fresh.plan)

    def test_who_changed_leaves_the_buffer(self) -> None:
        """A trial ends; the first of those that changed is named."""
        both = dataclasses.replace(PLAIN, confined=frozenset("bd"))
        here = state(both, trial=Move("d", CONFINED, WHAT), phase=Phase.TRIAL)
        fresh, (step,), _ = PolluteBuffer(NUMBERS)._another_load(here, now(), ("d", "c"))
        self.assertEqual((Action.UNDO, "d"), (step.action, step.subject))
        self.assertEqual("d", step.reason.values["cause"].values["tenant"])
        self.assertEqual((CONFINED, None), (fresh.plan, fresh.trial))

    def test_lending_ends(self) -> None:
        """If misses stall a lender, and of none other."""
        owner = tenant("o", 4, priority=Priority.PC, ways=WayRequest(2, 2, 11, 2))
        inventory = DomainInventory(domain(), (*TENANTS, owner))
        lent = dataclasses.replace(PLAIN, lenders=("o",))
        for stalled, ends in ((0.0, False), (0.001, False), (0.006, False), (0.007, True)):
            here = state(lent, members=members_of(inventory))
            seen = now(inventory=inventory, o=dataclasses.replace(LOOK, stalled=stalled))
            fresh, _, _ = PolluteBuffer(NUMBERS)._another_load(here, seen, ("c",))
            self.assertEqual(() if ends else ("o",), fresh.plan.lenders)
            self.assertEqual((Own("o", 2),) if ends else (), fresh.plan.own)

    def test_measuring(self) -> None:
        """Until the load has lasted its calm time, and two samples are known."""
        for at_s, calm_s, counted, code, values in (
            (1003.25, 8.0, 0, "load-too-short", {"lasted_s": 3.2, "calm_s": 8.0}),
            (1007.9, 8.0, 5, "load-too-short", {"lasted_s": 7.9, "calm_s": 8.0}),
            (1008.0, 8.0, 0, "first-samples", {"number": 1, "samples": 2}),
            (1000.0, 0.0, 0, "first-samples", {"number": 1, "samples": 2}),
        ):
            with self.subTest(at_s=at_s, calm_s=calm_s):
                here = state(
                    phase=Phase.MEASURE,
                    looks={one.id: LOOK for one in TENANTS} if counted else {},
                    counted=counted,
                    load_since_s=1000.0,
                    calm_s=calm_s,
                )
                seen, steps, (why,) = PolluteBuffer(NUMBERS)._measure(here, now(at_s))
                self.assertEqual((code, values), (why.code, dict(why.values)))
                self.assertEqual(((), counted + 1), (steps, seen.counted))
        here = state(phase=Phase.MEASURE, looks={one.id: LOOK for one in TENANTS}, counted=5)
        seen, steps, why = PolluteBuffer(NUMBERS)._measure(here, now())
        self.assertIsNot(Phase.MEASURE, seen.phase)


class WrittenTest(unittest.TestCase):
    def written(self, before, after, steps=(), at_s=1000.0, inventory=INVENTORY):
        return strategy._written(before, now(at_s, inventory), (after, steps, ()))

    def test_nothing_new(self) -> None:
        """The layout is the same object; the decision is stable unless there are steps."""
        before = state(changes_at_s=(900.0, 939.9, 940.0, 940.1, 999.0))
        step = Step(Action.WATCH, "layout", WHAT)
        for steps in ((), (step,)):
            after, decision = self.written(before, before, steps)
            self.assertIs(before.layout, after.layout)
            self.assertIs(before.layout, decision.layout)
            self.assertEqual((not steps, steps, ()),
                             (decision.stable, decision.steps, decision.moved))  # fmt: skip
            self.assertEqual((940.1, 999.0), after.changes_at_s)
            self.assertEqual((7, 7), (after.iteration, decision.iteration))

    def test_another_plan(self) -> None:
        """Moved masks are a change of this second; so are limits of memory bandwidth alone."""
        limited = dataclasses.replace(CONFINED, limits=(Limit("b", 50),))
        for was, plan, moved, counts in (
            (PLAIN, CONFINED, ("b",), True),
            (CONFINED, PLAIN, ("b",), True),
            (CONFINED, limited, (), True),
            (limited, CONFINED, (), True),
            (PLAIN, dataclasses.replace(PLAIN, ddio=4), ("ddio",), True),
            (dataclasses.replace(PLAIN, ddio=4), PLAIN, ("ddio",), True),
            (PLAIN, dataclasses.replace(PLAIN, dca_off=("p",)), ("ddio",), True),
            (PLAIN, dataclasses.replace(PLAIN, buffer=5), (), False),
        ):
            with self.subTest(was=was, plan=plan):
                before = state(was, changes_at_s=(999.0,))
                on_trial = dataclasses.replace(before, trial=Move("b", plan, WHAT))
                for after in (dataclasses.replace(before, plan=plan), on_trial):
                    found, decision = self.written(before, after)
                    self.assertEqual(masks.layout(INVENTORY, plan), found.layout)
                    self.assertEqual((moved, not moved), (decision.moved, decision.stable))
                    times = (999.0, 1000.0) if counts else (999.0,)
                    self.assertEqual(times, found.changes_at_s)
                    self.assertEqual(decision.layout, found.layout)

    def test_another_tenant_or_domain(self) -> None:
        """The layout is that of the present ones."""
        more = DomainInventory(INVENTORY.domain, (*TENANTS, tenant("new", 7)))
        before = state(CONFINED)
        after = dataclasses.replace(before, members=members_of(more))
        found, decision = self.written(before, after, inventory=more)
        self.assertEqual(0x7FF, found.layout.mask_of("new"))
        self.assertEqual((), decision.moved)
        other = dataclasses.replace(INVENTORY.domain, reserved_ways=WayMask(0x1))
        found, decision = self.written(before, before, inventory=DomainInventory(other, TENANTS))
        self.assertEqual(0x7FE, found.layout.mask_of("c"))
        self.assertEqual(("c", "d"), decision.moved)

    def test_first_layout(self) -> None:
        """Everything was open to all before, and DDIO as found."""
        for plan, moved in (
            (PLAIN, ()),
            (CONFINED, ("b",)),
            (dataclasses.replace(PLAIN, ddio=3), ("ddio",)),
        ):
            before = state(layout=None)
            after = dataclasses.replace(before, plan=plan)
            self.assertEqual(moved, self.written(before, after)[1].moved)
        unknown = DomainInventory(domain(ddio=None), TENANTS)
        before = state(layout=None, domain=unknown.domain)
        self.assertEqual((), self.written(before, before, inventory=unknown)[1].moved)

    def test_moved(self) -> None:
        """Each tenant with another mask, wider or narrower; one that is new had all ways."""

        def placed(**of):
            return Layout(WayMask(0x600), tuple(Group((t,), WayMask(m)) for t, m in of.items()))

        before = placed(c=0x0FF, b=0x0F0)
        for after, moved in (
            (placed(c=0x0FF, b=0x0F0, d=0x7FF), ()),
            (placed(c=0x07F, b=0x0F0, d=0x7FF), ("c",)),
            (placed(c=0x1FF, b=0x0F0, d=0x7FF), ("c",)),
            (placed(c=0x0FF, b=0x0F0, d=0x3FF), ("d",)),
            (placed(c=0x0F0, b=0x0FF, d=0x001), ("c", "b", "d")),
        ):
            self.assertEqual(moved, strategy._moved(before, after, INVENTORY))
