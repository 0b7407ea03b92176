# SPDX-License-Identifier: Apache-2.0
"""The gain of a trial, what is at stake, and when a load is another, by figures done by hand."""

import math
import unittest

from iat_nova.model import DDIO, DomainInventory, Priority, Rates, Sample, TenantKind
from iat_nova.strategies.pollute_buffer import judge
from iat_nova.strategies.readings import Look
from tests.unit.build import domain, tenant

PC, BE = Priority.PC, Priority.BE


def look(speed=1.0, stalled=0.0, references=1e7, cycles=1e9):
    """A reading whose instructions per cycle are unknown: speeds compare as they are."""
    return Look(speed, stalled, 1e6, references, cycles_per_s=cycles)


class NowTest(unittest.TestCase):
    def test_lines_of_devices(self):
        """They are read as DDIO's references, where they are counted."""
        one = tenant("a", 1)
        for hits, misses, lines in ((3e6, 2e6, 5e6), (0.0, 0.0, 0.0), (None, None, None)):
            with self.subTest(lines=lines):
                rates = {"a": Rates(1e9, 1e9, 1e7, 1e6)}
                sample = Sample(0, 7.0, 1.0, rates, hits, misses)
                now = judge.Now.seen(DomainInventory(domain(), (one,)), sample)
                self.assertEqual(7.0, now.at_s)
                self.assertEqual({"a"}, set(now.looks) - {DDIO})
                expected = None if lines is None else Look(0.0, 0.0, 0.0, lines)
                self.assertEqual(expected, now.looks.get(DDIO))


class GainTest(unittest.TestCase):
    """Weighted means of gains; a critical guest weighs 16, one of best effort 1."""

    def gain(self, tenants, before, after):
        found = judge.gain(tenants, before, after, {})
        self.assertEqual(found.speeds, found.with_floors)
        return found.speeds, found.most and (found.most[0], round(found.most[1], 9))

    def test_weights(self):
        """Of priorities, and of the policy's class."""
        for priority, weight, expected in (
            (PC, 1.0, 16.0),
            (Priority.STACK, 1.0, 16.0),
            (BE, 1.0, 1.0),
            (BE, 2.5, 2.5),
            (PC, 0.5, 8.0),
        ):
            self.assertEqual(
                expected, judge.weight_of(tenant("a", priority=priority, weight=weight))
            )

    def test_mean(self):
        """The mean is geometric; the tenant is the one with the largest part, up or down."""
        a, b, least = tenant("a", priority=PC), tenant("b", priority=PC), tenant("c")
        still = look()
        for after, gain, most in (
            ({"a": look(1.21), "b": still}, 0.1, ("a", 0.21)),
            ({"a": still, "b": look(1.21)}, 0.1, ("b", 0.21)),
            ({"a": look(0.5), "b": look(1.9)}, math.sqrt(0.95) - 1, ("a", -0.5)),
            ({"a": still, "b": still}, 0.0, ("a", 0.0)),
            ({"a": look(1.1)}, 0.1, ("a", 0.1)),
            ({"a": still, "c": look(2.0)}, 2 ** (1 / 17) - 1, ("c", 1.0)),
            ({"a": look(1.1), "c": look(2.0)}, (2 * 1.1**16) ** (1 / 17) - 1, ("a", 0.1)),
        ):
            with self.subTest(after):
                before = dict.fromkeys("abc", still)
                found = self.gain((a, b, least), before, after)
                self.assertAlmostEqual(gain, found[0])
                self.assertEqual(most, found[1])

    def test_who_does_not_count(self):
        """Who was not measured before and after, or had no speed; with nobody there is no gain."""
        one = (tenant("a", priority=PC),)
        for before, after in (
            ({}, {"a": look(2.0)}),
            ({"a": look(2.0)}, {}),
            ({"a": look(0.0)}, {"a": look(2.0)}),
            ({"a": look(2.0)}, {"a": look(0.0)}),
        ):
            with self.subTest(before=before, after=after):
                self.assertEqual((0.0, None), self.gain(one, before, after))
        two = (*one, tenant("b", priority=PC))
        found = self.gain(two, {"b": look()}, {"b": look(1.5)})
        self.assertAlmostEqual(0.5, found[0])

    def test_best_effort_that_is_stalled(self):
        """Its gain counts by the cycles that it was not stalled; a critical guest's in full."""
        for priority, expected in ((BE, math.sqrt(2) - 1), (PC, 1.0)):
            found = self.gain(
                (tenant("a", priority=priority),), {"a": look(1.0, 0.5)}, {"a": look(2.0, 0.1)}
            )
            self.assertAlmostEqual(expected, found[0])

    def test_host(self):
        """Its processes count with the same load, and where misses stall them."""
        host, guest = tenant("host", kind=TenantKind.HOST), tenant("a")
        for before, after, counts in (
            (look(1.0, 0.1, 1e6), look(2.0, 0.1, 2e6), True),
            (look(1.0, 0.1, 1e6), look(2.0, 0.0, 2e6), True),
            (look(1.0, 0.0, 1e6), look(2.0, 0.1, 2e6), True),
            (look(1.0, 0.006, 1e6), look(2.0, 0.006, 2e6), False),
            (look(1.0, 0.1, 1e6), look(2.0, 0.1, 8e6), False),
        ):
            with self.subTest(before=before, after=after):
                gain, most = self.gain((host,), {"host": before}, {"host": after})
                self.assertEqual(counts, most is not None)
                self.assertEqual(counts, gain > 0)
                both = ({"host": before, "a": before}, {"host": after, "a": after})
                _, most = self.gain((host, guest), *both)
                self.assertIsNotNone(most)

    def test_minimum_speed(self):
        """What lacks of it counts like a critical guest's speed, before and after."""
        one, floors = (tenant("a"),), {"a": look(2.0)}
        for was, now, lacks in (
            (1.0, 1.5, 4.0),
            (1.5, 1.0, -4.0),
            (2.0, 3.0, 0.0),
            (1, 2.5, 8.0),
        ):
            with self.subTest(was=was, now=now):
                found = judge.gain(one, {"a": look(was)}, {"a": look(now)}, floors)
                self.assertAlmostEqual(now / was - 1, found.speeds)
                expected = math.expm1(math.log(now / was) + lacks)
                self.assertAlmostEqual(expected, found.with_floors)
        other = judge.gain(one, {"a": look(1.0)}, {"a": look(1.5)}, {"b": look(2.0)})
        self.assertAlmostEqual(0.5, other.with_floors)


class StakeTest(unittest.TestCase):
    def test_shares(self):
        """Stalls of misses, and what lacks of the minimum speed, over the weight of who is read."""
        tenants = (tenant("a", priority=PC), tenant("b"), tenant("gone", priority=PC))
        looks = {"a": look(1.0, 0.5), "b": look(1.5, 0.75)}
        found = judge.stakes(tenants, looks, {"b": look(2.0)})
        self.assertEqual({"a", "b"}, set(found))
        for name, misses, lack in (("a", 16.0, 0.0), ("b", 0.25 * 3, 16 * 0.25)):
            self.assertAlmostEqual(misses / 17, found[name].misses)
            self.assertAlmostEqual(lack / 17, found[name].lack)
        self.assertEqual({}, judge.stakes(tenants, {}, {}))
        above = judge.stakes(tenants, looks, {"b": look(1.0)})
        self.assertEqual(0.0, above["b"].lack)


class DeviationTest(unittest.TestCase):
    def test_unusual(self):
        """Two and a half times the usual, and at least the least."""
        for least, deviation, expected in ((0.1, 0.0, 0.1), (0.1, 0.04, 0.1), (0.1, 0.08, 0.2)):
            self.assertAlmostEqual(expected, judge.unusual(least, deviation))

    def test_unrest(self):
        """On a restless host a gain must be larger."""
        for deviation, expected in ((0.0, 1.0), (0.048, 1.0), (0.096, 2.0), (0.48, 10.0)):
            self.assertAlmostEqual(expected, judge.unrest(deviation))


class LoadTest(unittest.TestCase):
    def test_other_loads(self):
        """Where misses stall, over a quarter more references an instruction, or time and work."""
        one = tenant("a")
        same = look(1.0, 0.1, 1e7)
        for before, after, other in (
            (same, same, False),
            (same, look(2.0, 0.1, 2e7), False),
            (same, look(1.0, 0.1, 1.3e7), False),
            (same, look(1.0, 0.1, 1.4e7), True),
            (same, look(1.0, 0.1, 0.7e7), True),
            (same, look(0.5, 0.1, 1e7), True),
            # Twice the time for the same work, as of a program that waits for its disk.
            (same, look(0.5, 0.1, 1e7, 2e9), False),
            (same, look(0.5, 0.1, 1.3e7, 2e9), False),
            (same, look(0.5, 0.1, 1.4e7, 2e9), True),
            (same, look(0.5, 0.1, 1.3e7, 2.6e9), False),
            (same, look(0.5, 0.1, 1.4e7, 2.8e9), True),
            (same, look(1.0, 0.1, 1.3e7, 1.3e9), False),
            (same, look(1.0, 0.1, 1.4e7, 1.4e9), True),
            (same, look(1.0, 0.1, 0.7e7, 0.7e9), True),
            (look(1.0, 0.006, 1e7), look(1.0, 0.006, 9e7), False),
            (look(1.0, 0.006, 1e7), look(1.0, 0.007, 9e7), True),
            (look(1.0, 0.007, 1e7), look(1.0, 0.006, 9e7), True),
            (None, same, True),
            (same, None, True),
            (None, None, False),
        ):
            with self.subTest(before=before, after=after):
                looks = [{} if seen is None else {"a": seen} for seen in (before, after)]
                self.assertEqual(("a",) if other else (), judge.other_loads((one,), *looks))
                for kept in (tenant("a", io=True), tenant("a", kind=TenantKind.HOST)):
                    self.assertEqual((), judge.other_loads((kept,), *looks))

    def test_several(self):
        """Tenants that came or left have another load, in the order of the tenants."""
        names = map(tenant, ("same", "came", "left", "gone"))
        tenants = (tenant("io", io=True), tenant("host", kind=TenantKind.HOST), *names)
        before = {"same": look(), "left": look()}
        after = {"same": look(), "came": look()}
        self.assertEqual(("came", "left"), judge.other_loads(tenants, before, after))
        self.assertEqual((), judge.other_loads(tenants, before, before))

    def test_other_traffic(self):
        """What devices write changed by more than is usual, and somebody with I/O is stalled."""
        reads, plain = tenant("io", io=True), tenant("a")
        stalls, calm, idle = look(1.0, 0.1), look(1.0, 0.006), look(1.0, 0.001)
        lines = {DDIO: look(0.0, 0.0, 1e7)}
        more = {DDIO: look(0.0, 0.0, 1.4e7)}
        for before, after, deviation, other in (
            ({"io": stalls, **lines}, {"io": stalls, **more}, 0.0, True),
            ({"io": stalls, **more}, {"io": stalls, **lines}, 0.0, True),
            ({"io": calm, **lines}, {"io": stalls, **more}, 0.0, True),
            ({"io": stalls, **lines}, {"io": calm, **more}, 0.0, True),
            ({"io": calm, **lines}, {"io": calm, **more}, 0.0, False),
            ({"io": idle, **lines}, {"io": idle, **more}, 0.0, False),
            ({"a": stalls, **lines}, {"a": stalls, **more}, 0.0, False),
            ({"io": stalls, **lines}, {"io": stalls, **lines}, 0.0, False),
            ({"io": stalls, **lines}, {"io": stalls, **more}, 0.12, False),
            ({"io": stalls, **lines}, {"io": stalls, **more}, 0.11, True),
            ({"io": stalls}, {"io": stalls, **more}, 0.0, False),
            ({"io": stalls, **lines}, {"io": stalls}, 0.0, False),
        ):
            with self.subTest(before=before, after=after, deviation=deviation):
                found = judge.other_traffic((reads, plain), before, after, deviation)
                self.assertIs(other, found)
