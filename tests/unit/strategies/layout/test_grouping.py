# SPDX-License-Identifier: Apache-2.0
"""Which tenants have a partition of their own, which share one, and how many ways each has."""

import unittest

from iat_nova.model import Priority, TenantKind
from iat_nova.strategies.layout import grouping
from iat_nova.strategies.layout.grouping import Partition, Standing, Want, partitions

STACK, PC, BE = Priority.STACK, Priority.PC, Priority.BE


def want(name, ways, priority=BE, references=0.0, misses=0.0, *, held=False):
    """A tenant's ways; the one named host is the host's class."""
    kind = TenantKind.HOST if name == "host" else TenantKind.GUEST
    return Want(name, ways, priority, kind, references, misses, held)


def critical(*misses, ways=1):
    """Critical tenants p0, p1... with these misses."""
    return [want(f"p{number}", ways, PC, misses=each) for number, each in enumerate(misses)]


class PartitionsTest(unittest.TestCase):
    def divided(self, wants, ways=11, limit=15, min_ways=1, **more):
        """The tenants and the ways of each partition, in the order that avoids DDIO."""
        found = partitions(wants, ways, limit, min_ways, **more)
        return [("".join(part.tenants), part.ways) for part in found]

    def test_enough_for_all(self) -> None:
        """All have their own: the stack first, the best-effort tenant of fewest references last."""
        wants = [
            want("b", 2, references=1.0),
            want("c", 1, references=5.0),
            want("host", 1, references=9.0),
            want("p", 2, PC, references=2.0),
            want("q", 1, PC, references=3.0),
            want("r", 1, PC, references=3.0),
            want("stack", 3, STACK),
        ]
        expected = [("stack", 3), ("q", 1), ("r", 1), ("p", 2), ("host", 1), ("c", 1), ("b", 2)]
        self.assertEqual(expected, self.divided(wants))
        self.assertEqual(expected, self.divided(wants, limit=7))
        self.assertEqual(
            [
                Partition(("stack",), 3, Standing.STACK, 0.0),
                Partition(("q",), 1, Standing.PC, 3.0),
                Partition(("r",), 1, Standing.PC, 3.0),
                Partition(("p",), 2, Standing.PC, 2.0),
                Partition(("host",), 1, Standing.HOST, 9.0),
                Partition(("c",), 1, Standing.BE, 5.0),
                Partition(("b",), 2, Standing.BE, 1.0),
            ],
            partitions(wants, 11, 15, 1),
        )

    def test_standing(self) -> None:
        """A host's class that the policy makes critical counts as critical."""
        for name, priority, expected in (
            ("a", STACK, Standing.STACK),
            ("host", PC, Standing.PC),
            ("host", BE, Standing.HOST),
            ("a", BE, Standing.BE),
        ):
            self.assertIs(expected, grouping.standing(want(name, 1, priority)))

    def test_best_effort_shares(self) -> None:
        """With too few ways or classes, or if asked: one partition with the sum of the counts."""
        wants = [want("b", 2, references=1.0), want("a", 1, references=2.0), want("p", 3, PC)]
        for more, expected in (
            ({}, [("p", 3), ("a", 1), ("b", 2)]),
            ({"ways": 6}, [("p", 3), ("a", 1), ("b", 2)]),
            ({"share": True}, [("p", 3), ("ab", 3)]),
            ({"limit": 2}, [("p", 3), ("ab", 3)]),
            ({"ways": 5}, [("p", 3), ("ab", 2)]),
        ):
            with self.subTest(more):
                self.assertEqual(expected, self.divided(wants, **more))
        (_, both) = partitions(wants, 11, 2, 1)
        self.assertEqual(Partition(("a", "b"), 3, Standing.BE, 3.0), both)

    def test_minimum(self) -> None:
        """No partition has fewer ways than the hardware takes; each tenant counts so many."""
        wants = [want("a", 1), want("b", 1), want("p", 3, PC)]
        self.assertEqual([("p", 3), ("a", 2), ("b", 2)], self.divided(wants, min_ways=2))
        self.assertEqual([("p", 3), ("ab", 2)], self.divided(wants, 5, min_ways=2))
        self.assertEqual([("abp", 3)], self.divided(wants, 3, min_ways=2))
        self.assertEqual([("abp", 2)], self.divided(wants, 2, min_ways=2))
        self.assertEqual([], self.divided(wants, 1, min_ways=2))
        self.assertEqual([], self.divided(wants, limit=0))

    def test_few_partitions(self) -> None:
        """Critical tenants join best effort, the stack stays alone as long as there are two."""
        wants = [want("b", 2), *critical(5.0, 3.0), want("stack", 3, STACK)]
        for limit, expected in (
            (4, [("stack", 3), ("p0", 1), ("p1", 1), ("b", 2)]),
            (3, [("stack", 3), ("p0p1", 2), ("b", 2)]),
            (2, [("stack", 3), ("bp0p1", 4)]),
            (1, [("bp0p1stack", 7)]),
        ):
            with self.subTest(limit):
                self.assertEqual(expected, self.divided(wants, limit=limit))
        self.assertEqual([("p0p1", 2)], self.divided(critical(5.0, 3.0), limit=1))
        self.assertEqual([("p0p1", 2), ("b", 2)], self.divided(wants[:3], limit=2))
        three = [("p0", 1), ("p1", 1), ("ab", 3)]
        self.assertEqual(three, self.divided([want("a", 1), *wants[:3]], limit=3))

    def test_critical_tenants_are_dealt_back_and_forth(self) -> None:
        """The one of most misses shares last; counts of members differ by one at most."""
        for misses, expected in (
            ((1.0, 5.0, 4.0, 3.0), [("p0p3", 2), ("p1", 1), ("p2", 1)]),
            ((9.0, 8.0, 7.0, 6.0, 5.0), [("p0", 1), ("p1p4", 2), ("p2p3", 2)]),
            ((1.0, 1.0, 1.0, 1.0), [("p0", 1), ("p1", 1), ("p2p3", 2)]),
            ((9.0, 8.0, 7.0, 6.0, 5.0, 4.0, 3.0), [("p0p5p6", 3), ("p1p4", 2), ("p2p3", 2)]),
        ):
            with self.subTest(misses):
                self.assertEqual(expected, sorted(self.divided(critical(*misses), limit=3)))
        found = self.divided(critical(9.0, 8.0, 7.0, 6.0, 5.0, 4.0), limit=4)
        self.assertEqual([("p0", 1), ("p1", 1), ("p2p5", 2), ("p3p4", 2)], sorted(found))

    def test_the_full_count_of_the_stack(self) -> None:
        """It comes before others' partitions; one minimum is left, and never less than its own."""
        for stack, ways, expected in (
            (2, 5, [("stack", 2), ("p1", 1), ("p2", 1), ("p0p3", 1)]),
            (3, 5, [("stack", 3), ("p0p3", 1), ("p1p2", 1)]),
            (4, 5, [("stack", 4), ("p0p1p2p3", 1)]),
            (9, 5, [("stack", 4), ("p0p1p2p3", 1)]),
        ):
            wants = [want("stack", stack, STACK), *critical(4.0, 1.0, 2.0, 3.0)]
            with self.subTest(stack=stack):
                found = self.divided(wants, ways)
                self.assertEqual(expected[0], found[0])
                self.assertEqual(sorted(ways for _, ways in expected[1:]),
                                 sorted(ways for _, ways in found[1:]))  # fmt: skip
        wants = [want("stack", 9, STACK), *critical(4.0, 1.0)]
        self.assertEqual([("stack", 3), ("p0p1", 2)], self.divided(wants, 5, 2, 2))

    def test_who_gives(self) -> None:
        """Best effort first, then critical tenants, the stack last; the largest, then the last."""
        stack, p, q, b, host = (
            want("stack", 4, STACK),
            want("p", 3, PC, misses=2.0),
            want("q", 3, PC, misses=1.0),
            want("b", 3),
            want("host", 2),
        )
        for wants, ways, expected in (
            ([stack, p, b], 9, [("stack", 4), ("p", 3), ("b", 2)]),
            ([stack, p, b], 7, [("stack", 4), ("p", 2), ("b", 1)]),
            ([stack, p, b], 5, [("stack", 4), ("bp", 1)]),
            ([stack, b], 4, [("stack", 3), ("b", 1)]),
            ([p, q], 5, [("p", 3), ("q", 2)]),
            ([p, host], 4, [("p", 3), ("host", 1)]),
            ([stack, p, b, host], 9, [("stack", 4), ("p", 3), ("bhost", 2)]),
        ):
            with self.subTest(wants=[one.tenant for one in wants], ways=ways):
                self.assertEqual(expected, self.divided(wants, ways))

    def test_held(self) -> None:
        """Held tenants keep their count and share with nobody, if the others have a partition."""
        held = want("h", 4, held=True)
        wants = [want("a", 5), want("b", 5), want("p", 5, PC), held]
        for others, ways, limit, min_ways, expected in (
            (wants[:3], 11, 15, 1, [("p", 5), ("h", 4), ("ab", 2)]),
            (wants[:3], 5, 15, 1, [("h", 4), ("abp", 1)]),
            (wants[:3], 4, 15, 1, [("p", 3), ("abh", 1)]),
            (wants[:3], 11, 2, 1, [("abp", 7), ("h", 4)]),
            (wants[:3], 11, 1, 1, [("abhp", 11)]),
            (wants[:2], 6, 15, 2, [("h", 4), ("ab", 2)]),
            (wants[:2], 5, 15, 2, [("abh", 5)]),
            (critical(3.0, 2.0, 1.0), 11, 4, 1, [("p0", 1), ("p1", 1), ("p2", 1), ("h", 4)]),
            (critical(3.0, 2.0, 1.0), 9, 15, 2, [("p0", 2), ("p1p2", 3), ("h", 4)]),
            (
                [*critical(3.0, 2.0, 1.0), wants[0]],
                11,
                4,
                1,
                [("p0", 1), ("p1p2", 2), ("a", 4), ("h", 4)],
            ),
        ):
            with self.subTest(ways=ways, limit=limit, min_ways=min_ways):
                found = self.divided([*others, held], ways, limit, min_ways)
                self.assertEqual(sorted(expected), sorted(found))
        two = [want("g", 1, held=True), held, *wants[:2]]
        self.assertEqual([("ab", 6), ("g", 1), ("h", 4)], sorted(self.divided(two, limit=3)))
        three = [want("h", 3, held=True), *wants[:2]]
        self.assertEqual([("abh", 3)], self.divided(three, 3))
        small = [want("g", 1, held=True), *wants[:2]]
        self.assertEqual([("ab", 9), ("g", 2)], sorted(self.divided(small, min_ways=2)))
