# SPDX-License-Identifier: Apache-2.0
"""A state whose counts, grants and masks disagree is refused; the text names each fault."""

from __future__ import annotations

import unittest

from iat_nova.model import (
    DDIO,
    Allocation,
    CacheDomain,
    DomainInventory,
    Group,
    Layout,
    Priority,
    Tenant,
    WayMask,
)
from iat_nova.strategies.iat import invariants
from iat_nova.strategies.iat.roster import Roster
from iat_nova.strategies.iat.state import Cause, FsmState, Grant, IatState
from tests.unit.build import domain
from tests.unit.strategies.iat.worlds import guest, host

A, B = guest("a", Priority.PC, 2), guest("b", ways=3, most=5)
PLACED = {"a": 0x003, "b": 0x01C}


def layout(placed: dict[str, int], ddio: int = 0x600, **more: object) -> Layout:
    """Masks by tenants, the names of those that share joined by a plus sign."""
    groups = tuple(Group(tuple(t.split("+")), WayMask(mask)) for t, mask in placed.items())
    return Layout(WayMask(ddio), groups, **more)  # type: ignore[arg-type]


class CheckTest(unittest.TestCase):
    def faults(
        self,
        counts: dict[str, int],
        placed: Layout | None,
        *tenants: Tenant,
        granted: tuple[str, ...] = (),
        ddio: int = 2,
        usable: int = 11,
        cache: CacheDomain | None = None,
    ) -> str:
        """What is said; nothing if all agree."""
        cache = cache or domain()
        state = IatState(
            domain=cache,
            iteration=3,
            fsm=FsmState.LOW_KEEP,
            allocation=Allocation(ddio, counts),
            layout=placed,
            grants=tuple(Grant(one, Cause.CORE_DEMAND, 1.0, 2.0) for one in granted),
        )
        try:
            roster = Roster.of(DomainInventory(cache, tenants or (A, B)))
            invariants.check(roster, usable, state)
        except invariants.InvariantError as error:
            told = str(error)
            self.assertTrue(told.startswith("cache domain 0: "))
            return told.removeprefix("cache domain 0: ")
        return ""

    def test_counts(self) -> None:
        """Of all tenants and of no others; within bounds, and not more than granted."""
        for counts, granted, fault in (
            ({"a": 2, "b": 3}, (), ""),
            ({"a": 1, "b": 4}, ("b",), ""),
            ({"a": 2, "b": 3}, ("b", "gone"), ""),
            ({"a": 0, "b": 5}, ("b", "b"), "a has 0 ways, its bounds are 1 and 11"),
            ({"a": 2, "b": 6}, ("b", "b", "b"), "b has 6 ways, its bounds are 1 and 5"),
            ({"a": 3, "b": 2}, (), "a has 3 ways that nobody granted, 3 in all"),
            ({"a": 2, "b": 5}, ("b",), "b has 4 ways that nobody granted, 5 in all"),
            ({"a": 2, "b": 3}, ("b", "b", "b"), "b has 0 ways that nobody granted, 3 in all"),
        ):
            with self.subTest(counts=counts, granted=granted):
                masks = {"a": (1 << counts["a"]) - 1, "b": ((1 << counts["b"]) - 1) << 4}
                found = self.faults(counts, layout(masks), granted=granted)
                self.assertEqual(fault, found.partition("; ")[0])
        for counts in ({"a": 2}, {"a": 2, "b": 3, "c": 1}, {"a": 2, "c": 3}):
            found = self.faults(counts, None)
            expected = f"ways are counted for {sorted(counts)}, the tenants are ['a', 'b']"
            self.assertEqual(f"{expected}; there is no layout", found)

    def test_ddio(self) -> None:
        """It has as many ways as its mask, and at least those granted."""
        for ddio, granted, mask, fault in (
            (2, (), 0x600, ""),
            (2, (DDIO, DDIO), 0x600, ""),
            (2, (DDIO,), 0x600, ""),
            (2, 3 * (DDIO,), 0x600, "DDIO has 2 ways, 3 are noted as granted"),
            (2, (), 0x700, "DDIO's mask 0x700 has not 2 ways"),
            (2, (), 0x400, "DDIO's mask 0x400 has not 2 ways"),
        ):
            with self.subTest(ddio=ddio, granted=granted, mask=mask):
                found = self.faults(
                    {"a": 2, "b": 3}, layout(PLACED, mask), granted=granted, ddio=ddio
                )
                self.assertEqual(fault, found)

    def test_masks(self) -> None:
        """One for each tenant, apart from the others, of the counted size."""
        for placed, fault in (
            (PLACED, ""),
            ({"a": 0x003, "b": 0x01C, "c": 0x020}, "the masks are those of"),
            ({"a": 0x003}, "the masks are those of"),
            ({"a": 0x003, "b": 0x00E}, "b: mask 0xe overlaps another one"),
            ({"a": 0x007, "b": 0x018}, "a: mask 0x7 for 2 ways; b: mask 0x18 for 3 ways"),
            ({"a": 0x003, "b": 0x00C},
             "all masks together have 4 ways, 5 are counted; b: mask 0xc for 3 ways"),
            ({"a": 0x003, "b": 0x03C},
             "all masks together have 6 ways, 5 are counted; b: mask 0x3c for 3 ways"),
        ):  # fmt: skip
            with self.subTest(placed=placed):
                found = self.faults({"a": 2, "b": 3}, layout(placed))
                (self.assertEqual if placed.keys() == PLACED.keys() else self.assertIn)(
                    fault, found
                )

    def test_more_counted_than_usable(self) -> None:
        """Masks may be smaller then, and if tenants share; never larger."""
        counts = {"a": 2, "b": 3}
        for placed, usable, grouped, fault in (
            ({"a": 0x001, "b": 0x00E}, 4, False, ""),
            ({"a": 0x003, "b": 0x00C}, 4, False, ""),
            ({"a": 0x007, "b": 0x008}, 4, False, "a: mask 0x7 for 2 ways"),
            ({"a": 0x003, "b": 0x00C}, 5, False, "all masks together have 4 ways, 5 are counted; "
             "b: mask 0xc for 3 ways"),
            ({"a": 0x003, "b": 0x00C}, 6, False, "all masks together have 4 ways, 5 are counted; "
             "b: mask 0xc for 3 ways"),
            ({"a+b": 0x01F}, 11, True, ""),
            ({"a+b": 0x00F}, 4, True, ""),
            ({"a+b": 0x00F}, 5, True, "all masks together have 4 ways, 5 are counted"),
            ({"a+b": 0x03F}, 11, True,
             "all masks together have 6 ways, 5 are counted; a, b: mask 0x3f for 5 ways"),
        ):  # fmt: skip
            with self.subTest(placed=placed, usable=usable):
                found = self.faults(counts, layout(placed, grouped=grouped), usable=usable)
                self.assertEqual(fault, found)

    def test_ways_that_come_together(self) -> None:
        """Sizes need not be as counted where a mask has a unit of ways, or reserved ways divide."""
        counts, larger = {"a": 2, "b": 3}, layout({"a": 0x003, "b": 0x078})
        for facts, checked in (
            ({}, True),
            ({"reserved_ways": WayMask(0x400)}, True),
            ({"reserved_ways": WayMask(0x001)}, True),
            ({"coerced_ways": WayMask(0x200)}, True),
            ({"coerced_ways": WayMask(0x600)}, False),
            ({"coerced_ways": WayMask(0x060)}, False),
            ({"reserved_ways": WayMask(0x080)}, False),
        ):
            with self.subTest(facts):
                found = self.faults(counts, larger, cache=domain(**facts))
                self.assertEqual(checked, "all masks together have 6 ways" in found)
                self.assertEqual(checked, bool(found))

    def test_lent_ways(self) -> None:
        """Only to the host's class, and none of DDIO's; counted masks are apart as well."""
        here, counts = host(1), {"a": 2, "host": 1}
        for placed, lent, fault in (
            ({"a": 0x003, "host": 0x0FC}, ("host", 0x004), ""),
            ({"a": 0x003, "host": 0x3FC}, ("host", 0x004), "DDIO's ways are lent to host"),
            ({"a": 0x603, "host": 0x0FC}, ("host", 0x004),
             "all masks together have 5 ways, 3 are counted; a: mask 0x603 for 2 ways"),
            ({"a": 0x0F8, "host": 0x004}, ("a", 0x018), "ways are lent to a"),
            ({"a": 0x003, "host": 0x0FC}, ("host", 0x002), "host: mask 0x2 overlaps another one"),
            ({"a": 0x003, "host": 0x0FE}, ("host", 0x004), "host: mask 0xfe overlaps another one"),
            ({"a": 0x003, "host": 0x0FC}, ("host", 0x00C),
             "all masks together have 4 ways, 3 are counted; host: mask 0xc for 1 ways"),
        ):  # fmt: skip
            with self.subTest(placed=placed, lent=lent):
                own = Group((lent[0],), WayMask(lent[1]))
                placed_with = layout(placed, lent=own)
                found = self.faults(counts, placed_with, A, here)
                if lent == ("host", 0x002):
                    self.assertIn("overlaps another one", found)
                else:
                    self.assertEqual(fault, found)
