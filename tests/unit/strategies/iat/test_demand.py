# SPDX-License-Identifier: Apache-2.0
"""Who gets and who gives a way."""

from __future__ import annotations

import unittest

from iat_nova.model import DeviceModel, DomainInventory, Priority, Rates, Sample, Tenant
from iat_nova.strategies.iat import demand
from iat_nova.strategies.iat.roster import Roster
from iat_nova.strategies.iat.state import Backoff, Cause, Grant
from tests.unit.build import domain
from tests.unit.strategies.iat.worlds import M, guest, rates, stack

PC, BE = Priority.PC, Priority.BE


def roster(*tenants: Tenant) -> Roster:
    return Roster.of(DomainInventory(domain(), tenants))


def sample(**tenants: Rates) -> Sample:
    return Sample(0, 0.0, 1.0, tenants, 20 * M, 1 * M)


def ratio(percent: float) -> Rates:
    return rates(10 * M, 10 * M * percent / 100)


class TestCoreCandidates(unittest.TestCase):
    """Aggregation, slicing, and both on one host."""

    def _order(self, who: Roster, before: Sample, after: Sample) -> list[str]:
        return [c.member.id for c in demand.core_candidates(who, before, after)]

    def test_aggregation_serves_the_stack_first(self) -> None:
        """The stack comes first even when a tenant behind it rose more."""
        who = roster(stack(), guest("a", io=True, model=DeviceModel.AGGREGATION), guest("b"))
        before = sample(stack=ratio(10), a=ratio(10), b=ratio(10))
        after = sample(stack=ratio(9), a=ratio(40), b=ratio(60))
        self.assertEqual(["stack", "a"], self._order(who, before, after))

    def test_slicing_serves_the_largest_rise_in_points(self) -> None:
        """From 10 to 30 % goes before 1 to 5 %; a fall is no candidate; nor is who does no I/O."""
        who = roster(guest("a", io=True), guest("b", io=True), guest("c", io=True), guest("d"))
        before = sample(a=ratio(1), b=ratio(10), c=ratio(50), d=ratio(1))
        after = sample(a=ratio(5), b=ratio(30), c=ratio(40), d=ratio(90))
        self.assertEqual(["b", "a"], self._order(who, before, after))
        first, *_ = demand.core_candidates(who, before, after)
        self.assertAlmostEqual(20.0, first.rise)
        self.assertEqual([], self._order(who, before, before))

    def test_both_models_compete_and_the_stack_wins_ties(self) -> None:
        """The stack's rise counts like any other, and goes first when equal."""
        who = roster(stack(), guest("vf", io=True))
        before = sample(stack=ratio(10), vf=ratio(10))
        self.assertEqual(
            ["vf", "stack"], self._order(who, before, sample(stack=ratio(20), vf=ratio(30)))
        )
        self.assertEqual(
            ["stack", "vf"], self._order(who, before, sample(stack=ratio(20), vf=ratio(20)))
        )

    def test_own_demand_serves_pc_first_then_the_largest_rise(self) -> None:
        """Whoever asks first; a rise that is not known counts as none."""
        pc, more, be = guest("pc", PC), guest("more", PC), guest("be")
        who = roster(pc, guest("new", PC), more, be)
        before = sample(pc=ratio(10), more=ratio(10), be=ratio(10))
        after = sample(pc=ratio(20), more=ratio(30), be=ratio(90), new=ratio(50))
        found = demand.own_candidates(who, ("be", "new", "pc", "more"), before, after)
        self.assertEqual(["more", "pc", "new", "be"], [one.member.id for one in found])
        fell = sample(pc=ratio(9), more=ratio(10.5), new=ratio(50))
        found = demand.own_candidates(who, ("pc", "new", "more"), before, fell)
        self.assertEqual(["more", "new", "pc"], [one.member.id for one in found])

    def test_who_was_not_measured_is_no_candidate(self) -> None:
        """A tenant absent from either sample has no rise."""
        who = roster(guest("a", io=True), guest("b", io=True))
        self.assertEqual(
            ["b"], self._order(who, sample(b=ratio(1)), sample(a=ratio(9), b=ratio(2)))
        )


class TestGiver(unittest.TestCase):
    """Whose way goes when none is idle."""

    def test_fewest_misses_of_the_best_effort_give_down_to_their_minimum(self) -> None:
        """PC and the stack never give, nor who is at its minimum, nor who is spared."""
        who = roster(
            stack(), guest("pc", PC), guest("a", BE), guest("b", BE), guest("c", BE, least=2)
        )
        now = sample(
            stack=rates(1, 0), pc=rates(1, 0), a=rates(M, 300), b=rates(M, 200), c=rates(M, 1)
        )
        counts = {"stack": 4, "pc": 4, "a": 2, "b": 2, "c": 2}

        def gives(spared: tuple[str, ...] = ()) -> str | None:
            found = demand.giver(who, counts, now, spared)
            return None if found is None else found.id

        self.assertEqual("b", gives())
        self.assertEqual("a", gives(("b",)))
        counts["b"] = 1
        self.assertEqual("a", gives())
        counts["a"] = 1
        self.assertIsNone(gives())

    def test_who_was_not_measured_gives_last(self) -> None:
        """What it would lose is unknown: whoever is known to miss, however much, goes before it."""
        who = roster(guest("a", BE), guest("b", BE))
        found = demand.giver(who, {"a": 2, "b": 2}, sample(b=rates(40 * M, 30 * M)), ())
        self.assertEqual("b", found.id if found else None)


class TestFit(unittest.TestCase):
    """What everybody starts with."""

    def test_requests_are_taken_within_their_bounds(self) -> None:
        """An initial request outside its bounds, or the hardware's, is brought inside."""
        who = roster(guest("low", ways=1, least=3), guest("high", ways=9, most=4))
        self.assertEqual({"low": 3, "high": 4}, demand.fit(who, 11, {}))

    def test_best_effort_is_cut_first_a_way_at_a_time_from_the_largest(self) -> None:
        """Too many wishes cut BE tenants to their minimum, then PC; equals by what they held."""
        who = roster(guest("pc", PC, 6), guest("a", BE, 4), guest("b", BE, 4))
        self.assertEqual({"pc": 6, "a": 2, "b": 3}, demand.fit(who, 11, {}))
        self.assertEqual({"pc": 6, "a": 3, "b": 2}, demand.fit(who, 11, {"a": 4, "b": 1}))
        for held in ({"a": 0}, {"b": 0}):
            self.assertEqual({"pc": 6, "a": 3, "b": 4}, demand.fit(who, 13, held))
        self.assertEqual({"pc": 6, "a": 1, "b": 1}, demand.fit(who, 8, {}))
        self.assertEqual({"pc": 2, "a": 1, "b": 1}, demand.fit(who, 3, {}))

    def test_pc_is_cut_before_the_stack(self) -> None:
        """The stack gives only what leaves the others a partition."""
        who = roster(stack(8), guest("a", PC, 3), guest("b", PC, 3))
        self.assertEqual({"stack": 8, "a": 1, "b": 2}, demand.fit(who, 11, {}))
        who = roster(stack(11), guest("a", PC, 3), guest("b", PC, 3), guest("c", BE, 3))
        self.assertEqual({"stack": 9, "a": 1, "b": 1, "c": 1}, demand.fit(who, 11, {}))

    def test_where_best_effort_must_share_pc_is_cut_for_one_partition_only(self) -> None:
        """Sixteen BE tenants on one way leave four PC tenants ten."""
        critical = [guest(f"p{n}", PC, 3) for n in range(4)]
        who = roster(*critical, *(guest(f"b{n}", BE, 2) for n in range(16)))
        counts = demand.fit(who, 11, {})
        self.assertEqual([2, 2, 3, 3], [counts[f"p{n}"] for n in range(4)])
        self.assertEqual({1}, {counts[f"b{n}"] for n in range(16)})


class TestLapsed(unittest.TestCase):
    """Which grants have lost their demand."""

    def test_latest_first_beyond_the_fall(self) -> None:
        """A demand 10 % below the granted one ends the grant; an unknown one does not."""
        grants = [
            Grant("a", Cause.CORE_DEMAND, 5 * M, 0.0),
            Grant("a", Cause.CORE_DEMAND, 10 * M, 1.0),
            Grant("ddio", Cause.IO_DEMAND, 40 * M, 2.0),
            Grant("gone", Cause.CORE_DEMAND, 9 * M, 3.0),
        ]
        now = sample(a=rates(8.9 * M))
        self.assertEqual([grants[2], grants[1]], list(demand.lapsed(grants, now, 0.1)))
        for left in (9.0, 9.1):
            now = sample(a=rates(left * M))
            self.assertEqual([grants[2]], list(demand.lapsed(grants, now, 0.1)))

    def test_a_demand_is_the_same_within_a_tenth(self) -> None:
        """A back-off holds for the demand it was made for."""
        backoff = Backoff("a", 10 * M, 10.0, 99.0)
        said = [demand.same_demand(backoff, d, 0.1) for d in (9.1 * M, 10.9 * M, 8.9 * M, 12 * M)]
        self.assertEqual([True, True, False, False], said)
        self.assertTrue(demand.same_demand(backoff, None, 0.1))
        exact = Backoff("a", 100.0, 10.0, 99.0)
        self.assertTrue(demand.same_demand(exact, 110.0, 0.1))

    def test_the_demand_of_each(self) -> None:
        """Hits and misses of DDIO, references of a tenant; None where not measured."""
        now = Sample(0, 0.0, 1.0, {"a": rates(8 * M), "vf": rates(9 * M)}, 20 * M, 5 * M)
        for subject, expected in (("ddio", 25 * M), ("a", 8 * M), ("vf", 9 * M), ("gone", None)):
            self.assertEqual(expected, demand.demand_of(subject, now))
        for hits, misses in ((None, 5 * M), (20 * M, None)):
            self.assertIsNone(demand.demand_of("ddio", Sample(0, 0.0, 1.0, {}, hits, misses)))
