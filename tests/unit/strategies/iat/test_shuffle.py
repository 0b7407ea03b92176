# SPDX-License-Identifier: Apache-2.0
"""What a new layout means: who ranks how, whose masks moved, and who left DDIO's ways."""

from __future__ import annotations

import unittest

from iat_nova.model import (
    DDIO,
    Action,
    Allocation,
    Change,
    DomainInventory,
    Group,
    Layout,
    Parameters,
    Quantity,
    Sample,
    Step,
    WayMask,
    message,
)
from iat_nova.strategies.iat import masks
from iat_nova.strategies.iat.change import Moves
from iat_nova.strategies.iat.ledger import Ledger
from iat_nova.strategies.iat.presets import Features
from iat_nova.strategies.iat.realloc import RoundView
from iat_nova.strategies.iat.roster import Roster
from iat_nova.strategies.iat.state import FsmState, IatState
from tests.unit.build import domain
from tests.unit.strategies.iat.worlds import M, guest, rates

PARAMETERS = Parameters()
COUNTS = {"a": 2, "b": 2, "io": 2}
INVENTORY = DomainInventory(domain(), (guest("a"), guest("b"), guest("io", io=True)))
SAMPLE = Sample(0, 1.0, 1.0, {})


def layout(ddio: int = 0x600, **masks: int) -> Layout:
    """A layout of tenants with these masks."""
    groups = (Group((name,), WayMask(mask)) for name, mask in masks.items())
    return Layout(WayMask(ddio), tuple(groups))


def state(placed: Layout | None) -> IatState:
    """A state with this layout."""
    return IatState(domain(), 1, FsmState.LOW_KEEP, Allocation(2, COUNTS), placed)


class RankingTest(unittest.TestCase):
    def test_coarse_steps(self) -> None:
        """A tenant's rates are taken anew when its references moved by a tenth and by the floor."""
        share, floor = PARAMETERS.retry_change, PARAMETERS.floor_references_per_s
        large = 100 * floor
        for was, now, anew in (
            (large, large * (1 + share) + 1, True),
            (large, large * (1 - share) - 1, True),
            (large, large * (1 + share), False),
            (large, large, False),
            (0.0, floor, False),
            (0.0, floor + 1, True),
            (floor, 2 * floor, False),
        ):
            with self.subTest(was=was, now=now):
                before, after = {"a": rates(was)}, {"a": rates(now)}
                found = masks.ranked(before, Sample(0, 1.0, 1.0, after), PARAMETERS)
                self.assertEqual(after if anew else before, found)
                if not anew:
                    self.assertIs(before, found)

    def test_who_is_new_or_gone(self) -> None:
        """A newcomer is ranked; who is not measured keeps its rank."""
        before = {"a": rates(5 * M)}
        found = masks.ranked(before, Sample(0, 1.0, 1.0, {"b": rates(1 * M)}), PARAMETERS)
        self.assertEqual({"a": rates(5 * M), "b": rates(1 * M)}, found)


class StepTest(unittest.TestCase):
    def step(self, before: Layout, after: Layout, **counts: int) -> Step | None:
        """The step about masks, where some counts were others before."""
        roster = Roster.of(INVENTORY)
        ledger = Ledger(roster, PARAMETERS, Features(), state(before), SAMPLE)
        return masks.moved(before, after, ledger, Allocation(2, {**COUNTS, **counts}))

    def test_moves(self) -> None:
        """Who left DDIO's ways, who came into them, else who was moved aside."""
        before = layout(a=0x3, b=0x600)
        for after, causes in (
            (layout(a=0x600, b=0x3), (message("out-of-ddio", tenants=("b",)),
                                      message("into-ddio", tenants=("a",)))),
            (layout(a=0x3, b=0xC), (message("out-of-ddio", tenants=("b",)),)),
            (layout(a=0x400, b=0x600), (message("into-ddio", tenants=("a",)),)),
            (layout(a=0x30, b=0x600), (message("moved-aside", tenants=("a",)),)),
        ):  # fmt: skip
            with self.subTest(after):
                expected = Step(Action.SHUFFLE, "layout", message("several", causes=causes))
                self.assertEqual(expected, self.step(before, after))

    def test_nothing_to_say(self) -> None:
        """Masks that stayed, that follow from other counts, or DDIO's alone."""
        before = layout(a=0x3, b=0x600)
        self.assertIsNone(self.step(before, before))
        self.assertIsNone(self.step(before, layout(a=0x30, b=0x600), a=1))
        self.assertIsNone(self.step(before, layout(ddio=0x700, a=0x3, b=0x600)))
        self.assertIsNotNone(self.step(before, layout(a=0x30, b=0xC), a=1))


class SharingTest(unittest.TestCase):
    def test_new_companions(self) -> None:
        """Each partition of several tenants is told once, with its ways."""
        pair, alone = Group(("a", "b"), WayMask(0x7)), Group(("io",), WayMask(0x18))
        shared, apart = Layout(WayMask(0x600), (pair, alone)), layout(a=0x3, b=0xC)
        expected = Step(
            Action.ADOPT, "layout", message("share-partition", tenants=("a", "b"), ways=3)
        )
        for before, after, steps in (
            (None, shared, (expected,)),
            (apart, shared, (expected,)),
            (shared, shared, ()),
            (shared, apart, ()),
            (shared, None, ()),
        ):
            with self.subTest(before=before, after=after):
                self.assertEqual(steps, masks.sharing(state(before), state(after)))


class ServedTest(unittest.TestCase):
    def test_who_left(self) -> None:
        """A tenant without I/O that left DDIO's ways while its misses rose."""
        before = layout(a=0x600, io=0x400, gone=0x400)
        for after, subject, misses, expected in (
            (layout(a=0x3), "a", 2 * M, ("a",)),
            (layout(a=0x3), "a", 0.5 * M, ()),
            (layout(a=0x3), "b", 2 * M, ()),
            (layout(a=0x600), "a", 2 * M, ()),
            (layout(a=0x600), "io", 2 * M, ()),
            (layout(a=0x600), "gone", 2 * M, ()),
        ):
            with self.subTest(after=after, subject=subject, misses=misses):
                moves = Moves([Change(subject, Quantity.MISSES, 1 * M, misses)])
                view = RoundView(
                    Roster.of(INVENTORY), PARAMETERS, Features(), SAMPLE, SAMPLE, before, moves,
                    None,
                )  # fmt: skip
                self.assertEqual(expected, masks.served(before, after, view))
        self.assertNotIn(DDIO, before.overlaps_ddio)
