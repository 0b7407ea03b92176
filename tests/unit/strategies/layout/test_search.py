# SPDX-License-Identifier: Apache-2.0
"""Places of least cost for masks, compared with every placement that there is."""

from __future__ import annotations

import itertools
import random
import unittest
from collections.abc import Iterator, Sequence

from iat_nova.strategies.layout import search
from iat_nova.strategies.layout.line import Line, line
from iat_nova.strategies.layout.search import Item, at_rest

Spans = tuple[tuple[int, int], ...]


def placements(items: Sequence[Item], on: Line, ddio: int) -> Iterator[Spans]:
    """Every choice of a place for each item, with the required overlap, none on another."""
    places = [
        [
            (start, end)
            for start in range(on.length)
            if (end := on.end(start, item.ways))
            and item.overlap in (None, (on.mask(start, end) & ddio).bit_count())
        ]
        for item in items
    ]
    yield from apart(places, 0)


def apart(places: Sequence[list[tuple[int, int]]], taken: int) -> Iterator[Spans]:
    """Every choice of one of each item's places so that none overlap."""
    if not places:
        yield ()
        return
    for start, end in places[0]:
        ways = (1 << end) - (1 << start)
        if not ways & taken:
            for others in apart(places[1:], taken | ways):
                yield (start, end), *others


def cost(items: Sequence[Item], on: Line, ddio: int, spans: Spans, weigh: bool) -> tuple:
    """The documented cost: shared ways, moved masks, new ways, positions."""
    masks = [on.mask(*span) for span in spans]
    shared = tuple((mask & ddio).bit_count() for mask in masks) if weigh else ()
    moved = sum(item.held != mask for item, mask in zip(items, masks, strict=True) if item.held)
    new = sum(
        (mask & ~item.held).bit_count()
        for item, mask in zip(items, masks, strict=True)
        if item.held
    )
    return shared, moved, new, spans


LINES = (
    line(0x7FF, 0, True),
    line(0x3FF, 0x300, True),
    line(0x1FF, 0x038, True),
    line(0x3DF, 0, True),
    line(0x3DF, 0, False),
)


def drawn(chance: random.Random, on: Line, weigh: bool) -> list[Item]:
    """Up to four items, most with a mask apart from the others' masks, some of another size."""
    items, at = [], 0
    for _ in range(chance.randint(1, 4)):
        at += chance.choice((0, 0, 1, 2))
        held, ways = chance.randint(1, 3), chance.randint(1, 3)
        ways = chance.choice((held, held, ways))
        mask = on.mask(at, at + held) if at + held <= on.length else 0
        at += held
        mask = chance.choice((mask, mask, mask, 0))
        overlap = None if weigh else chance.choice((None, None, 0, 0, 1, min(2, ways)))
        items.append(Item(ways, mask, overlap))
    return chance.sample(items, len(items))


class SearchTest(unittest.TestCase):
    def check(self, number: int, weigh: bool) -> bool:
        """Compare with all placements of a drawn problem; return whether there is any."""
        on = LINES[number % len(LINES)]
        ddio = on.mask(on.length - 2, on.length)
        items = drawn(random.Random(number), on, weigh)
        best = min(
            placements(items, on, ddio),
            key=lambda spans: cost(items, on, ddio, spans, weigh),
            default=None,
        )
        with self.subTest(number=number, items=items):
            expected = None if best is None else (best, True)
            self.assertEqual(expected, search.search(items, on, ddio, weigh=weigh))
        return best is not None

    def test_least_cost(self) -> None:
        """Of all placements the cheapest one, and so proven; None where there is none."""
        found = [self.check(number, weigh=False) for number in range(100)]
        self.assertIn(True, found)
        self.assertIn(False, found)

    def test_least_overlap(self) -> None:
        """Ways shared with DDIO cost most where the search weighs them, the first item's most."""
        self.assertIn(True, [self.check(number, weigh=True) for number in range(40)])

    def test_eight_masks(self) -> None:
        """Found in all placements; the cheapest few sets at each position miss it."""
        on = line(0xFFF, 0, True)
        wanted = (2, 1, 1, 2, 1, 1, 1, 2)
        held = (0x004, 0x018, 0x300, 0x002, 0x020, 0x0C0, 0xC00, 0x001)
        items = [Item(ways, mask, None) for ways, mask in zip(wanted, held, strict=True)]
        best = ((2, 4), (4, 5), (8, 9), (0, 2), (5, 6), (6, 7), (11, 12), (9, 11))
        self.assertEqual((best, True), search.search(items, on, 0))
        more = [*items, Item(1, 0x1000, None)]
        found = search.search(more, line(0x1FFF, 0, True), 0)
        assert found is not None
        self.assertFalse(found[1])

    def test_few_moves_among_many_masks(self) -> None:
        """Of sixteen masks the two that have to swap move, and no others."""
        on = line(0xFFFF, 0, True)
        items = [Item(1, 1 << (15 - index), 0) for index in range(16)]
        items[0], items[7] = Item(1, 1 << 15, 0), Item(1, 1 << 8, 1)
        found = search.search(items, on, 0x8000)
        assert found is not None
        spans, proven = found
        self.assertTrue(proven)
        places = [start for start, _ in spans]
        self.assertEqual([8, *range(14, 8, -1), 15, *range(7, -1, -1)], places)

    def test_many_moves_among_many_masks(self) -> None:
        """Of twelve masks all find a place; that no other is better is not claimed."""
        chance = random.Random(3)
        on = line(0xFFFFF, 0, True)
        items = [Item(chance.choice((1, 2)), 1 << index, None) for index in range(12)]
        found = search.search(items, on, 0xC0000)
        assert found is not None
        spans, proven = found
        self.assertFalse(proven)
        self.assertEqual([item.ways for item in items], [end - start for start, end in spans])
        ranked = sorted(spans)
        self.assertTrue(all(a[1] <= b[0] for a, b in itertools.pairwise(ranked)))


class AtRestTest(unittest.TestCase):
    """Masks that may stay need no search."""

    def test_all_masks_fit(self) -> None:
        """Of the wanted size, apart from each other, and with the wanted share of DDIO's ways."""
        on = line(0x7FF, 0, True)
        low, high = Item(2, 0x003, 0), Item(3, 0x700, 2)
        self.assertTrue(at_rest((low, high), on, 0x600))
        self.assertTrue(at_rest((low, Item(1, 0x004, 0), high), on, 0x600))
        for other in (
            Item(2, 0, None),  # it has none
            Item(2, 0x006, None),  # it overlaps the first
            Item(2, 0x01C, None),  # it is too large
            Item(2, 0x300, 0),  # it has a way of DDIO's
            Item(2, 0x300, 2),  # it has one of two
        ):
            self.assertFalse(at_rest((low, other), on, 0x600), other)
            self.assertFalse(at_rest((low, other, Item(1, 0x080, 0)), on, 0x600), other)
