# SPDX-License-Identifier: Apache-2.0
"""What a person holds becomes a tenant's bounds where all others keep their least."""

import dataclasses
import unittest

from iat_nova.model import Group, Hold, Layout, Pause, WayMask, WayRequest, message
from iat_nova.policy import holds
from iat_nova.report.sentences import text
from tests.unit import stories

UUID = stories.PC.partition("/")[0]


def bounds(domains, key=UUID):
    """The way bounds of a tenant."""
    ((_, tenant),) = holds.of_tenant(domains, key)
    return tenant.ways


class TestApply(unittest.TestCase):
    def setUp(self):
        self.domains = {0: stories.inventory()}  # 11 ways; least: stack 1, PC 2, BE 1

    def refusal(self, hold, domains=None):
        held, refused = holds.apply(domains or self.domains, (hold,))
        self.assertEqual(domains or self.domains, held)
        return text(refused[hold])

    def test_least_and_most_are_what_is_held(self):
        """All else of the tenant stays, and so do the others."""
        held, refused = holds.apply(self.domains, (Hold(UUID, "pc1", 9, 1.0),))
        self.assertEqual({}, refused)
        self.assertEqual(WayRequest(9, 9, 9, held=True), bounds(held))
        self.assertEqual(9, bounds(held).kept)
        self.assertEqual(WayRequest(1, 2, 8), bounds(held, "stack"))

    def test_what_does_not_fit(self):
        """The text counts what the other tenants keep."""
        text = self.refusal(Hold(UUID, "pc1", 10, 1.0))
        self.assertEqual(
            "cache domain 0 has 11 ways for tenants; the other tenants keep vswitch 1, be1 1: "
            "9 ways can be held",
            text,
        )

    def test_holds_count_for_one_another(self):
        """The earlier one is kept, whichever is named first."""
        first = Hold(UUID, "pc1", 6, 1.0)
        second = Hold("stack", "vswitch", 5, 2.0)
        held, refused = holds.apply(self.domains, (second, first))
        self.assertEqual(({second}, 6), (set(refused), bounds(held).min))
        self.assertIn("pc1 6", text(refused[second]))

    def test_after_a_refusal(self):
        """A hold that is refused does not keep later ones from being applied."""
        first = Hold(UUID, "pc1", 10, 1.0)
        held, refused = holds.apply(self.domains, (first, Hold("stack", "vswitch", 5, 2.0)))
        self.assertEqual(({first}, 5), (set(refused), bounds(held, "stack").min))

    def test_up_to_the_last_way(self):
        """Minimums that just fit are kept apart: tenants share only where they do not fit."""
        inventory = self.domains[0]
        stack, critical, best = inventory.tenants
        eight = dataclasses.replace(critical, ways=WayRequest(8, 8, 8))
        two = dataclasses.replace(best, ways=WayRequest(2, 2, 8))
        full = {0: dataclasses.replace(inventory, tenants=(stack, eight, two))}
        self.assertIn("8 ways can be held", self.refusal(Hold(UUID, "pc1", 9, 1.0), full))
        self.assertIn(
            "keep pc1 8, be1 2: 1 way can be held", self.refusal(Hold("stack", "s", 2, 1.0), full)
        )
        alone = {0: dataclasses.replace(inventory, tenants=(eight,))}
        self.assertIn("11 ways can be held", self.refusal(Hold(UUID, "pc1", 12, 1.0), alone))

    def test_promises_come_first(self):
        """Fewer ways than a flavor promises are not held."""
        inventory = self.domains[0]
        tenants = tuple(
            dataclasses.replace(one, ways=WayRequest(4, 4, 8, 4)) if one.uuid == UUID else one
            for one in inventory.tenants
        )
        domains = {0: dataclasses.replace(inventory, tenants=tenants)}
        text = self.refusal(Hold(UUID, "pc1", 3, 1.0), domains)
        self.assertEqual("its flavor guarantees it 4 (iat:llc_ways)", text)
        for ways in (4, 5):
            held, refused = holds.apply(domains, (Hold(UUID, "pc1", ways, 1.0),))
            self.assertEqual({}, refused)
            self.assertEqual((4, ways), (bounds(held).promised, bounds(held).min))

    def test_masks_may_have_a_least(self):
        """Some CPUs want two ways a mask: of everybody."""
        domain = dataclasses.replace(self.domains[0].domain, min_ways=2)
        domains = {0: dataclasses.replace(self.domains[0], domain=domain)}
        self.assertIn("masks of 2 ways", self.refusal(Hold(UUID, "pc1", 1, 1.0), domains))
        self.assertIn("7 ways can be held", self.refusal(Hold(UUID, "pc1", 8, 1.0), domains))

    def test_where_tenants_share_anyway(self):
        """Promises and holds of others stay, and what the rest shares; the least of each cannot."""
        inventory = self.domains[0]
        stack, critical, best = inventory.tenants
        many = tuple(dataclasses.replace(best, id=f"b{n}", name=f"b{n}") for n in range(9))
        promised = dataclasses.replace(critical, id="p", name="p", ways=WayRequest(3, 3, 8, 3))
        crowd = {0: dataclasses.replace(inventory, tenants=(stack, critical, promised, *many))}
        self.assertEqual(
            "cache domain 0 has 11 ways for tenants; the other tenants keep p 3, 1 to share: "
            "7 ways can be held",
            self.refusal(Hold(UUID, "pc1", 8, 1.0), crowd),
        )
        first = Hold(UUID, "pc1", 7, 1.0)
        held, refused = holds.apply(crowd, (first, Hold("stack", "vswitch", 1, 2.0)))
        self.assertEqual(7, bounds(held).min)
        (why,) = refused.values()
        self.assertIn("pc1 7, p 3, 1 to share: no way can be held before", text(why))

    def test_both_domains_or_none(self):
        """A guest on two sockets has the ways in each, or in none."""
        small = dataclasses.replace(self.domains[0].domain, id=1, ways=6)
        domains = {**self.domains, 1: dataclasses.replace(self.domains[0], domain=small)}
        self.assertIn("domain 1", self.refusal(Hold(UUID, "pc1", 5, 1.0), domains))
        held, _ = holds.apply(domains, (Hold(UUID, "pc1", 4, 1.0),))
        self.assertEqual([4, 4], [one.ways.min for _, one in holds.of_tenant(held, UUID)])

    def test_who_is_not_here(self):
        """Its hold waits: it is neither applied nor wrong."""
        self.assertEqual((self.domains, {}), holds.apply(self.domains, (Hold("u9", "x", 99, 1.0),)))

    def test_kept(self):
        """It has so many ways, and has them alone."""
        held, _ = holds.apply(self.domains, (Hold(UUID, "pc1", 3, 1.0),))
        ((_, tenant),) = holds.of_tenant(held, UUID)
        layout = stories.layout(2)
        self.assertIsNone(holds.kept(tenant, layout))
        others = tuple(one for one in layout.groups if stories.PC not in one.tenants)
        for mask, words in ((0x1E, "gives it 4"), (0x0E, "lets other tenants fill")):
            groups = (*others, Group((stories.PC,), WayMask(mask)))
            self.assertIn(words, text(holds.kept(tenant, Layout(layout.ddio, groups))))
        gone = Layout(layout.ddio, others)
        self.assertEqual(message("hold-given", ways=0), holds.kept(tenant, gone))


class TestTerms(unittest.TestCase):
    def test_begun_and_paused(self):
        """End, operator and reason of a request, each where it was given."""
        until, by = message("hold-until", until_s=9.0), {"by": "eve"}
        for terms, ends in (
            ({}, lambda open_end: open_end),
            ({"until_s": 9.0}, lambda _: until),
            (by, lambda open_end: message("hold-by", terms=open_end, by="eve")),
            ({"reason": "a test"}, lambda one: message("hold-because", terms=one, reason="a test")),
            (
                {"until_s": 9.0, **by, "reason": "a test"},
                lambda _: message(
                    "hold-because", terms=message("hold-by", terms=until, by="eve"), reason="a test"
                ),
            ),
        ):
            with self.subTest(terms):
                begun = holds.begun(Hold(UUID, "pc1", 3, 1.0, **terms))
                self.assertEqual(
                    {"name": "pc1", "ways": 3, "terms": ends(message("hold-until-release"))},
                    begun.values,
                )
                paused = holds.paused(Pause(1.0, **terms))
                self.assertEqual({"terms": ends(message("pause-until-resume"))}, paused.values)
