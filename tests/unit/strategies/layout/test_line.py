# SPDX-License-Identifier: Apache-2.0
"""Which masks have a place on the line of open ways, and how an empty line is filled."""

import unittest

from iat_nova.strategies.layout.line import Line, from_below, line, pack


class AdmitsTest(unittest.TestCase):
    """Masks that may be written."""

    def test_each_place(self) -> None:
        """A mask of neighbouring ways is admitted wherever it lies, and no other mask."""
        whole = line(0x7FF, 0, True)
        for ways in range(1, 12):
            for lowest in range(12 - ways):
                mask = ((1 << ways) - 1) << lowest
                self.assertTrue(whole.admits(mask, ways), hex(mask))
                self.assertFalse(whole.admits(mask, ways + 1), hex(mask))
        self.assertFalse(whole.admits(0b101, 2))
        self.assertFalse(whole.admits(0x1800, 2))

    def test_a_unit_of_coerced_ways(self) -> None:
        """A mask has all ways of the unit, or none of them."""
        coerced = line(0x7FF, 0x600, True)
        self.assertTrue(coerced.admits(0x700, 3))
        self.assertTrue(coerced.admits(0x100, 1))
        self.assertFalse(coerced.admits(0x300, 2))

    def test_reserved_ways_in_between(self) -> None:
        """No mask lies on both sides of a reserved way."""
        broken = line(0x7EF, 0, True)
        self.assertTrue(broken.admits(0x00F, 4))
        self.assertFalse(broken.admits(0x02F, 5))


class EndTest(unittest.TestCase):
    """Where a mask of so many ways ends that begins at a place; 0: there is no such mask."""

    def ends(self, on: Line, start: int) -> list[int]:
        """Return the ends of masks of one, two and more ways."""
        return [on.end(start, ways) for ways in range(1, on.length - start + 1)]

    def test_coerced_ways_in_the_middle(self) -> None:
        """A mask from the unit's begin has all of it; none begins within, or ends there."""
        on = line(0x1F, 0x0C, True)
        self.assertEqual(
            [[1, 2, 0, 4, 5], [2, 0, 4, 5], [4, 4, 5], [0, 0], [5]],
            [self.ends(on, start) for start in range(5)],
        )
        self.assertEqual((5, 4), (on.length, on.units))
        self.assertEqual(0, on.end(3, 3))
        self.assertEqual([0x0C, 0x1E], [on.mask(2, 4), on.mask(1, 5)])
        three = line(0x1F, 0x1C, True)
        self.assertEqual(([5, 5, 5], [0, 0]), (self.ends(three, 2), self.ends(three, 3)))
        self.assertEqual((5, 3, True), (three.length, three.units, three.regular))

    def test_a_reserved_way(self) -> None:
        """A mask ends below it, or begins above it, unless masks may have gaps."""
        broken, sparse = line(0x1B, 0, True), line(0x1B, 0, False)
        self.assertEqual(
            [[1, 2, 0, 0], [2, 0, 0], [3, 4], [4]], [self.ends(broken, n) for n in range(4)]
        )
        self.assertEqual([2, 3, 4], self.ends(sparse, 1))
        self.assertEqual((4, 4), (sparse.length, sparse.units))
        self.assertEqual(((1,), (1, 2)), (line(0x0D, 0, True).breaks, line(0x15, 0, True).breaks))

    def test_one_coerced_way(self) -> None:
        """Is as any other."""
        self.assertEqual(line(0x1F, 0, True), line(0x1F, 0x10, True))


class PackTest(unittest.TestCase):
    """Masks side by side on an empty line."""

    def test_as_many_as_have_room(self) -> None:
        """Masks that need one way more than there are do not fit."""
        found = from_below((4, 3, 3), 10, 9)
        assert found is not None
        self.assertEqual((((0, 4), (4, 7), (7, 10)), (0, 0, 1)), (found.spans, found.overlaps))
        self.assertIsNone(from_below((4, 3, 4), 10, 9))

    def test_filled_from_below(self) -> None:
        """The first masks stay out of DDIO's ways; the last one has what is left."""
        found = pack((4, 3, 3), line(0x7FF, 0, True), 9)
        assert found is not None
        self.assertEqual((((0, 4), (4, 7), (7, 10)), (0, 0, 1)), (found.spans, found.overlaps))

    def test_coerced_ways_at_the_top_belong_to_one_mask(self) -> None:
        """The mask that reaches the coerced ways has all of them."""
        found = pack((4, 3, 3), line(0x7FF, 0x600, True), 9)
        assert found is not None
        self.assertEqual(((0, 4), (4, 7), (8, 11)), found.spans)

    def test_no_mask_in_coerced_ways(self) -> None:
        """They stay free where all masks fit below; else the last that can gives up least."""
        for sizes, coerced, clean, spans, overlaps in (
            ((4, 3), 0x600, 9, ((0, 4), (4, 7)), (0, 0)),
            ((4, 5), 0x600, 9, ((0, 4), (4, 9)), (0, 0)),
            ((4, 4, 1), 0x600, 7, ((0, 4), (4, 8), (8, 9)), (0, 1, 1)),
            ((2, 2, 7), 0x600, 11, ((0, 2), (2, 4), (4, 11)), (0, 0, 0)),
            ((3, 1, 2), 0x7F0, 4, ((0, 3), (3, 4), (4, 11)), (0, 0, 7)),
        ):
            found = pack(sizes, line(0x7FF, coerced, True), clean)
            assert found is not None
            self.assertEqual((spans, overlaps), (found.spans, found.overlaps))
        self.assertIsNone(pack((4, 4, 4), line(0x7FF, 0x600, True), 9))

    def test_any_mask_may_own_the_coerced_ways(self) -> None:
        """Where the masks do not fit below, each is tried, the last one first."""
        for sizes, spans in (
            ((7, 2, 2), ((0, 7), (7, 9), (9, 11))),
            ((7, 3, 1), ((0, 7), (8, 11), (7, 8))),
            ((9, 1, 1), ((2, 11), (0, 1), (1, 2))),
            ((1, 8, 1, 1), ((0, 1), (3, 11), (1, 2), (2, 3))),
        ):
            with self.subTest(sizes):
                found = pack(sizes, line(0x7FF, 0x600, True), 11)
                assert found is not None
                self.assertEqual(spans, found.spans)

    def test_only_regular_lines_are_filled(self) -> None:
        """Reserved ways in between, or coerced ways below the top, want a search."""
        self.assertIsNone(pack((2, 2), line(0x7EF, 0, True), 9))
        self.assertIsNone(pack((2, 2), line(0x7FF, 0x060, True), 9))
