# SPDX-License-Identifier: Apache-2.0
"""What of plan and failures is left when tenants come, leave or change."""

import unittest

from iat_nova.model import DcaPort, DevicePort, DomainInventory, Priority, WayRequest, message
from iat_nova.strategies.pollute_buffer import arrivals
from iat_nova.strategies.pollute_buffer.plan import Own, Plan
from iat_nova.strategies.pollute_buffer.state import Failure, State, members_of
from tests.unit.build import domain, tenant

PC, BE = Priority.PC, Priority.BE
NIC, DISK = "0000:3b:00.0", "0000:5e:00.0"


def failed(confined):
    """The failure of a plan that confines these tenants, each of one letter."""
    return Failure(Plan(frozenset(confined), 2, 2), message("confine"), 10.0, 20.0)


class StillFailedTest(unittest.TestCase):
    def left(self, before, after, *failures):
        """The tenants confined by the failures that still hold."""
        cache = domain()
        was = members_of(DomainInventory(cache, before))
        state = State(3, cache, was, Plan(frozenset(), 2, 2), failures=failures)
        left = arrivals.still_failed(state, members_of(DomainInventory(cache, after)))
        return ["".join(sorted(one.plan.confined)) for one in left]

    def test_who_is_confined_is_still_here(self) -> None:
        """A plan that confines a tenant that left does not fail again."""
        here = tuple(map(tenant, "abc"))
        failures = tuple(map(failed, ("ab", "abc", "c", "d", "")))
        self.assertEqual(["ab", "abc", "c", ""], self.left(here, here, *failures))
        self.assertEqual(["ab", ""], self.left(here, here[:2], *failures))

    def test_who_comes_leaves_or_changes(self) -> None:
        """Nothing has failed once a critical tenant came, left or changed, or weights did."""
        a, b, c = tenant("a", 1, priority=PC), tenant("b", 2), tenant("c", 3)
        for before, after, holds in (
            ((a, b), (a, b), True),
            ((a, b), (a, b, c), True),
            ((a, b), (a, b, tenant("c", 3, weight=2.0)), True),
            ((b, c), (a, b, c), False),
            ((a, b), (a, tenant("b", 3)), True),
            ((a, b), (a, tenant("b", 2, weight=2.0)), False),
            ((a, tenant("b", 2, weight=2.0)), (a, b), False),
            ((a, b), (a, tenant("b", 2, priority=PC)), False),
            ((a, tenant("b", 2, priority=PC)), (a, b), False),
            ((a, b, c), (a, b), True),
            ((a, b, c), (b, c), False),
            ((a, b, tenant("c", 3, priority=PC)), (a, b), False),
        ):
            with self.subTest(before=before, after=after):
                self.assertEqual(["b"] if holds else [], self.left(before, after, failed("b")))


class WaysTest(unittest.TestCase):
    def test_own_ways_of_the_one_that_arrives(self) -> None:
        """Its own, not those of another owner; else all ways that no other tenant owns."""
        here = DomainInventory(domain(), tuple(map(tenant, "abc")))
        plan = Plan(frozenset(), 2, 2, own=(Own("a", 3), Own("b", 2)))
        for one, code, ways in (
            ("a", "arrived-own-ways", 3),
            ("b", "arrived-own-ways", 2),
            ("c", "arrived-shared", None),
        ):
            told = arrivals.has(here, plan, one)
            self.assertEqual((code, ways), (told.code, told.values.get("ways")))
        small = DomainInventory(domain(), (tenant("a", ways=WayRequest(1, 1, 4)), tenant("b")))
        some = arrivals.has(small, Plan(frozenset(), 2, 2), "a")
        self.assertEqual(("arrived-some-ways", 4), (some.code, some.values["ways"]))


class PortsTest(unittest.TestCase):
    def test_ports_without_a_device_of_a_tenant(self) -> None:
        """DDIO is on, and none is aside; nor one with packets of a critical tenant."""
        ports = tuple(DevicePort(one, (one,)) for one in (NIC, DISK))
        roots = (DcaPort("0000:3a:00.0", (NIC,)), DcaPort("0000:5d:00.0", (DISK,)))
        cache = domain(device_ports=ports, dca_ports=roots)
        plan = Plan(
            frozenset(),
            2,
            2,
            dca_off=("0000:5d:00.0", "0000:3a:00.0"),
            aside=frozenset((NIC, DISK)),
        )
        for tenants, off, aside in (
            ((), (), set()),
            ((("a", BE, False, DISK),), ("0000:5d:00.0",), {DISK}),
            ((("a", PC, False, DISK),), ("0000:5d:00.0",), {DISK}),
            ((("a", PC, True, DISK),), ("0000:5d:00.0",), set()),
            ((("a", Priority.STACK, True, DISK),), ("0000:5d:00.0",), set()),
            ((("a", BE, True, DISK), ("b", PC, False, NIC)), plan.dca_off, {DISK, NIC}),
            ((("a", BE, True, DISK), ("b", PC, True, DISK)), ("0000:5d:00.0",), set()),
        ):
            with self.subTest(tenants):
                here = tuple(
                    tenant(name, priority=priority, io=io, devices=(port,), ports=(port,))
                    for name, priority, io, port in tenants
                )
                left = arrivals.ports_in_use(plan, DomainInventory(cache, here))
                self.assertEqual((off, aside), (left.dca_off, set(left.aside)))
