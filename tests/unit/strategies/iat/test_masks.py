# SPDX-License-Identifier: Apache-2.0
"""Masks of way counts, and ways promised to no one, which are lent to the host's class."""

import dataclasses
import unittest

from iat_nova.model import (
    DomainInventory,
    Group,
    Layout,
    Parameters,
    Priority,
    Sample,
    WayMask,
    WayRequest,
)
from iat_nova.strategies.iat.change import Moves
from iat_nova.strategies.iat.controller import Controller
from iat_nova.strategies.iat.ledger import Ledger
from iat_nova.strategies.iat.masks import lend, place, plan
from iat_nova.strategies.iat.presets import PRESETS
from iat_nova.strategies.iat.realloc import RoundView
from iat_nova.strategies.iat.roster import Roster
from tests.unit.build import domain
from tests.unit.strategies.iat.worlds import M, guest, host, rates, stack

DDIO = WayMask(0x600)


def layout(*groups):
    return Layout(DDIO, tuple(Group((name,), WayMask(mask)) for name, mask in groups))


class LendTest(unittest.TestCase):
    def test_the_longest_run(self):
        """The host's mask is the longest run of ways that are nobody's, and never DDIO's."""
        for groups, expected in (
            ([("host", 0x1)], 0x1FF),
            ([("stack", 0x3), ("host", 0x4)], 0x1FC),
            ([("stack", 0x3), ("host", 0x4), ("be", 0x18)], 0x1E0),
            ([("stack", 0x3), ("be", 0xF8), ("host", 0x100)], 0x100),  # one for one is no gain
            ([("host", 0x2), ("be", 0x1F8)], 0x7),
            ([("a", 0x4), ("host", 0x8), ("b", 0x40)], 0x38),
            ([("a", 0x4), ("b", 0x20), ("host", 0x40)], 0x1C0),
            # Of runs of the same length the one with the host's own ways, else the lowest.
            ([("a", 0x30), ("host", 0x40)], 0xF),
            ([("a", 0x38), ("host", 0x40)], 0x1C0),
            ([("host", 0x1), ("a", 0x38)], 0x7),
        ):
            before = layout(*groups)
            found = lend(domain(), "host", before)
            self.assertEqual(WayMask(expected), found.mask_of("host"))
            self.assertEqual(before, found.counted)
            self.assertEqual(found.lent is not None, before != found)
            self.assertEqual(found.lent is not None, before.mask_of("host") != expected)
            self.assertEqual([g.mask for g in found.groups], sorted(g.mask for g in found.groups))

    def test_the_hardware(self):
        """Reserved ways are not lent; ways that come together are, or not, as one."""
        before = layout(("host", 0x4), ("be", 0x100))
        self.assertEqual(
            0xFC, lend(domain(reserved_ways=WayMask(0x3)), "host", before).mask_of("host")
        )
        coerced = domain(coerced_ways=WayMask(0x180))
        self.assertEqual(0x7F, lend(coerced, "host", before).mask_of("host"))
        self.assertEqual(0x1FF, lend(coerced, "host", layout(("host", 0x4))).mask_of("host"))

    def test_ends_of_the_cache(self):
        """Lent ways end with the cache's; DDIO may lie below them, or in reserved ways."""
        below = Layout(WayMask(0x3), (Group(("host",), WayMask(0x400)),))
        self.assertEqual(0x7FC, lend(domain(), "host", below).mask_of("host"))
        reserved = domain(reserved_ways=WayMask(0x400))
        found = lend(reserved, "host", layout(("host", 0x1)))
        self.assertEqual(0x1FF, found.mask_of("host"))

    def test_nobody_else(self):
        """Guests are lent nothing, nor is a host's class that shares their mask."""
        for before in (
            layout(("stack", 0x3), ("be", 0x4)),
            Layout(DDIO, (Group(("be", "host"), WayMask(0x3)),), grouped=True),
        ):
            self.assertIs(before, lend(domain(), "host", before))
            self.assertIs(before, lend(domain(), None, before))


class PlanTest(unittest.TestCase):
    """Two guests that leave DDIO no way of its own, or few tenants beside it."""

    def setUp(self):
        self.parameters, self.features = Parameters(), PRESETS["iat"]

    def start(self, *tenants, classes=16):
        """Begin with these tenants, laid out without a measurement."""
        self.inventory = DomainInventory(domain(classes=classes), tenants)
        self.roster = Roster.of(self.inventory)
        self.state = Controller(self.parameters, self.features).initial(self.inventory, 0.0)
        placed = self.plan({})
        self.state = dataclasses.replace(self.state, layout=placed, ranking={})
        return placed

    def plan(self, ranking, current=None):
        return plan(self.roster, self.features, self.state, ranking, current)

    def place(self, ranking, change=None):
        """Place again, after a change of the ledger."""
        sample = Sample(0, 1.0, 1.0, ranking, 20 * M, 1 * M)
        ledger = Ledger(self.roster, self.parameters, self.features, self.state, sample)
        ledger.counts.update(change or {})
        view = RoundView(
            self.roster, self.parameters, self.features, sample, sample, self.state.layout,
            Moves(()), None,
        )  # fmt: skip
        return place(self.state, view, ledger, ranking)

    def test_who_shares_with_ddio(self):
        """The guest with fewer references; one without a measurement ranks as idle."""
        self.start(guest("a", ways=5), guest("b", ways=6))
        for ranking, shares in (
            ({"a": rates(9 * M)}, "b"),
            ({"b": rates(9 * M)}, "a"),
            ({"a": rates(9 * M), "b": rates(8 * M)}, "b"),
            ({"a": rates(8 * M), "b": rates(9 * M)}, "a"),
        ):
            with self.subTest(shares):
                self.assertEqual((shares,), self.plan(ranking).overlaps_ddio)

    def test_counts(self):
        """Each tenant has its count of ways; idle ways are lent to the host's class."""
        found = self.start(stack(2), guest("a", ways=3), host(1))
        self.assertEqual(
            {"stack": 2, "a": 3}, {one: found.mask_of(one).count for one in ("stack", "a")}
        )
        self.assertLess(1, found.mask_of("host").count)
        self.assertEqual(1, found.counted.mask_of("host").count)
        again = self.plan({}, found)
        self.assertEqual(found, again)

    def test_held(self):
        """A held tenant shares its ways with nobody."""
        some = tuple(guest(f"g{number}") for number in range(9))
        held = dataclasses.replace(guest("a"), ways=WayRequest(4, 4, 4, held=True))
        found = self.start(*some, held)
        self.assertEqual(4, found.mask_of("a").count)
        self.assertIn(("a",), [group.tenants for group in found.groups])

    def test_who_shares_a_mask(self):
        """Where masks are scarce, a guest that misses much has one of its own."""
        self.start(*(guest(name, Priority.PC) for name in ("a", "b", "c", "d")), classes=4)
        for pressing in ("a", "b", "c", "d"):
            self.state = dataclasses.replace(self.state, pressing_per_s={pressing: 9 * M})
            self.assertIn((pressing,), [group.tenants for group in self.plan({}).groups])

    def test_at_rest(self):
        """Without a change of counts or of the ranking the layout stays."""
        placed = self.start(guest("a", ways=5), guest("b", ways=6))
        self.assertIs(placed, self.place(self.state.ranking))

    def test_another_count(self):
        """A count that changed makes a new layout."""
        placed = self.start(guest("a", ways=3), guest("b", ways=2))
        found = self.place(self.state.ranking, {"a": 4})
        self.assertEqual((4, 2), (found.mask_of("a").count, found.mask_of("b").count))
        self.assertEqual(3, placed.mask_of("a").count)

    def test_another_ranking(self):
        """It makes a new layout where tenants share with DDIO, and only if they may change."""
        placed = self.start(guest("a", ways=5), guest("b", ways=6))
        (shares,) = placed.overlaps_ddio
        ranking = {shares: rates(9 * M)}
        self.assertNotEqual((shares,), self.place(ranking).overlaps_ddio)
        self.features = dataclasses.replace(self.features, shuffle=False)
        self.assertIs(placed, self.place(ranking))

    def test_another_ranking_without_sharing(self):
        """Where nobody shares the ranking moves nothing."""
        placed = self.start(guest("a", ways=3), guest("b", ways=2))
        self.assertIs(placed, self.place({"a": rates(9 * M)}))
