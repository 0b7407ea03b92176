# SPDX-License-Identifier: Apache-2.0
"""Ways given and taken in one iteration: counts, grants, trials, back-offs and steps agree."""

from __future__ import annotations

import dataclasses
import unittest

from iat_nova.model import (
    DDIO,
    Action,
    Allocation,
    DomainInventory,
    Parameters,
    Priority,
    Rates,
    Sample,
    Step,
    Tenant,
    WayMask,
    message,
)
from iat_nova.strategies.iat.ledger import Granted, Ledger, Way, ddio_bounds
from iat_nova.strategies.iat.presets import Features
from iat_nova.strategies.iat.roster import Roster
from iat_nova.strategies.iat.state import Backoff, Cause, FsmState, Grant, GrantTrial, IatState
from tests.unit.build import domain
from tests.unit.strategies.iat.worlds import M, guest, rates

PC, BE = Priority.PC, Priority.BE
WHY = message("why")
NOW_S = 100.0
PARAMETERS = Parameters()


class LedgerCase(unittest.TestCase):
    """A cache domain of 11 ways, two of them DDIO's, at second 100."""

    def ledger(
        self,
        counts: dict[str, int],
        *tenants: Tenant,
        seen: dict[str, Rates] | None = None,
        features: Features | None = None,
        hits: float | None = 20 * M,
        misses: float | None = 1 * M,
        **state: object,
    ) -> Ledger:
        """A ledger of tenants with these counts; each has 5 M references and 1 M misses."""
        roster = Roster.of(DomainInventory(domain(), tenants))
        found = {one.id: rates() for one in tenants} if seen is None else seen
        before = IatState(domain(), 1, FsmState.LOW_KEEP, Allocation(2, counts), **state)  # type: ignore[arg-type]
        self.state = before
        sample = Sample(0, NOW_S, 1.0, found, hits, misses)
        return Ledger(roster, PARAMETERS, features or Features(), before, sample)


class DdioBoundsTest(unittest.TestCase):
    def test_bounds(self) -> None:
        """Those of the policy, within the ways that are there; tied ways at the top are one."""
        for facts, least, most, expected in (
            ({}, 1, 6, (1, 6)),
            ({}, 3, 3, (3, 3)),
            ({"ways": 4, "ddio": 1}, 1, 6, (1, 4)),
            ({"ways": 4, "ddio": 1}, 6, 6, (4, 4)),
            ({"reserved_ways": WayMask(0x600)}, 1, 11, (1, 9)),
            ({"coerced_ways": WayMask(0x600)}, 1, 6, (2, 6)),
            ({"coerced_ways": WayMask(0x700)}, 1, 2, (2, 2)),
            ({"coerced_ways": WayMask(0x6)}, 1, 6, (1, 6)),
            ({"coerced_ways": WayMask(0x300)}, 1, 6, (1, 6)),
            ({"coerced_ways": WayMask(0x180), "reserved_ways": WayMask(0x600)}, 1, 6, (2, 6)),
        ):
            with self.subTest(facts=facts, least=least, most=most):
                numbers = dataclasses.replace(PARAMETERS, ddio_ways_min=least, ddio_ways_max=most)
                self.assertEqual(expected, ddio_bounds(domain(**facts), numbers))  # type: ignore[arg-type]


class CountsTest(LedgerCase):
    def test_idle_ways(self) -> None:
        """What no tenant holds, of the ways open to tenants; none where more is held than is."""
        a, b = guest("a"), guest("b")
        for features, counts, usable, idle in (
            (Features(), {"a": 2, "b": 3}, 11, 6),
            (Features(avoid_ddio=True), {"a": 2, "b": 3}, 9, 4),
            (Features(), {"a": 8, "b": 6}, 11, 0),
        ):
            with self.subTest(counts=counts):
                ledger = self.ledger(counts, a, b, features=features)
                self.assertEqual((usable, idle), (ledger.usable, ledger.idle))
                self.assertEqual(Allocation(2, counts), ledger.allocation)

    def test_reserved_ways(self) -> None:
        """They are open to no tenant."""
        ledger = self.ledger({"a": 2}, guest("a"))
        reserved = domain(reserved_ways=WayMask(0x3))
        ledger.roster = Roster.of(DomainInventory(reserved, (guest("a"),)))
        self.assertEqual(9, ledger.usable)

    def test_kept(self) -> None:
        """The next state has what the ledger has."""
        grant = Grant("a", Cause.CORE_DEMAND, 1.0, 2.0)
        ledger = self.ledger({"a": 2}, guest("a"), grants=(grant,))
        backoff = ledger.back_off("a")
        trial = GrantTrial("a", Cause.CORE_DEMAND, 1, None, None)
        ledger.trials[Cause.CORE_DEMAND] = trial
        ledger.ddio, ledger.counts["a"] = 3, 4
        self.assertEqual(
            dataclasses.replace(
                self.state,
                allocation=Allocation(3, {"a": 4}),
                grants=(grant,),
                trials=(trial,),
                backoffs=(backoff,),
            ),
            ledger.kept(self.state),
        )

    def test_granted_to_ddio(self) -> None:
        """Only its own grants count."""
        grants = (Grant(DDIO, Cause.IO_DEMAND, 1.0, 2.0), Grant("a", Cause.CORE_DEMAND, 1.0, 2.0))
        self.assertEqual(1, self.ledger({"a": 2}, guest("a"), grants=grants).ddio_granted)
        self.assertEqual(2, self.ledger({}, grants=(grants[0], grants[0])).ddio_granted)


class GrantTest(LedgerCase):
    def test_from_the_idle_ways(self) -> None:
        """One way, with a step, a grant without a giver, and a trial with the figures before."""
        ledger = self.ledger({"a": 2, "x": 3}, guest("a", PC), guest("x"))
        member = ledger.roster.by_id["a"]
        self.assertIs(Granted.YES, ledger.outlook(member))
        self.assertIs(Granted.YES, ledger.grant(member, Cause.CORE_DEMAND, WHY))
        self.assertEqual({"a": 3, "x": 3}, ledger.counts)
        self.assertEqual([Step(Action.GROW, "a", WHY, 2, 3)], ledger.steps)
        self.assertEqual([Grant("a", Cause.CORE_DEMAND, 5 * M, NOW_S)], ledger.grants)
        trial = GrantTrial("a", Cause.CORE_DEMAND, 1, 1 * M, 0.2)
        self.assertEqual({Cause.CORE_DEMAND: trial}, ledger.trials)

    def test_without_counters(self) -> None:
        """Figures of a tenant that was not measured are unknown, and its demand is none."""
        ledger = self.ledger({"a": 2}, guest("a"), seen={})
        ledger.grant(ledger.roster.by_id["a"], Cause.OWN_DEMAND, WHY)
        self.assertEqual([Grant("a", Cause.OWN_DEMAND, 0.0, NOW_S)], ledger.grants)
        self.assertIsNone(ledger.trials[Cause.OWN_DEMAND].miss_ratio)

    def test_from_another(self) -> None:
        """The best-effort tenant with the fewest misses gives, with its own latest grant."""
        older = Grant("x", Cause.CORE_DEMAND, 1.0, 2.0)
        latest = Grant("x", Cause.OWN_DEMAND, 1.0, 3.0)
        ledger = self.ledger(
            {"a": 3, "x": 4, "y": 4}, guest("a", PC), guest("x"), guest("y"),
            seen={"a": rates(), "x": rates(8 * M, 2 * M), "y": rates(9 * M, 3 * M)},
            grants=(older, latest),
        )  # fmt: skip
        member = ledger.roster.by_id["a"]
        self.assertIs(Granted.YES, ledger.outlook(member))
        self.assertEqual([], ledger.steps)
        self.assertIs(Granted.YES, ledger.grant(member, Cause.CORE_DEMAND, WHY))
        self.assertEqual({"a": 4, "x": 3, "y": 4}, ledger.counts)
        gave = message("fewest-misses", misses_per_s=2 * M, tenant="a")
        self.assertEqual(
            [Step(Action.GIVE, "x", gave, 4, 3), Step(Action.GROW, "a", WHY, 3, 4)], ledger.steps
        )
        moved = Grant("a", Cause.CORE_DEMAND, 5 * M, NOW_S, "x", 0.25, latest)
        self.assertEqual([older, moved], ledger.grants)

    def test_no_way(self) -> None:
        """Nobody gives: critical tenants never, others not below their minimum or on trial."""
        trial = GrantTrial("x", Cause.CORE_DEMAND, 1, None, None)
        for counts, others, trials in (
            ({"a": 3, "x": 8}, (guest("x", PC),), ()),
            ({"a": 3, "x": 8}, (guest("x", least=8, ways=8),), ()),
            ({"a": 3, "x": 8}, (guest("x"),), (trial,)),
        ):
            with self.subTest(others=others, trials=trials):
                ledger = self.ledger(counts, guest("a", PC), *others, trials=trials)
                member = ledger.roster.by_id["a"]
                self.assertIs(Granted.NO_WAY, ledger.outlook(member))
                self.assertIs(Granted.NO_WAY, ledger.grant(member, Cause.CORE_DEMAND, WHY))
                refused = Step(Action.REFUSE, "a", message("no-way", cause=WHY))
                self.assertEqual((counts, [refused]), (ledger.counts, ledger.steps))

    def test_own_demand_of_best_effort(self) -> None:
        """It takes idle ways alone; a best-effort tenant with I/O takes others' as well."""
        for io, granted in ((False, Granted.NO_WAY), (True, Granted.YES)):
            with self.subTest(io=io):
                ledger = self.ledger({"a": 3, "x": 8}, guest("a", io=io), guest("x"))
                member = ledger.roster.by_id["a"]
                self.assertIs(granted, ledger.outlook(member))
                self.assertIs(granted, ledger.grant(member, Cause.OWN_DEMAND, WHY))

    def test_the_asker_gives_nothing(self) -> None:
        """A best-effort tenant with I/O does not give to itself."""
        ledger = self.ledger({"a": 11}, guest("a", io=True))
        self.assertIs(Granted.AT_MAXIMUM, ledger.outlook(ledger.roster.by_id["a"]))
        ledger = self.ledger({"a": 6, "b": 5}, guest("a", io=True), guest("b", PC))
        member = ledger.roster.by_id["a"]
        self.assertIs(Granted.NO_WAY, ledger.grant(member, Cause.CORE_DEMAND, WHY))

    def test_at_its_maximum(self) -> None:
        """The reason has the number; nothing changes."""
        ledger = self.ledger({"a": 4}, guest("a", most=4))
        member = ledger.roster.by_id["a"]
        self.assertIs(Granted.AT_MAXIMUM, ledger.outlook(member))
        self.assertIs(Granted.AT_MAXIMUM, ledger.grant(member, Cause.CORE_DEMAND, WHY))
        refused = Step(Action.REFUSE, "a", message("at-maximum", cause=WHY, ways=4))
        self.assertEqual(([refused], [], {}), (ledger.steps, ledger.grants, ledger.trials))


class DdioTest(LedgerCase):
    def test_grows(self) -> None:
        """By so many ways, up to its maximum of six; each way is a grant."""
        for count, ways in ((1, 3), (3, 5), (9, 6)):
            with self.subTest(count=count):
                ledger = self.ledger({"a": 11}, guest("a"))
                ledger.grow_ddio(count, WHY)
                self.assertEqual(([Step(Action.GROW, DDIO, WHY, 2, ways)], ways),
                                 (ledger.steps, ledger.ddio))  # fmt: skip
                grant = Grant(DDIO, Cause.IO_DEMAND, 21 * M, NOW_S)
                self.assertEqual([grant] * (ways - 2), ledger.grants)
                trial = GrantTrial(DDIO, Cause.IO_DEMAND, ways - 2, 1 * M, None)
                self.assertEqual({Cause.IO_DEMAND: trial}, ledger.trials)
                self.assertEqual({"a": 11}, ledger.counts)

    def test_at_its_maximum(self) -> None:
        """It gets no way, and the reason says so."""
        ledger = self.ledger({"a": 2}, guest("a"))
        ledger.ddio = 6
        ledger.grow_ddio(1, WHY)
        refused = Step(Action.REFUSE, DDIO, message("no-way-for-ddio", cause=WHY))
        self.assertEqual(([refused], 6, {}), (ledger.steps, ledger.ddio, ledger.trials))

    def test_closed_to_cores(self) -> None:
        """A way of DDIO's costs a tenant one then: idle ways first, then a best-effort tenant's."""
        features = Features(avoid_ddio=True)
        ledger = self.ledger({"a": 5, "x": 3}, guest("a", PC), guest("x"), features=features)
        ledger.grow_ddio(2, WHY)
        self.assertEqual((4, {"a": 5, "x": 2}), (ledger.ddio, ledger.counts))
        self.assertEqual([None, "x"], [grant.giver for grant in ledger.grants])
        gave = message("fewest-misses", misses_per_s=1 * M, tenant=DDIO)
        self.assertEqual(Step(Action.GIVE, "x", gave, 3, 2), ledger.steps[0])
        full = self.ledger({"a": 9}, guest("a", PC), features=features)
        full.grow_ddio(1, WHY)
        self.assertEqual((2, [Action.REFUSE]), (full.ddio, [step.action for step in full.steps]))

    def test_shrinks(self) -> None:
        """By one way, which was no grant."""
        ledger = self.ledger({"a": 2}, guest("a"))
        ledger.shrink_ddio(WHY)
        self.assertEqual([Step(Action.SHRINK, DDIO, WHY, 2, 1)], ledger.steps)
        self.assertEqual((1, []), (ledger.ddio, ledger.grants))

    def test_gives_back(self) -> None:
        """A grant of DDIO's ends with its trial."""
        ledger = self.ledger({"a": 2}, guest("a"))
        ledger.grow_ddio(1, WHY)
        ledger.take_back(ledger.grants[0], Action.UNDO, WHY)
        self.assertEqual(Step(Action.UNDO, DDIO, WHY, 3, 2), ledger.steps[-1])
        self.assertEqual((2, [], {}), (ledger.ddio, ledger.grants, ledger.trials))


class TakeBackTest(LedgerCase):
    def taken(
        self, action: Action, *, misses: float = 1 * M, ratio: float | None = 0.2,
        giver: Tenant | None = None, **more: object,
    ) -> Ledger:  # fmt: skip
        """End a grant of a's, whose way x had given at 20 % misses."""
        given = Grant("x", Cause.OWN_DEMAND, 1.0, 2.0)
        self.grant = Grant("a", Cause.CORE_DEMAND, 1.0, 3.0, "x", ratio, given)
        self.later = Grant("a", Cause.OWN_DEMAND, 1.0, 4.0)
        trials = (GrantTrial("a", Cause.CORE_DEMAND, 1, None, None),)
        seen = {"a": rates(), "x": rates(5 * M, misses)}
        ledger = self.ledger(
            {"a": 5, "x": 2}, guest("a", PC), giver or guest("x"),
            **{"seen": seen, "grants": (self.grant, self.later), "trials": trials, **more},  # type: ignore[arg-type]
        )  # fmt: skip
        ledger.take_back(self.grant, action, WHY)
        self.given = given
        return ledger

    def test_to_the_idle_ways(self) -> None:
        """A lapsed grant's way is idle while the giver misses no more than then."""
        for misses in (1 * M, 1.03 * M):
            ledger = self.taken(Action.SHRINK, misses=misses)
            self.assertEqual({"a": 4, "x": 2}, ledger.counts)
            self.assertEqual([Step(Action.SHRINK, "a", WHY, 5, 4)], ledger.steps)
            self.assertEqual(([self.later], {}), (ledger.grants, ledger.trials))

    def test_to_the_giver(self) -> None:
        """If the grant was wrong, or the giver misses more, or nobody knows."""
        for action, misses, ratio, seen in (
            (Action.UNDO, 1 * M, 0.2, True),
            (Action.SHRINK, 1.04 * M, 0.2, True),
            (Action.SHRINK, 1 * M, None, True),
            (Action.SHRINK, 1 * M, 0.2, False),
        ):
            with self.subTest(action=action, misses=misses, ratio=ratio, seen=seen):
                more = {} if seen else {"seen": {}}
                ledger = self.taken(action, misses=misses, ratio=ratio, **more)
                self.assertEqual({"a": 4, "x": 3}, ledger.counts)
                back = Step(Action.GROW, "x", message("way-back", tenant="a"), 2, 3)
                self.assertEqual([Step(action, "a", WHY, 5, 4), back], ledger.steps)
                self.assertEqual([self.given, self.later], ledger.grants)

    def test_giver_at_its_maximum(self) -> None:
        """The way is idle then, and the grant that had moved along is gone."""
        ledger = self.taken(Action.UNDO, giver=guest("x", most=2))
        self.assertEqual(({"a": 4, "x": 2}, 1), (ledger.counts, len(ledger.steps)))
        self.assertEqual([self.later], ledger.grants)

    def test_without_a_giver(self) -> None:
        """A way that was idle is idle again; another's trial goes on."""
        trial = GrantTrial("x", Cause.CORE_DEMAND, 1, None, None)
        grant = Grant("a", Cause.CORE_DEMAND, 1.0, 3.0)
        ledger = self.ledger(
            {"a": 5, "x": 2}, guest("a"), guest("x"), grants=(grant,), trials=(trial,)
        )
        ledger.take_back(grant, Action.UNDO, WHY)
        self.assertEqual({"a": 4, "x": 2}, ledger.counts)
        self.assertEqual({Cause.CORE_DEMAND: trial}, ledger.trials)


class BackoffTest(LedgerCase):
    def test_blocked(self) -> None:
        """Until its end, and for the same demand within a tenth of it, or an unknown one."""
        change = PARAMETERS.retry_change
        for until_s, demand, blocked in (
            (NOW_S + 1, 5 * M, True),
            (NOW_S, 5 * M, False),
            (NOW_S - 1, 5 * M, False),
            (NOW_S + 1, 5 * M / (1 + change / 2), True),
            (NOW_S + 1, 5 * M / (1 + change * 2), False),
        ):
            with self.subTest(until_s=until_s, demand=demand):
                backoff = Backoff("a", demand, 10.0, until_s)
                ledger = self.ledger({"a": 2}, guest("a"), backoffs=(backoff,))
                self.assertEqual(backoff if blocked else None, ledger.blocked("a"))
                self.assertIsNone(ledger.blocked("b"))
        backoff = Backoff("a", 1.0, 10.0, NOW_S + 1)
        ledger = self.ledger({"a": 2}, guest("a"), seen={}, backoffs=(backoff,))
        self.assertEqual(backoff, ledger.blocked("a"))

    def test_longer_each_time(self) -> None:
        """Twice as long for the same demand, up to the longest; from the start for another."""
        first, most = PARAMETERS.backoff_initial_s, PARAMETERS.backoff_max_s
        for before, delay_s in (
            (None, first),
            (Backoff("a", 5 * M, first, 1.0), 2 * first),
            (Backoff("a", 5 * M, most, 1.0), most),
            (Backoff("a", 50 * M, 4 * first, 1.0), first),
        ):
            with self.subTest(before=before):
                ledger = self.ledger({"a": 2}, guest("a"), backoffs=(before,) if before else ())
                expected = Backoff("a", 5 * M, delay_s, NOW_S + delay_s)
                self.assertEqual(expected, ledger.back_off("a"))
                self.assertEqual({"a": expected}, ledger.backoffs)
        unseen = self.ledger({"a": 2}, guest("a"), seen={}).back_off("a")
        self.assertEqual(0.0, unseen.demand_per_s)


class WayTest(unittest.TestCase):
    def test_idle(self) -> None:
        """A way without a giver was idle."""
        self.assertEqual((None, None), Way())
