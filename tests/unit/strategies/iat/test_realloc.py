# SPDX-License-Identifier: Apache-2.0
"""Ways given and taken by the states of the machine, and the verdict on the last grant."""

from __future__ import annotations

import dataclasses
import unittest

from iat_nova.model import (
    DDIO,
    Action,
    Allocation,
    Change,
    DomainInventory,
    Layout,
    Parameters,
    Priority,
    Quantity,
    Rates,
    Sample,
    Step,
    Tenant,
    WayMask,
    message,
)
from iat_nova.strategies.iat import realloc
from iat_nova.strategies.iat.change import Moves, io_moves
from iat_nova.strategies.iat.ledger import Ledger
from iat_nova.strategies.iat.presets import Features
from iat_nova.strategies.iat.realloc import GrantVerdict, RoundView
from iat_nova.strategies.iat.roster import Roster
from iat_nova.strategies.iat.state import Backoff, Cause, FsmState, Grant, GrantTrial, IatState
from tests.unit.build import domain
from tests.unit.strategies.iat.worlds import M, guest, rates, stack

PC = Priority.PC
WHY = message("why")
NOW_S = 100.0
PARAMETERS = Parameters()
LOW, DDIO_FLOOR = PARAMETERS.threshold_miss_low_per_s, PARAMETERS.floor_ddio_per_s
STABLE = PARAMETERS.threshold_stable


class ReallocCase(unittest.TestCase):
    """Two guests, a with I/O and x of best effort, on 11 ways; DDIO has two of them."""

    tenants: tuple[Tenant, ...] = (guest("a", PC, io=True), guest("x"))

    def build(
        self,
        *,
        counts: dict[str, int] | None = None,
        before: dict[str, Rates] | None = None,
        now: dict[str, Rates] | None = None,
        misses: float | None = 5 * M,
        features: Features | None = None,
        parameters: Parameters = PARAMETERS,
        ddio_ways: int = 2,
        changes: tuple[Change, ...] = (),
        resizable: bool = True,
        **state: object,
    ) -> None:
        """Set view and ledger of an iteration."""
        inventory = DomainInventory(domain(ddio_resizable=resizable), self.tenants)
        roster, features = Roster.of(inventory), features or Features()
        still = {one.id: rates() for one in self.tenants}
        reference = Sample(0, NOW_S - 1, 1.0, still if before is None else before, 20 * M, 5 * M)
        sample = Sample(0, NOW_S, 1.0, still if now is None else now, 20 * M, misses)
        counts = counts or {one.id: 2 for one in self.tenants}
        held = IatState(
            inventory.domain, 1, FsmState.LOW_KEEP, Allocation(ddio_ways, counts), **state  # type: ignore[arg-type]
        )  # fmt: skip
        self.ledger = Ledger(roster, parameters, features, held, sample)
        self.view = RoundView(
            roster, parameters, features, reference, sample, Layout(WayMask(0x600), ()),
            Moves(changes), io_moves(reference, sample, roster, parameters),
        )  # fmt: skip

    def steps(self) -> list[tuple[str, str, str]]:
        """Each step as its action, its subject and the code of its reason."""
        return [(step.action.value, step.subject, step.reason.code) for step in self.ledger.steps]


class JudgeTest(ReallocCase):
    def judge(
        self, trial: GrantTrial, misses: float, ddio: float | None, *, with_ddio: bool = True
    ) -> GrantVerdict:
        """Judge with `misses` of 5 M references."""
        self.build(now={"a": rates(5 * M, misses)}, misses=ddio)
        return realloc.judge(trial, self.view, with_ddio=with_ddio)

    def test_verdicts(self) -> None:
        """Misses of the tenant or of DDIO fell by 3 %: it helped. A rise is judged once more."""
        for misses, ddio, ways, helped, rising in (
            (1 * M, 5 * M, 1, False, False),
            (0.96 * M, 5 * M, 1, True, False),
            (0.98 * M, 5 * M, 1, False, False),
            (1 * M, 4.8 * M, 1, True, False),
            (1 * M, 4.9 * M, 1, False, False),
            (1.04 * M, 5 * M, 1, False, True),
            (1.04 * M, 5 * M, 2, False, False),
            (1.02 * M, 5 * M, 1, False, False),
            (1.04 * M, 4.8 * M, 1, True, False),
            (1 * M, 9 * M, 1, False, False),
        ):
            with self.subTest(misses=misses, ddio=ddio, ways=ways):
                trial = GrantTrial("a", Cause.CORE_DEMAND, ways, 5 * M, 0.2)
                found = self.judge(trial, misses, ddio)
                self.assertEqual((helped, rising), (found.helped, found.rising))
                changes = [one.values["change"] for one in found.figures.values["parts"]]
                self.assertAlmostEqual(misses / M - 1, changes[0])
                self.assertAlmostEqual(ddio / (5 * M) - 1, changes[1])

    def test_what_is_not_known(self) -> None:
        """Only what was measured before and now counts; DDIO where it is asked for."""
        whole = GrantTrial("a", Cause.CORE_DEMAND, 1, 5 * M, 0.2)
        for trial, ddio, with_ddio, codes in (
            (whole, 5 * M, True, ["miss-rate", "ddio-misses"]),
            (whole, 5 * M, False, ["miss-rate"]),
            (whole, None, True, ["miss-rate"]),
            (dataclasses.replace(whole, ddio_misses_per_s=None), 5 * M, True, ["miss-rate"]),
            (dataclasses.replace(whole, ddio_misses_per_s=0.0), 5 * M, True, ["miss-rate"]),
            (dataclasses.replace(whole, miss_ratio=None), 5 * M, True, ["ddio-misses"]),
            (dataclasses.replace(whole, subject="gone"), 5 * M, True, ["ddio-misses"]),
        ):
            with self.subTest(trial=trial, ddio=ddio, with_ddio=with_ddio):
                found = self.judge(trial, 1 * M, ddio, with_ddio=with_ddio)
                self.assertEqual(codes, [one.code for one in found.figures.values["parts"]])
        nothing = self.judge(dataclasses.replace(whole, subject="gone"), 1 * M, None)
        self.assertEqual(GrantVerdict(False, False, message("not-measured")), nothing)


class IoDemandTest(ReallocCase):
    def test_one_way(self) -> None:
        """DDIO gets a way, unless features or hardware fix its ways."""
        for features, resizable, step in (
            (Features(), True, ("grow", DDIO, "why")),
            (Features(resize_ddio=False), True, ("refuse", DDIO, "ddio-fixed")),
            (Features(), False, ("refuse", DDIO, "ddio-fixed")),
        ):
            with self.subTest(step):
                self.build(features=features, resizable=resizable)
                realloc.io_demand(self.view, self.ledger, WHY)
                self.assertEqual([step], self.steps())
                self.assertEqual(3 if step[0] == "grow" else 2, self.ledger.ddio)

    def test_by_the_miss_curve(self) -> None:
        """As many ways as the last ones saved misses for; one where this is not known."""
        curve = dataclasses.replace(PARAMETERS, ddio_growth="miss-curve")
        for parameters, was, ways, misses, grown in (
            (curve, 7 * M, 1, 5 * M, 2),  # 2 M a way, 4 M too many
            (curve, 9 * M, 2, 5 * M, 2),
            (curve, 9 * M, 1, 5 * M, 1),
            (curve, 6.5 * M, 1, 5 * M, 3),
            (curve, 6 * M, 1, 5 * M, 4),
            (curve, 5 * M + DDIO_FLOOR, 1, 5 * M, 1),
            (curve, 4 * M, 1, 5 * M, 1),
            (curve, 3 * M, 1, LOW / 2, 1),
            (curve, None, 1, 5 * M, 1),
            (PARAMETERS, 6 * M, 1, 5 * M, 1),
        ):
            with self.subTest(was=was, ways=ways, misses=misses):
                trial = GrantTrial(DDIO, Cause.IO_DEMAND, ways, was, None)
                self.build(misses=misses, parameters=parameters, trials=(trial,))
                realloc.io_demand(self.view, self.ledger, WHY)
                self.assertEqual(2 + grown, self.ledger.ddio)
        self.build(parameters=curve)
        realloc.io_demand(self.view, self.ledger, WHY)
        self.assertEqual(3, self.ledger.ddio)
        self.build(
            misses=None,
            parameters=curve,
            trials=(GrantTrial(DDIO, Cause.IO_DEMAND, 1, 6 * M, None),),
        )
        realloc.io_demand(self.view, self.ledger, WHY)
        self.assertEqual(3, self.ledger.ddio)


class CoreDemandTest(ReallocCase):
    tenants = (guest("a", PC, io=True), guest("b", PC, io=True, most=3), guest("x"))
    risen = {"a": rates(5 * M, 1.5 * M), "b": rates(5 * M, 2 * M), "x": rates()}

    def demand(self, *, entering: bool, **given: object) -> None:
        """One iteration in Core Demand."""
        self.build(**given)  # type: ignore[arg-type]
        realloc.core_demand(self.view, self.ledger, WHY, entering=entering)

    def rose(self, *tenants: str) -> tuple[Change, ...]:
        """Changes by which misses of tenants rose."""
        return tuple(Change(one, Quantity.MISSES, 1 * M, 2 * M) for one in tenants)

    def test_on_entry(self) -> None:
        """The tenant whose miss rate rose most gets a way; at its maximum the next one."""
        self.demand(entering=True, now=self.risen)
        self.assertEqual([("grow", "b", "miss-rate-rose")], self.steps())
        points = self.ledger.steps[0].reason.values["points"]
        self.assertAlmostEqual(20.0, points)
        self.demand(entering=True, now=self.risen, counts={"a": 2, "b": 3, "x": 2})
        self.assertEqual(
            [("refuse", "b", "at-maximum"), ("grow", "a", "miss-rate-rose")], self.steps()
        )
        self.demand(entering=True)
        self.assertEqual([("refuse", "layout", "no-miss-rate-rose")], self.steps())

    def test_no_way(self) -> None:
        """Where no way is left the first candidate alone is refused."""
        self.demand(entering=True, now=self.risen, counts={"a": 8, "b": 2, "x": 1})
        self.assertEqual([("refuse", "b", "no-way")], self.steps())

    def test_fixed(self) -> None:
        """Where ways of tenants are fixed it is said once, on entry."""
        features = Features(resize_cores=False)
        self.demand(entering=True, now=self.risen, features=features)
        self.assertEqual([("refuse", "layout", "tenants-fixed")], self.steps())
        self.demand(entering=False, now=self.risen, features=features)
        self.assertEqual([], self.steps())

    def test_while_it_helps(self) -> None:
        """The same tenant goes on while its last way helped, whoever else rose."""
        trial = GrantTrial("a", Cause.CORE_DEMAND, 1, 5 * M, 0.4)
        self.demand(entering=False, now=self.risen, trials=(trial,), changes=self.rose("b"))
        self.assertEqual([("grow", "a", "last-way-helped")], self.steps())
        full = GrantTrial("b", Cause.CORE_DEMAND, 1, 5 * M, 0.9)
        self.demand(
            entering=False, now=self.risen, trials=(full,), counts={"a": 2, "b": 3, "x": 2},
            changes=self.rose("a"),
        )  # fmt: skip
        self.assertEqual(
            [("refuse", "b", "at-maximum"), ("grow", "a", "miss-rate-rose")], self.steps()
        )

    def test_that_did_not_help(self) -> None:
        """It waits; another tenant whose misses rose in this iteration has its turn."""
        trial = GrantTrial("a", Cause.CORE_DEMAND, 1, 5 * M, 0.3)
        self.demand(entering=False, now=self.risen, trials=(trial,), changes=self.rose("a", "b"))
        self.assertEqual(
            [("refuse", "a", "last-way-did-not-help"), ("grow", "b", "miss-rate-rose")],
            self.steps(),
        )
        delay_s = PARAMETERS.backoff_initial_s
        self.assertEqual(delay_s, self.ledger.steps[0].reason.values["delay_s"])
        self.assertEqual({"a"}, set(self.ledger.backoffs))
        self.demand(entering=False, now=self.risen, trials=(trial,))
        self.assertEqual([("refuse", "a", "last-way-did-not-help")], self.steps())

    def test_that_helped_ddio(self) -> None:
        """A way helps also if DDIO misses less since."""
        trial = GrantTrial("a", Cause.CORE_DEMAND, 1, 6 * M, 0.3)
        self.demand(entering=False, now=self.risen, trials=(trial,))
        self.assertEqual([("grow", "a", "last-way-helped")], self.steps())

    def test_on_entry_no_verdict(self) -> None:
        """A trial of an earlier demand is over."""
        trial = GrantTrial("a", Cause.CORE_DEMAND, 1, 5 * M, 0.1)
        self.demand(entering=True, now=self.risen, trials=(trial,))
        self.assertEqual([("grow", "b", "miss-rate-rose")], self.steps())
        self.assertEqual({}, self.ledger.backoffs)

    def test_held_back(self) -> None:
        """A tenant that waits is passed over, and the step says how long it still waits."""
        backoff = Backoff("b", 5 * M, 10.0, NOW_S + 7.5)
        self.demand(entering=True, now=self.risen, backoffs=(backoff,))
        self.assertEqual(
            [("refuse", "b", "held-back"), ("grow", "a", "miss-rate-rose")], self.steps()
        )
        values = self.ledger.steps[0].reason.values
        self.assertEqual((5 * M, 7.5), (values["demand_per_s"], values["delay_s"]))
        self.assertTrue(realloc.held_back("b", self.ledger, WHY))
        self.assertFalse(realloc.held_back("a", self.ledger, WHY))


class StackDemandTest(ReallocCase):
    tenants = (stack(), guest("x"))

    def test_with_any_miss_rate(self) -> None:
        """The stack alone needs no rise; where it was not measured its reason is the machine's."""
        self.build(before={})
        realloc.core_demand(self.view, self.ledger, WHY, entering=True)
        self.assertEqual([Step(Action.GROW, "stack", WHY, 2, 3)], self.ledger.steps)


class ReclaimTest(ReallocCase):
    tenants = (stack(), guest("a", PC, io=True), guest("x"))
    low = {"stack": rates(2 * M), "a": rates(2 * M), "x": rates(2 * M)}

    def grant(self, subject: str, at_s: float, demand_per_s: float = 5 * M) -> Grant:
        """A grant at this time."""
        cause = Cause.IO_DEMAND if subject == DDIO else Cause.CORE_DEMAND
        return Grant(subject, cause, demand_per_s, at_s)

    def reclaim(self, *grants: Grant, **given: object) -> None:
        """One iteration in Reclaim, with references at two fifths."""
        counts = {"stack": 3, "a": 3, "x": 3}
        self.build(**{"now": self.low, "counts": counts, "grants": grants, **given})  # type: ignore[arg-type]
        realloc.reclaim(self.view, self.ledger)

    def test_order(self) -> None:
        """One way: the stack's, else the latest tenant's, else DDIO's granted one."""
        io = self.grant(DDIO, 9.0, 100 * M)
        for grants, step in (
            (
                (self.grant("stack", 1.0), self.grant("a", 2.0), io),
                ("shrink", "stack", "demand-fell"),
            ),
            ((self.grant("a", 1.0), self.grant("x", 2.0), io), ("shrink", "x", "demand-fell")),
            ((self.grant("x", 1.0), self.grant("a", 2.0), io), ("shrink", "a", "demand-fell")),
            ((io,), ("shrink", DDIO, "ddio-demand-fell")),
        ):
            with self.subTest(step):
                self.reclaim(*grants, ddio_ways=3)
                self.assertEqual([step], self.steps())

    def test_demand_that_stays(self) -> None:
        """A grant whose demand has not gone stays."""
        self.reclaim(self.grant("a", 1.0, 2 * M), self.grant(DDIO, 2.0, 25 * M), ddio_ways=3)
        self.assertEqual([], self.steps())

    def test_fixed(self) -> None:
        """Where tenants' ways are fixed DDIO's go back; where DDIO's are fixed none of them."""
        grants = (self.grant("a", 1.0), self.grant(DDIO, 9.0, 100 * M))
        self.reclaim(*grants, ddio_ways=3, features=Features(resize_cores=False))
        self.assertEqual([("shrink", DDIO, "ddio-demand-fell")], self.steps())
        self.reclaim(grants[1], ddio_ways=3, features=Features(resize_ddio=False))
        self.assertEqual([], self.steps())
        self.reclaim(grants[1], ddio_ways=1)
        self.assertEqual([], self.steps())

    def test_ways_found(self) -> None:
        """DDIO's ways of the start go back while misses are low, down to the least, here one."""
        for ddio_ways, misses, grants, gone in (
            (2, LOW, (), True),
            (2, LOW + 1, (), False),
            (1, LOW, (), False),
            (3, LOW, (self.grant(DDIO, 1.0, 20 * M),), True),
            (2, LOW, (self.grant(DDIO, 1.0, 20 * M),), False),
            (3, None, (), False),
        ):
            with self.subTest(ddio_ways=ddio_ways, misses=misses, grants=grants):
                one = dataclasses.replace(PARAMETERS, ddio_ways_min=1)
                self.reclaim(*grants, ddio_ways=ddio_ways, misses=misses, parameters=one)
                said = message("found-way-idle", misses_per_s=misses, low_per_s=LOW)
                expected = Step(Action.SHRINK, DDIO, said, ddio_ways, ddio_ways - 1)
                self.assertEqual([expected] if gone else [], self.ledger.steps)

    def test_at_the_least(self) -> None:
        """A lapsed grant of DDIO's stays where the policy wants these ways by now."""
        grant = self.grant(DDIO, 9.0, 100 * M)
        for ddio_ways, gone in ((3, True), (2, False)):
            self.reclaim(grant, ddio_ways=ddio_ways)
            self.assertEqual(gone, bool(self.ledger.steps))

    def test_lapse(self) -> None:
        """The fall of the demand, and the demand then and now."""
        self.build(now=self.low)
        found = realloc.lapse(self.grant("a", 1.0), self.ledger)
        expected = message("demand-fell", now_per_s=2 * M, change=2 / 5 - 1, then_per_s=5 * M)
        self.assertEqual(expected, found)
        found = realloc.lapse(self.grant("gone", 1.0), self.ledger)
        self.assertEqual((0.0, -1.0), (found.values["now_per_s"], found.values["change"]))
        self.assertEqual(
            "ddio-demand-fell", realloc.lapse(self.grant(DDIO, 1.0, 100 * M), self.ledger).code
        )
