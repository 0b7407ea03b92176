# SPDX-License-Identifier: Apache-2.0
"""Figures that rates, samples, changes and layouts derive from their fields."""

import dataclasses
import math
import unittest

from iat_nova import policy
from iat_nova.model import (
    DDIO,
    Action,
    Allocation,
    Change,
    Decision,
    Group,
    Layout,
    Parameters,
    PortGroup,
    Quantity,
    Rates,
    Sample,
    Step,
    WayMask,
    message,
)
from tests.unit.policy.hosts import ONE


def sample(hits, misses, writes):
    """Return a sample with these DDIO rates."""
    return Sample(
        0, 1.0, 1.0, {}, ddio_hits_per_s=hits, ddio_misses_per_s=misses, ddio_writes_per_s=writes
    )


def layout(*groups, ddio=0x600, **more):
    """Return a layout of groups: tenants, mask, and a limit of bandwidth if any."""
    made = tuple(Group(tuple(tenants), WayMask(mask), *limit) for tenants, mask, *limit in groups)
    return Layout(WayMask(ddio), made, **more)


class TestRatios(unittest.TestCase):
    def test_of_rates(self):
        """Of CPUs at work, and 0 of CPUs that slept or referred to nothing."""
        busy = Rates(3e9, 2e9, 4e6, 1e6)
        self.assertEqual((1.5, 0.25), (busy.ipc, busy.miss_ratio))
        idle = Rates(0.0, 0.0, 0.0, 0.0)
        self.assertEqual((0.0, 0.0), (idle.ipc, idle.miss_ratio))

    def test_of_inbound_lines(self):
        """Hits and misses together; the writes where these are not told apart."""
        for rates, expected in (
            ((3.0, 4.0, None), 7.0),
            ((3.0, 4.0, 9.0), 7.0),
            ((None, None, 9.0), 9.0),
            ((3.0, None, 9.0), 9.0),
            ((None, 4.0, 9.0), 9.0),
            ((None, None, None), None),
            ((0.0, 0.0, 9.0), 0.0),
        ):
            with self.subTest(rates):
                self.assertEqual(expected, sample(*rates).inbound_lines_per_s)

    def test_of_changes(self):
        """Relative to the value before; from zero everything is infinitely more."""
        for before, after, expected in (
            (4.0, 5.0, 0.25),
            (4.0, 1.0, -0.75),
            (0.0, 1.0, math.inf),
            (0.0, 0.0, 0.0),
        ):
            with self.subTest((before, after)):
                self.assertEqual(expected, Change("t", Quantity.IPC, before, after).fraction)

    def test_actions(self):
        """Two actions leave the ways as they are."""
        self.assertEqual({Action.WATCH, Action.REFUSE}, {one for one in Action if not one.acts})

    def test_parameters_of_a_domain(self):
        """A domain has its own, if the policy gives any."""
        own = Parameters(interval_s=2.0)
        parameters = Parameters(domains={1: own})
        self.assertIs(own, parameters.of(1))
        self.assertIs(parameters, parameters.of(0))


class TestParameters(unittest.TestCase):
    def test_the_default_policys(self):
        """The default policy writes them all down."""
        self.assertEqual(Parameters(), policy.default(ONE).parameters)

    def test_the_papers(self):
        """Section VI-A of ISCA 2021: 3 %, a million misses, a second, six ways at most."""
        paper = Parameters()
        self.assertEqual(
            (0.03, 1e6, 1.0, 6),
            (
                paper.threshold_stable,
                paper.threshold_miss_low_per_s,
                paper.interval_s,
                paper.ddio_ways_max,
            ),
        )


class TestLayout(unittest.TestCase):
    def test_looking_up_tenants(self):
        """Masks and limits of tenants, and of an unknown tenant."""
        one = layout(("ab", 0x7), ("c", 0x78, 40))
        self.assertEqual([0x7, 0x7, 0x78, None], [one.mask_of(tenant) for tenant in "abcd"])
        self.assertEqual([100, 100, 40, 100], [one.bandwidth_of(tenant) for tenant in "abcd"])

    def test_overlaps(self):
        """Tenants of groups with a way in common with DDIO, in order."""
        one = layout(("ab", 0x300), ("c", 0x78), ("d", 0x400))
        self.assertEqual(("a", "b", "d"), one.overlaps_ddio)

    def test_moved(self):
        """Tenants with another mask, newcomers, and DDIO by ways or ports; not a limit alone."""
        before = layout(("a", 0x7), ("b", 0x78))
        self.assertEqual((), before.moved_since(before))
        self.assertEqual(("a", "b", DDIO), before.moved_since(None))
        self.assertEqual((), layout(("b", 0x78), ("a", 0x7, 50)).moved_since(before))
        self.assertEqual(("a",), layout(("a", 0x3), ("b", 0x78)).moved_since(before))
        self.assertEqual(("c",), layout(("a", 0x7), ("c", 0x78)).moved_since(before))
        for more in ({"ddio": 0x400}, {"dca_off": ("0000:00:01.0",)}):
            self.assertEqual((DDIO,), layout(("a", 0x7), ("b", 0x78), **more).moved_since(before))

    def test_limits(self):
        """Tenants whose limit differs, with both limits; nothing where nobody has one."""
        free, held = layout(("a", 0x7), ("b", 0x78)), layout(("a", 0x7, 40), ("b", 0x78))
        self.assertEqual({}, free.limits_since(None))
        self.assertEqual({}, free.limits_since(layout(("a", 0x3), ("b", 0x78))))
        self.assertEqual({}, held.limits_since(held))
        self.assertEqual({}, layout(("a", 0x3, 40), ("b", 0x78)).limits_since(held))
        self.assertEqual({"a": (100, 40)}, held.limits_since(None))
        self.assertEqual({"a": (100, 40)}, held.limits_since(free))
        self.assertEqual({"a": (40, 100)}, free.limits_since(held))

    def test_counted(self):
        """The host's own partition again, in the order of masks; all else stays."""
        plain = layout(("a", 0x3), (("host",), 0xC), ("b", 0x70))
        self.assertIs(plain, plain.counted)
        lent = layout(
            ("a", 0x3),
            ("b", 0x70),
            (("host",), 0x7C),
            lent=Group(("host",), WayMask(0xC)),
            exact=False,
        )
        self.assertEqual(dataclasses.replace(plain, exact=False), lent.counted)

    def test_usual(self):
        """Unless told otherwise a layout is exact, every tenant alone, and nobody is limited."""
        one = layout(("a", 0x3))
        self.assertEqual((True, False, None), (one.exact, one.grouped, one.lent))
        self.assertEqual(((), ()), (one.dca_off, one.ports))
        self.assertEqual(100, one.groups[0].bandwidth)


class TestPorts(unittest.TestCase):
    """Ports p and q with ways of their own, beside DDIO's 0x600."""

    def ports(self, **masks):
        """A layout of one tenant, and these ports."""
        groups = tuple(PortGroup((port,), WayMask(mask)) for port, mask in masks.items())
        return layout(("a", 0x300), ports=groups)

    def test_masks(self):
        """By port; devices write into the ways of all ports and of DDIO."""
        one = self.ports(p=0x80, q=0x180)
        self.assertEqual({"p": 0x80, "q": 0x180}, one.port_masks)
        self.assertEqual((0x80, 0x300, None), tuple(map(one.mask_of, ("p", "a", "r"))))
        self.assertEqual((0x780, 0x600), (one.inbound, self.ports().inbound))
        self.assertIsInstance(one.inbound, WayMask)

    def test_overlaps(self):
        """Ways of ports apart count as those of DDIO."""
        one = layout(("a", 0x3), ("b", 0xC), ports=(PortGroup(("p",), WayMask(0x4)),))
        self.assertEqual(("b",), one.overlaps_ddio)
        both = layout(("a", 0x400), ("b", 0xC), ports=(PortGroup(("p",), WayMask(0x10)),))
        self.assertEqual(("a",), both.overlaps_ddio)

    def test_moved(self):
        """Ports whose devices write elsewhere: with other ways, into DDIO's or out of them."""
        plain, one = self.ports(), self.ports(p=0x80)
        for after, before, moved in (
            (plain, plain, ()),
            (plain, None, ()),
            (one, one, ()),
            (one, plain, ("p",)),
            (plain, one, ("p",)),
            (one, None, ("p",)),
            (self.ports(p=0x100), one, ("p",)),
            (self.ports(p=0x80, q=0x100), one, ("q",)),
            (self.ports(q=0x80), one, ("q", "p")),
            (self.ports(p=0x600), plain, ()),
            (self.ports(p=0x600), None, ()),
        ):
            with self.subTest(after=after.port_masks, before=before and before.port_masks):
                self.assertEqual(moved, after.ports_moved_since(before))
                gone = after.moved_since(before)
                self.assertEqual(moved, tuple(one for one in gone if one in ("p", "q")))

    def test_moved_with_ddio(self):
        """A port among DDIO's moves with them, one with the same ways of its own does not."""
        before = layout(ddio=0x600, ports=(PortGroup(("p",), WayMask(0x600)),))
        after = layout(ddio=0x400, ports=(PortGroup(("p",), WayMask(0x600)),))
        self.assertEqual((), after.ports_moved_since(before))
        self.assertEqual(("p",), layout(ddio=0x400).ports_moved_since(before))


class TestReasons(unittest.TestCase):
    def test_against_an_action(self):
        """Why the phase is what it is, and the reasons of the steps that do not act."""
        why, grow, refuse = message("why"), message("grow"), message("refuse")
        steps = (Step(Action.GROW, "a", grow), Step(Action.REFUSE, "a", refuse))
        one = Decision(
            0, 1, 1.0, False, "a", "a", None, (), steps, Allocation(2, {}), layout(), (), (why,)
        )
        self.assertEqual((why, refuse), one.reasons)
