# SPDX-License-Identifier: Apache-2.0
"""The search for layouts, on formulas."""

import random
import unittest

from iat_nova.experiments.runs.bound_search import (
    AS_FOUND,
    Search,
    Space,
    Unit,
    WayPlacement,
    add,
    neighbours,
    starts,
    unmanaged,
)
from iat_nova.model import Priority, WayMask

SPACE = Space(
    units=(
        Unit("pc", 0, Priority.PC, (0,)),
        Unit("be1", 0, Priority.BE, (1,)),
        Unit("be2", 0, Priority.BE, (2,)),
    ),
    ways=11,
    ddio=2,
    coerced=WayMask(0x600),
    ports=("nic0", "nvme0"),
)


def _found(placement, phase):
    """In phase 0 a low mask of 4 ways is best for `pc`, in phase 1 a wide one and more DDIO."""
    best = WayMask(0x00F) if phase == 0 else WayMask(0x1F8)
    ways = (placement.masks[0] ^ best).bit_count()
    ddio = abs((placement.ddio[0] or SPACE.ddio) - (2 if phase == 0 else 4))
    be = sum(mask.count for mask in placement.masks[1:]) / 22
    return (10.0 - ways - ddio, be)


def _worth(totals):
    performance, be = totals
    return min(0.0, be / 2 - 0.5), performance


def _explored(seed, rounds):
    """Return a search after some rounds of each kind, and all plans it proposed."""
    search, proposed = Search(SPACE, 2, _worth, seed), []

    def tell(plans):
        proposed.extend(plans)
        for plan in plans:
            search.tell(plan, [_found(one, phase) for phase, one in enumerate(plan)])

    tell(search.starts())
    for _ in range(rounds):
        tell(search.next_fixed(8))
    for _ in range(rounds):
        tell(search.next_phased(8))
    return search, proposed


class PlacementsTest(unittest.TestCase):
    def test_starts(self):
        """The host without an agent comes first; all are what the hardware takes, and differ."""
        found = starts(SPACE, random.Random(1))
        self.assertEqual(unmanaged(SPACE), found[0])
        self.assertEqual(len(set(found)), len(found))
        for placement in found:
            self._check(placement)
        self.assertIn((WayMask(0x7FF), WayMask(0x003), WayMask(0x003)), [p.masks for p in found])

    def test_neighbours(self):
        """One move away in ways, DDIO or a port; ways that come together stay together."""
        near = WayPlacement(
            (WayMask(0x600), WayMask(0x010), WayMask(0x7FF)), (AS_FOUND,), ("nic0",)
        )
        found = neighbours(SPACE, near)
        self.assertNotIn(near, found)
        self.assertEqual(len(set(found)), len(found))
        for placement in found:
            self._check(placement)
        masks = {one.masks[0] for one in found}
        self.assertLessEqual({0x700, 0x600, 0x300 | 0x400, 0x7FF}, masks)
        self.assertEqual({AS_FOUND, 1, 3}, {one.ddio[0] for one in found})
        self.assertEqual({("nic0",), (), ("nic0", "nvme0")}, {one.dca_off for one in found})
        self.assertTrue(any(one.masks[1] == one.masks[2] == 0x7FF for one in found))

    def test_back_to_what_was_found(self):
        """As many DDIO ways as were found are those that were found."""
        one = WayPlacement((SPACE.everything,) * 3, (3,), ())
        self.assertEqual({AS_FOUND, 3, 4}, {near.ddio[0] for near in neighbours(SPACE, one)})

    def test_too_many_masks_for_the_classes(self):
        """No placement needs more classes than there are."""
        space = Space(SPACE.units, ways=11, ddio=2, distinct=1)
        for placement in starts(space, random.Random(1)):
            self.assertLessEqual(len(set(placement.masks) - {0x7FF}), 1)

    def _check(self, placement):
        for mask in placement.masks:
            self.assertTrue(mask.is_contiguous)
            self.assertEqual(mask & ~0x7FF, 0)
            self.assertIn(mask & 0x600, (0, 0x600))
        for count in placement.ddio:
            self.assertIn(count, range(11))


class SearchTest(unittest.TestCase):
    def test_both_kinds_of_best_are_found(self):
        """The best fixed plan is a compromise; the best a phase is each phase's own."""
        search, _ = _explored(1, 30)
        (fixed,) = search.fixed(1)
        self.assertEqual(1, len(set(fixed)))
        (phased,) = search.phased(1)
        self.assertEqual([0x00F, 0x1F8], [one.masks[0] for one in phased])
        self.assertEqual([AS_FOUND, 4], [one.ddio[0] for one in phased])
        self.assertGreater(self._worth(phased), self._worth(fixed))
        self.assertEqual(0.0, self._worth(phased)[0])

    def test_the_limit_comes_first(self):
        """A plan that breaks it is worse than any that keeps it."""
        search, proposed = _explored(1, 2)
        (best,) = search.fixed(1)
        self.assertEqual(0.0, self._worth(best)[0])
        self.assertTrue(any(self._worth(plan)[0] < 0 for plan in proposed))

    def test_nothing_is_proposed_twice(self):
        """Neither among the fixed plans nor, in a phase, among the others."""
        search, proposed = _explored(1, 5)
        self.assertEqual(len(set(proposed)), len(proposed))
        self.assertEqual(3, len(search.phased(3)))

    def test_the_seed_determines_it(self):
        """The same seed proposes the same plans, another one others."""
        self.assertEqual(_explored(1, 3)[1], _explored(1, 3)[1])
        self.assertNotEqual(_explored(1, 3)[1], _explored(2, 3)[1])

    def _worth(self, plan):
        return _worth(add([_found(one, phase) for phase, one in enumerate(plan)]))
