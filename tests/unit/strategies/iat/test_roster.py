# SPDX-License-Identifier: Apache-2.0
"""Tenants by their roles, and their bounds by policy and hardware."""

from __future__ import annotations

import unittest

from iat_nova.model import DeviceModel, DomainInventory, Priority, Tenant, WayMask, WayRequest
from iat_nova.strategies.iat.roster import Roster, RosterMember, is_best_effort
from tests.unit.build import domain, tenant
from tests.unit.strategies.iat.worlds import guest, host, stack

BEHIND = DeviceModel.AGGREGATION


def roster_of(*tenants: Tenant, **facts: object) -> Roster:
    """The tenants of a cache domain."""
    return Roster.of(DomainInventory(domain(**facts), tenants))  # type: ignore[arg-type]


def ids(members: tuple[RosterMember, ...]) -> list[str]:
    """The ids of members."""
    return [member.id for member in members]


class RolesTest(unittest.TestCase):
    def setUp(self) -> None:
        """One tenant of each role."""
        self.tenants = (
            guest("own", Priority.PC, io=True),
            guest("behind", io=True, model=BEHIND),
            guest("quiet", model=BEHIND),
            guest("critical", Priority.PC),
            host(),
        )

    def test_with_a_stack(self) -> None:
        """I/O tenants with buffers of their own, and those behind the stack, which comes first."""
        found = roster_of(*self.tenants, stack())
        self.assertEqual("stack", found.stack.id if found.stack else None)
        self.assertEqual((["own"], ["behind"]), (ids(found.sliced), ids(found.aggregated)))
        self.assertEqual(["stack", "own", "behind"], ids(found.io))
        self.assertEqual(["behind", "quiet", "host"], ids(found.best_effort))
        self.assertEqual(["own", "critical"], ids(found.critical))
        io = [one for one in found.ids if found.is_io(one)]
        self.assertEqual(["own", "behind", "stack"], io)
        self.assertEqual("host", found.host)

    def test_without_a_stack(self) -> None:
        """Every I/O tenant counts as one with buffers of its own; there may be no host's class."""
        found = roster_of(*self.tenants[:-1])
        self.assertIsNone(found.stack)
        self.assertEqual((["own", "behind"], []), (ids(found.sliced), ids(found.aggregated)))
        self.assertEqual(["own", "behind"], ids(found.io))
        self.assertIsNone(found.host)

    def test_by_id(self) -> None:
        """In the order of the inventory."""
        found = roster_of(guest("b"), guest("a"))
        self.assertEqual((("b", "a"), {"b", "a"}), (found.ids, set(found.by_id)))
        self.assertEqual(found.members[1], found.by_id["a"])
        self.assertEqual(11, found.domain.ways)

    def test_who_may_have_to_give(self) -> None:
        """Best effort, and not the stack, whatever its priority."""
        low = tenant("s", kind=stack().kind, priority=Priority.BE)
        for one, expected in ((guest("a"), True), (guest("a", Priority.PC), False), (low, False)):
            self.assertIs(expected, is_best_effort(RosterMember.of(one)))

    def test_stack_without_io(self) -> None:
        """The stack does I/O by what it is, and is no tenant with I/O beside."""
        found = roster_of(tenant("s", id="stack", kind=stack().kind, priority=Priority.STACK))
        self.assertTrue(found.is_io("stack"))
        self.assertEqual(((), ()), (found.sliced, found.critical))
        self.assertEqual((), roster_of(stack()).sliced)


class BoundsTest(unittest.TestCase):
    def test_bounds(self) -> None:
        """At least, initially and at most, within what the hardware takes and has."""
        for asked, facts, expected in (
            (WayRequest(2, 3, 8), {}, (2, 3, 8)),
            (WayRequest(1, 2, 11), {"min_ways": 2}, (2, 2, 11)),
            (WayRequest(1, 1, 1), {"min_ways": 2}, (2, 2, 2)),
            (WayRequest(2, 10, 11), {"reserved_ways": WayMask(0x600)}, (2, 9, 9)),
            (WayRequest(3, 1, 8), {}, (3, 3, 8)),
            (WayRequest(3, 9, 5), {}, (3, 5, 5)),
            (WayRequest(10, 10, 11), {"reserved_ways": WayMask(0x600)}, (10, 10, 10)),
        ):
            with self.subTest(asked=asked, facts=facts):
                found = roster_of(tenant("a", 1, ways=asked), **facts)
                (one,) = found.members
                bounds = (found.least(one), found.initial(one), found.most(one))
                self.assertEqual(expected, bounds)
