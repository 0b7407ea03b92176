# SPDX-License-Identifier: Apache-2.0
"""Counts after tenants came, left or changed: which grants are repeated, and what is said."""

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
    Sample,
    WayMask,
    WayRequest,
    message,
)
from iat_nova.strategies.iat import ledger, rebuild
from iat_nova.strategies.iat.presets import PRESETS, Features
from iat_nova.strategies.iat.roster import Roster
from iat_nova.strategies.iat.state import (
    Backoff,
    Cause,
    FsmState,
    Grant,
    GrantTrial,
    IatState,
    RosterMember,
)
from tests.unit.build import domain
from tests.unit.strategies.iat.worlds import M, guest, rates

PC, BE = Priority.PC, Priority.BE
P = Parameters()
IAT = PRESETS["iat"]
SAMPLE = Sample(0, 9.0, 1.0, {"a": rates(), "b": rates(9 * M, 2 * M)}, 20 * M, 1 * M)


def granted(subject, at_s=1.0, **more):
    return Grant(subject, Cause.OWN_DEMAND, 5 * M, at_s, **more)


def roster(*tenants, **facts):
    return Roster.of(DomainInventory(domain(**facts), tenants))


def state(counts, *tenants, ddio=2, cache=None, reference=SAMPLE, **more):
    """What was before, with these tenants."""
    here = Roster.of(DomainInventory(cache or domain(), tenants))
    return IatState(
        here.domain, 3, FsmState.LOW_KEEP, Allocation(ddio, counts), members=here.members,
        reference=reference, **more,
    )  # fmt: skip


class DdioTest(unittest.TestCase):
    def test_found(self) -> None:
        """As found, none if devices may fill all ways; else the fewest that the policy allows."""
        for ddio, ways in ((2, 2), (4, 4), (0, 0), (None, 2)):
            self.assertEqual(ways, rebuild.found_ddio_ways(roster(ddio=ddio), P))

    def test_above_maximum(self) -> None:
        """Granted ways above the maximum, where DDIO's ways may be set."""
        grants = (granted(DDIO), granted(DDIO), granted("a"), granted("z"))
        for ddio, features, resizable, above in (
            (6, IAT, True, 0),
            (7, IAT, True, 1),
            (8, IAT, True, 2),
            (9, IAT, True, 2),
            (7, PRESETS["core-only"], True, 0),
            (7, IAT, False, 0),
        ):
            with self.subTest(ddio=ddio, features=features, resizable=resizable):
                cache = domain(ddio_resizable=resizable)
                before = state({}, ddio=ddio, cache=cache, grants=grants)
                self.assertEqual(above, rebuild.above_maximum(before, cache, P, features))

    def test_adopted(self) -> None:
        """Its ways stay, but for a lowered maximum, another program's ways, or a dead register."""
        a = guest("a")
        grants = (granted(DDIO, 1.0), granted(DDIO, 2.0), granted(DDIO, 3.0))
        for facts, most, ddio, left, said in (
            ({}, 6, 5, 3, None),
            ({}, 4, 4, 2, ("maximum-is-now", 4)),
            ({}, 1, 2, 0, ("maximum-is-now", 1)),
            ({"ddio": 3}, 6, 3, 0, None),
            ({"ddio": 5}, 6, 5, 3, None),
            ({"ddio_resizable": False}, 6, 2, 0, None),
        ):
            with self.subTest(facts=facts, most=most):
                before = state({"a": 2}, a, ddio=5, grants=grants)
                numbers = dataclasses.replace(P, ddio_ways_max=most)
                after, steps = rebuild.adopt(before, roster(a, **facts), numbers, IAT, SAMPLE)
                self.assertEqual((ddio, left), (after.allocation.ddio_ways, len(after.grants)))
                found = [
                    (one.reason.code, one.reason.values["ways"], one.ways_before, one.ways_after)
                    for one in steps
                    if one.action is Action.SHRINK
                ]
                self.assertEqual([(*said, 5, ddio)] if said else [], found)
        first, _ = rebuild.adopt(
            state({"a": 2}, a, ddio=5, grants=grants, reference=None), roster(a), P, IAT, SAMPLE
        )
        self.assertEqual((2, ()), (first.allocation.ddio_ways, first.grants))


class GrantsTest(unittest.TestCase):
    def adopted(self, counts, before, after, *grants, features=IAT, **more):
        found, self.steps = rebuild.adopt(
            state(counts, *before, grants=grants, **more), roster(*after), P, features, SAMPLE
        )
        return dict(found.allocation.tenants), found

    def test_repeated(self) -> None:
        """The oldest first as far as there are ways; those of who left or changed are gone."""
        a, b, new = guest("a", PC, 4), guest("b", PC, 4), guest("n", PC, 2)
        grants = granted("a", 3.0), granted("b", 2.0), granted("a", 1.0)
        for after, counts, left in (
            ((a, b), {"a": 6, "b": 5}, ["a", "b", "a"]),
            ((a, b, new), {"a": 5, "b": 4, "n": 2}, ["a"]),
            ((a,), {"a": 6}, ["a", "a"]),
            ((a, guest("b", PC, 3)), {"a": 6, "b": 3}, ["a", "a"]),
            ((guest("a", PC, 4, most=5), b), {"a": 4, "b": 5}, ["b"]),
        ):
            with self.subTest(after=after):
                found, adopted = self.adopted({"a": 6, "b": 5}, (a, b), after, *grants)
                self.assertEqual((counts, left), (found, [one.subject for one in adopted.grants]))
        most = guest("a", PC, 4, most=5)
        found, _ = self.adopted({"a": 5, "b": 5}, (most, b), (most, b), *grants)
        self.assertEqual({"a": 5, "b": 5}, found)

    def test_from_their_giver(self) -> None:
        """Without idle ways from the same best-effort giver, above its minimum, with its grant."""
        a, given = guest("a", PC, 6), granted("b", 0.5)
        for giver, changed, counts, away in (
            (guest("b", BE, 5), False, {"a": 7, "b": 4}, True),
            (guest("b", BE, 5), True, {"a": 6, "b": 5}, None),
            (guest("b", PC, 5), False, {"a": 6, "b": 5}, None),
            (guest("b", BE, 5, least=5), False, {"a": 6, "b": 5}, None),
            (guest("b", BE, 5, least=4), False, {"a": 7, "b": 4}, True),
            (guest("b", BE, 4), False, {"a": 7, "b": 4}, False),
        ):
            with self.subTest(giver=giver, changed=changed):
                grant = granted("a", 1.0, giver="b", giver_miss_ratio=0.2)
                now = dataclasses.replace(giver, cpus=(7,)) if changed else giver
                found, adopted = self.adopted({"a": 7, "b": 4}, (a, giver), (a, now), grant)
                self.assertEqual(counts, found)
                kept = [one.giver for one in adopted.grants]
                self.assertEqual([] if away is None else ["b" if away else None], kept)
        b = guest("b", BE, 4)
        moved = granted("a", 1.0, giver="b", given=given)
        found, adopted = self.adopted({"a": 7, "b": 4}, (a, b), (a, b), moved)
        self.assertEqual(({"a": 7, "b": 4}, (moved,)), (found, adopted.grants))
        found, adopted = self.adopted(
            {"a": 7, "b": 4}, (a, b), (a, b), given, granted("a", 1.0, giver="b")
        )
        self.assertEqual({"a": 7, "b": 4}, found)
        self.assertEqual([given], [one.given for one in adopted.grants])

    def test_memory_of_the_unchanged(self) -> None:
        """Back-offs, trials and references of tenants that stayed, and DDIO's."""
        a, b = guest("a", PC, 2), guest("b", PC, 2)
        backoffs = tuple(Backoff(one, 1.0, 10.0, 99.0) for one in ("a", "b", DDIO))
        trials = tuple(
            GrantTrial(one, cause, 1, None, None)
            for one, cause in (("a", Cause.OWN_DEMAND), ("b", Cause.CORE_DEMAND))
        )
        before = Sample(0, 5.0, 1.0, {"a": rates(7 * M), "b": rates(7 * M)}, 30 * M, 3 * M)
        _, found = self.adopted(
            {"a": 3, "b": 3}, (a, b), (a,), granted("a"), granted("b"),
            backoffs=backoffs, trials=trials, reference=before,
        )  # fmt: skip
        self.assertEqual(["a", DDIO], [one.subject for one in found.backoffs])
        self.assertEqual(["a"], [one.subject for one in found.trials])
        assert found.reference is not None
        self.assertEqual(
            {"a": rates(7 * M), "b": SAMPLE.tenants["b"]}, dict(found.reference.tenants)
        )
        self.assertEqual(20 * M, found.reference.ddio_hits_per_s)
        self.assertEqual({"a": 1 * M, "b": 2 * M}, dict(found.pressing_per_s))
        self.assertEqual((RosterMember.of(a),), found.members)

    def test_closed_to_cores(self) -> None:
        """DDIO's ways are nobody's then."""
        a = guest("a", PC, 11)
        for avoid, ways in ((False, 11), (True, 9)):
            features = Features(avoid_ddio=avoid)
            self.assertEqual(ways, ledger.usable_ways(roster(a), features, 2))
            reserved = roster(a, reserved_ways=WayMask(0x7))
            self.assertEqual(ways - 3, ledger.usable_ways(reserved, features, 2))
            found, _ = self.adopted({"a": 9}, (a,), (a,), features=features)
            self.assertEqual({"a": ways}, found)
            start = rebuild.start_allocation(roster(a), P, features)
            self.assertEqual(Allocation(2, {"a": ways}), start)


class StepsTest(unittest.TestCase):
    def steps(self, before, after, counts=None, reference=SAMPLE, **facts):
        counts = counts or {one.id: 2 for one in before}
        _, steps = rebuild.adopt(
            state(counts, *before, reference=reference), roster(*after, **facts), P, IAT, SAMPLE
        )
        return [
            (one.action, one.subject, one.reason.code, one.ways_before, one.ways_after)
            for one in steps
        ]

    def test_who_came_left_or_changed(self) -> None:
        """A step for each; the domain is named if nothing else changed."""
        a, b = guest("a", PC, 2), guest("b", PC, 2)
        adopt = Action.ADOPT
        for after, facts, expected in (
            ((a, b), {}, []),
            ((a, b), {"classes": 9}, [(adopt, "layout", "domain-changed", None, None)]),
            ((a,), {}, [(adopt, "b", "left", 2, None)]),
            ((a,), {"classes": 9}, [(adopt, "b", "left", 2, None)]),
            ((a, b, guest("n", PC, 3)), {}, [(adopt, "n", "arrived", None, 3)]),
            ((a, guest("b", PC, 3)), {}, [(adopt, "b", "fields-changed", 2, 3)]),
        ):
            with self.subTest(after=after, facts=facts):
                self.assertEqual(expected, self.steps((a, b), after, **facts))
        first = self.steps((), (a, b), reference=None)
        self.assertEqual([(adopt, "layout", "first-layout", None, None)], first)

    def test_cuts(self) -> None:
        """Initial ways that are cut are said once."""
        a, b = guest("a", PC, 6), guest("b", PC, 6)
        cut = (Action.GIVE, "a", "cut", 6, 5)
        self.assertEqual([cut], self.steps((a, b), (a, b), {"a": 6, "b": 6}))
        self.assertEqual([], self.steps((a, b), (a, b), {"a": 5, "b": 6}))
        first = self.steps((a, b), (a, b), {"a": 5, "b": 6}, None)
        self.assertEqual(cut, first[-1])

    def test_holds(self) -> None:
        """Their begin, their number, and their end."""
        ways = WayRequest(2, 2, 11)
        three, four = (WayRequest(n, n, n, held=True) for n in (3, 4))
        member = RosterMember.of(guest("a", PC))
        for before, after, expected in (
            (ways, three, message("held", ways=3)),
            (three, four, message("held", ways=4)),
            (four, three, message("held", ways=3)),
            (three, ways, message("held-no-more")),
            (ways, WayRequest(3, 3, 11), message("fields-changed", fields=("ways",))),
            (ways, ways, None),
        ):
            with self.subTest(before=before, after=after):
                was, now = (dataclasses.replace(member, ways=one) for one in (before, after))
                self.assertEqual(expected, rebuild._difference(was, now))
        was = dataclasses.replace(member, ways=three)
        moved = dataclasses.replace(was, cpus=(7,))
        self.assertEqual(
            message("fields-changed", fields=("cpus",)), rebuild._difference(was, moved)
        )
        self.assertEqual(message("arrived"), rebuild._difference(None, member))
