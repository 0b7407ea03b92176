# SPDX-License-Identifier: Apache-2.0
"""Masks of ways, against sets of numbers."""

import unittest

from iat_nova.model import WAYS_LIMIT, WayMask
from iat_nova.nova import extra_specs


class TestWayMask(unittest.TestCase):
    def test_against_sets(self):
        """Every mask of seven ways: count, ends, runs, overlaps."""
        for bits in range(1 << 7):
            ways = {way for way in range(7) if bits >> way & 1}
            mask = WayMask(bits)
            with self.subTest(bits=bits):
                self.assertEqual(len(ways), mask.count)
                self.assertEqual(min(ways, default=-1), mask.lowest)
                self.assertEqual(max(ways, default=-1), mask.highest)
                run = bool(ways) and ways == set(range(min(ways), max(ways) + 1))
                self.assertIs(run, mask.is_contiguous)
                for other in (0, 0x1, 0x18, 0x60):
                    theirs = {way for way in range(7) if other >> way & 1}
                    self.assertIs(bool(ways & theirs), mask.overlaps(other))

    def test_spans(self):
        """A span begins at its lowest way and has its count."""
        for lowest in range(5):
            for count in range(5):
                ways = range(lowest, lowest + count)
                self.assertEqual(sum(1 << way for way in ways), WayMask.span(lowest, count))
        self.assertIs(WayMask, type(WayMask.span(1, 2)))

    def test_texts(self):
        """A mask shows as the kernel writes masks."""
        self.assertEqual(("0x600", "WayMask(0x600)"), (str(WayMask(0x600)), repr(WayMask(0x600))))

    def test_the_limit_of_extra_specs(self):
        """The same number stands in what nova-api loads, which imports nothing of the agent."""
        self.assertEqual(WAYS_LIMIT, extra_specs.WAYS_LIMIT)
