# SPDX-License-Identifier: Apache-2.0
"""Where the ways of a plan lie: of two critical guests, one with I/O, and two of best effort."""

import unittest

from iat_nova.model import (
    Allocation,
    DevicePort,
    DomainInventory,
    Priority,
    TenantKind,
    WayMask,
    WayRequest,
)
from iat_nova.strategies.pollute_buffer import masks
from iat_nova.strategies.pollute_buffer.plan import Limit, Own, Plan
from iat_nova.strategies.readings import Look
from tests.unit.build import domain, tenant

PC = Priority.PC
TENANTS = (
    tenant("c", 1, priority=PC),
    tenant("i", 2, priority=PC, io=True),
    tenant("b", 3),
    tenant("d", 4),
)


def plan(confined="", buffer=2, ddio=2, **more):
    """A plan; `own` by tenant, in the order of their places."""
    own = tuple(Own(name, ways) for name, ways in more.pop("own", {}).items())
    return Plan(frozenset(confined), buffer, ddio, own=own, **more)


def inventory(*tenants, **facts):
    """A cache of 11 ways, the two highest DDIO's."""
    return DomainInventory(domain(**facts), tenants or TENANTS)


class LayoutTest(unittest.TestCase):
    def check(self, found, made, ddio, expected):
        """Compare the masks of c, i, b and d, and DDIO's."""
        placed = masks.layout(found, made)
        self.assertEqual(
            [hex(one) for one in (ddio, *expected)],
            [hex(one) for one in (placed.ddio, *map(placed.mask_of, "cibd"))],
        )

    def test_plans(self):
        """All share all ways; a buffer lies below DDIO's ways, own ways at the ends."""
        for made, ddio, expected in (
            (plan(), 0x600, (0x7FF, 0x7FF, 0x7FF, 0x7FF)),
            (plan("b"), 0x600, (0x7FF, 0x7FF, 0x180, 0x7FF)),
            (plan("bd", 3), 0x600, (0x7FF, 0x7FF, 0x1C0, 0x1C0)),
            (plan("b", ddio=4), 0x780, (0x7FF, 0x7FF, 0x060, 0x7FF)),
            (plan("b", 9), 0x600, (0x7FF, 0x7FF, 0x1FF, 0x7FF)),
            (plan("b", 10), 0x600, (0x7FF, 0x7FF, 0x3FF, 0x7FF)),
            (plan("b", 20), 0x600, (0x7FF, 0x7FF, 0x7FF, 0x7FF)),
            (plan("b", on_ddio=True), 0x600, (0x7FF, 0x7FF, 0x600, 0x7FF)),
            (plan(clear=True), 0x600, (0x1FF, 0x7FF, 0x7FF, 0x7FF)),
            (plan("b", 3, on_ddio=True, clear=True), 0x600, (0x0FF, 0x7FF, 0x700, 0x7FF)),
            (plan(ddio=0), 0x000, (0x7FF, 0x7FF, 0x7FF, 0x7FF)),
            (plan("b", ddio=0), 0x000, (0x7FF, 0x7FF, 0x600, 0x7FF)),
            (plan("b", ddio=4, clear=True), 0x780, (0x07F, 0x7FF, 0x060, 0x7FF)),
            (plan(ddio=10, clear=True), 0x7FE, (0x001, 0x7FF, 0x7FF, 0x7FF)),
            (plan(ddio=11, clear=True), 0x7FF, (0x7FF, 0x7FF, 0x7FF, 0x7FF)),
            (plan(own={"c": 3}), 0x600, (0x7FF, 0x7F8, 0x7F8, 0x7F8)),
            (plan(own={"c": 3, "i": 2}), 0x600, (0x07F, 0x7F8, 0x078, 0x078)),
            (plan(own={"c": 3, "i": 2, "b": 1}), 0x600, (0x07E, 0x7F0, 0x001, 0x070)),
            (plan("b", own={"c": 3, "i": 2}), 0x600, (0x07F, 0x7F8, 0x060, 0x078)),
            (plan("b", own={"c": 3}, on_ddio=True), 0x600, (0x7FF, 0x7F8, 0x600, 0x7F8)),
            (plan("b", own={"c": 3, "i": 2}, on_ddio=True), 0x600, (0x07F, 0x7F8, 0x600, 0x078)),
            (plan("b", own={"c": 3, "i": 2, "b": 1}), 0x600, (0x07E, 0x7F0, 0x001, 0x070)),
            (plan("b", 3, own={"c": 3}, on_ddio=True), 0x600, (0x7FF, 0x7F8, 0x700, 0x7F8)),
            (plan("b", 3, own={"b": 2}), 0x600, (0x7FC, 0x7FC, 0x003, 0x7FC)),
            (plan("b", own={"b": 2, "c": 2}), 0x600, (0x7FC, 0x07C, 0x003, 0x07C)),
            (plan(own={"c": 3, "i": 2}, clear=True, ddio=4), 0x780, (0x01F, 0x7F8, 0x018, 0x018)),
        ):
            with self.subTest(made):
                self.check(inventory(), made, ddio, expected)

    def test_buffer_on_ddio(self) -> None:
        """Beside two owners it has DDIO's ways if these suffice; critical tenants keep clear."""
        own = {"i": 3, "c": 2}
        clear = {"on_ddio": True, "clear": True}
        for made, ddio, expected in (
            (plan("b", ddio=3, own=own, on_ddio=True), 0x700, (0x7F8, 0x03F, 0x700, 0x038)),
            (plan("b", ddio=2, own=own, **clear), 0x600, (0x1F8, 0x07F, 0x600, 0x078)),
            (plan("b", ddio=1, own=own, **clear), 0x400, (0x3F8, 0x0FF, 0x0C0, 0x0F8)),
            (plan("b", ddio=1, own={"i": 2, "c": 2, "d": 1}, **clear), 0x400,
             (0x3F8, 0x0FE, 0x0C0, 0x001)),
            (plan("b", 4, own={"d": 2}, **clear), 0x600, (0x07C, 0x7FC, 0x780, 0x7FF)),
            (plan("b", 4, own={"b": 2}, **clear), 0x600, (0x1FC, 0x7FC, 0x003, 0x7FC)),
        ):  # fmt: skip
            with self.subTest(made):
                self.check(inventory(), made, ddio, expected)

    def test_ten_ways(self) -> None:
        """The highest way is used as well."""
        made = plan("b", on_ddio=True)
        self.check(inventory(ways=10), made, 0x300, (0x3FF, 0x3FF, 0x300, 0x3FF))

    def test_many_owners(self) -> None:
        """All but two lie below the shared ways, the last one lowest, above reserved ways."""
        here = inventory(*TENANTS, tenant("e", 5), reserved_ways=WayMask(0x3))
        made = plan(own={"c": 1, "i": 1, "b": 1, "d": 2, "e": 1})
        self.check(here, made, 0x600, (0x0C0, 0x780, 0x020, 0x018))
        self.assertEqual(0x004, masks.layout(here, made).mask_of("e"))

    def test_the_buffer_has_the_minimum_of_those_inside(self) -> None:
        """The largest; not of a confined owner, who has its own ways."""
        wide = (
            tenant("b", 3, ways=WayRequest(3, 3, 11)),
            tenant("d", 4, ways=WayRequest(4, 4, 11)),
        )
        here = inventory(*TENANTS[:2], *wide)
        self.check(here, plan("bd"), 0x600, (0x7FF, 0x7FF, 0x1E0, 0x1E0))
        self.check(here, plan("bd", own={"d": 4}), 0x600, (0x7F0, 0x7F0, 0x1C0, 0x00F))

    def test_hardware(self):
        """Masks of two ways at least, reserved ways at either end, ways tied together."""
        two, low, high = {"min_ways": 2}, {"reserved_ways": 0x3}, {"reserved_ways": 0x600}
        tied, below, unknown = {"coerced_ways": 0x600}, {"coerced_ways": 0x300}, {"ddio": None}
        bottom = {"coerced_ways": 0x003}
        own = {"own": {"c": 3, "i": 2, "b": 1}}
        keeps, topmost = {"ddio": 3, "clear": True}, {"on_ddio": True, "clear": True}
        for facts, changes, ddio, expected in (
            (two, {}, 0x600, (0x7FF, 0x7FF, 0x180, 0x7FF)),
            (two, keeps, 0x700, (0x0FF, 0x7FF, 0x0C0, 0x7FF)),
            (two, topmost, 0x600, (0x1FF, 0x7FF, 0x600, 0x7FF)),
            (low, {}, 0x600, (0x7FC, 0x7FC, 0x100, 0x7FC)),
            (low, keeps, 0x700, (0x0FC, 0x7FC, 0x080, 0x7FC)),
            (low, own, 0x600, (0x078, 0x7C0, 0x004, 0x040)),
            (high, {}, 0x600, (0x1FF, 0x1FF, 0x100, 0x1FF)),
            (high, topmost, 0x600, (0x0FF, 0x1FF, 0x100, 0x1FF)),
            (high, own, 0x600, (0x07E, 0x1F0, 0x001, 0x070)),
            (tied, {}, 0x600, (0x7FF, 0x7FF, 0x100, 0x7FF)),
            (tied, topmost, 0x600, (0x1FF, 0x7FF, 0x600, 0x7FF)),
            (bottom, keeps, 0x700, (0x0FF, 0x7FF, 0x080, 0x7FF)),
            (below, {}, 0x600, (0x7FF, 0x7FF, 0x300, 0x7FF)),
            (below, topmost, 0x600, (0x0FF, 0x7FF, 0x400, 0x7FF)),
            (below, own, 0x600, (0x03E, 0x7F0, 0x001, 0x030)),
            (unknown, {}, 0x600, (0x7FF, 0x7FF, 0x100, 0x7FF)),
            (unknown, keeps, 0x700, (0x0FF, 0x7FF, 0x080, 0x7FF)),
        ):
            with self.subTest(facts=facts, changes=changes):
                made = {one: WayMask(n) if "ways" in one and one != "min_ways" else n
                        for one, n in facts.items()}  # fmt: skip
                self.check(inventory(**made), plan("b", 1, **changes), ddio, expected)

    def test_ddio_where_it_was_found(self) -> None:
        """DDIO of as many ways as were found has these; of other numbers the topmost."""
        found = DomainInventory(domain(), TENANTS)
        odd = inventory(ddio=None)
        for here, ways, mask in ((found, 2, 0x600), (found, 3, 0x700), (odd, 2, 0x600)):
            self.assertEqual(mask, masks.layout(here, plan(ddio=ways)).ddio)
        low = domain()
        low = type(low)(0, low.cpus, 11, 16, ddio_found=WayMask(0x3))
        self.assertEqual(0x3, masks.layout(DomainInventory(low, TENANTS), plan()).ddio)
        self.assertEqual(0x700, masks.layout(DomainInventory(low, TENANTS), plan(ddio=3)).ddio)

    def test_maximums(self):
        """No mask exceeds a tenant's maximum; a held tenant without its ways has no maximum."""
        four = WayRequest(1, 2, 4)
        some = inventory(
            tenant("c", 1, priority=PC, ways=four),
            tenant("i", 2, priority=PC, ways=four),
            tenant("b", 3, ways=WayRequest(4, 4, 4)),
            tenant("d", 4, ways=WayRequest(1, 2, 4, held=True)),
        )
        for made, expected in (
            (plan("b", 1), (0x00F, 0x00F, 0x1E0, 0x7FF)),
            (plan(own={"c": 3, "i": 2}), (0x00F, 0x1E0, 0x078, 0x078)),
            (plan(own={"c": 5, "i": 5}), (0x01F, 0x1F0, 0x000, 0x000)),
            (plan(own={"c": 3, "d": 2}), (0x00F, 0x078, 0x078, 0x180)),
            (plan(own={"d": 2}), (0x03C, 0x03C, 0x03C, 0x003)),
        ):
            with self.subTest(made):
                self.check(some, made, 0x600, expected)

    def test_classes(self):
        """Tenants with the same mask and limit share a class; a shared way counts for each."""
        limits = (Limit("d", 40),)
        placed = masks.layout(inventory(), plan("bd", 3, limits=limits, dca_off=("p",)))
        self.assertEqual(
            [(("b",), 0x1C0, 100), (("d",), 0x1C0, 40), (("c", "i"), 0x7FF, 100)],
            sorted(((g.tenants, int(g.mask), g.bandwidth) for g in placed.groups),
                   key=lambda one: (one[1], -one[2])),
        )  # fmt: skip
        self.assertEqual((True, ("p",)), (placed.grouped, placed.dca_off))
        counts = placed.allocation(one.id for one in inventory().tenants)
        self.assertEqual(Allocation(2, {"c": 11, "i": 11, "b": 3, "d": 3}), counts)
        more = inventory(*TENANTS, tenant("new", 5))
        self.assertEqual(0, placed.allocation(one.id for one in more.tenants).tenants["new"])
        apart = masks.layout(inventory(*TENANTS[:2]), plan(clear=True))
        self.assertFalse(apart.grouped)

    def test_ports_aside(self):
        """The topmost shared ways below DDIO's; none without room or without ways of DDIO's."""
        ports = (DevicePort("p", ("p",)), DevicePort("q", ("q",)))
        for made, ids, mask, critical in (
            (plan(aside=frozenset("p")), ("p",), 0x100, 0x7FF),
            (plan("b", aside=frozenset("pq")), ("p", "q"), 0x100, 0x7FF),
            (plan("b", own={"c": 3, "i": 2}, aside=frozenset("q")), ("q",), 0x040, 0x07F),
            (plan(clear=True, aside=frozenset("p")), ("p",), 0x100, 0x0FF),
            (plan(ddio=9, aside=frozenset("p")), ("p",), 0x002, 0x7FF),
            (plan(ddio=0, aside=frozenset("p")), (), 0, 0x7FF),
            (plan(ddio=10, aside=frozenset("p")), (), 0, 0x7FF),
            (plan(aside=frozenset("r")), (), 0, 0x7FF),
        ):
            with self.subTest(made):
                placed = masks.layout(inventory(device_ports=ports), made)
                found = [(group.ports, int(group.mask)) for group in placed.ports]
                self.assertEqual([(ids, mask)] if ids else [], found)
                self.assertEqual(critical, placed.mask_of("c"))

    def test_ways_of_ddio_that_are_open(self):
        """Reserved ways are open to nobody."""
        self.assertEqual(0x600, masks.open_of_ddio(domain(), plan()))
        reserved = domain(reserved_ways=WayMask(0x600))
        self.assertEqual(0x100, masks.open_of_ddio(reserved, plan(ddio=3)))


class RoomTest(unittest.TestCase):
    def test_fits(self):
        """Own ways leave two shared ones besides DDIO's; without any there is always room."""
        for own, ddio, expected in (
            ((), 11, True),
            ((7,), 2, True),
            ((8,), 2, False),
            ((4, 3), 2, True),
            ((4, 4), 2, False),
            ((5,), 4, True),
            ((6,), 4, False),
        ):
            with self.subTest(own=own, ddio=ddio):
                asked = [Own(str(place), ways) for place, ways in enumerate(own)]
                self.assertIs(expected, masks.fits(domain(), asked, ddio))
        three = domain(min_ways=3)
        self.assertEqual(
            (True, False),
            (masks.fits(three, [Own("a", 6)], 2), masks.fits(three, [Own("a", 7)], 2)),
        )
        high = domain(reserved_ways=WayMask(0x400))
        self.assertEqual(
            (True, False), (masks.fits(high, [Own("a", 8)], 0), masks.fits(high, [Own("a", 9)], 0))
        )
        low = domain(reserved_ways=WayMask(0x3))
        self.assertEqual(
            (True, False), (masks.fits(low, [Own("a", 5)], 2), masks.fits(low, [Own("a", 6)], 2))
        )

    def test_classes(self):
        """A class for each mask, and for ports here or elsewhere; the first is the host's."""
        ports = (DevicePort("p", ("p",)),)
        host = tenant("host", 5, kind=TenantKind.HOST)
        stack = tenant("stack", 5, kind=TenantKind.STACK)
        for tenants, made, facts, least in (
            (TENANTS, plan(), {}, 2),
            (TENANTS, plan("b"), {}, 3),
            ((*TENANTS, host), plan("b"), {}, 2),
            ((*TENANTS, stack), plan("b"), {}, 3),
            (TENANTS, plan("b", limits=(Limit("d", 40),)), {}, 4),
            (TENANTS, plan("b", aside=frozenset("p")), {"device_ports": ports}, 4),
            (TENANTS, plan("b"), {"device_ports": ports, "shared_port_classes": 2}, 5),
        ):
            with self.subTest(made=made, facts=facts):
                for classes in (least - 1, least):
                    found = inventory(*tenants, classes=classes, **facts)
                    self.assertIs(classes == least, masks.has_classes(found, made))

    def test_promises(self):
        """Lenders may fill as many ways as are guaranteed, and holds are exact."""
        held = tenant("h", 5, ways=WayRequest(2, 2, 2, held=True))
        lender = tenant("p", 6, ways=WayRequest(1, 1, 11, 2))
        here = inventory(*TENANTS, held, lender)
        kept = plan(own={"h": 2})
        for made, before, expected in (
            (kept, kept, True),
            (plan(own={"h": 3}), kept, False),
            (plan(), kept, False),
            (plan(), plan(), True),
            (plan("h"), plan(), False),
            (plan("h", own={"h": 2}), kept, True),
            (plan("p", lenders=("p",)), plan(), True),
            (plan("p", 1, lenders=("p",)), plan(), False),
            (plan("p", 1), plan(), True),
            (plan("b", 1, lenders=("p", "gone")), plan(), True),
        ):
            with self.subTest(made=made, before=before):
                self.assertIs(expected, masks.keeps_promises(here, made, before))


class PromisedTest(unittest.TestCase):
    """Guaranteed and held ways that fit besides DDIO's two and two shared ones: seven."""

    def promised(self, *asked, looks=None, **facts):
        """The owners in order, of (name, priority, ways, held)."""
        tenants = [
            tenant(name, number, priority=priority,
                   ways=WayRequest(ways, ways, 11, 0 if held else ways, held=held))
            for number, (name, priority, ways, held) in enumerate(asked)
        ]  # fmt: skip
        found = masks.promised(inventory(*tenants, tenant("x", 60), **facts), 2, looks or {})
        return [(one.tenant, one.ways) for one in found]

    def test_order(self):
        """Critical ones first, of these the most stalled; held ones come last."""
        be = Priority.BE
        asked = (("a", be, 1, False), ("h", PC, 1, True), ("p", PC, 1, False), ("q", PC, 1, False))
        self.assertEqual(["p", "q", "a", "h"], [one for one, _ in self.promised(*asked)])
        looks = {"q": Look(1.0, 0.3, 0.0, 0.0), "p": Look(1.0, 0.1, 0.0, 0.0)}
        found = self.promised(*asked, looks=looks)
        self.assertEqual(["q", "p", "a", "h"], [one for one, _ in found])
        for stalled, expected in ((0.3, ["q", "p", "a", "h"]), (0.0, ["p", "q", "a", "h"])):
            found = self.promised(*asked, looks={"q": Look(1.0, stalled, 0.0, 0.0)})
            self.assertEqual(expected, [one for one, _ in found])

    def test_what_fits(self):
        """Held ways first, then guarantees of critical tenants, then others; large ones first."""
        be = Priority.BE
        for asked, expected in (
            ((("p", PC, 7, False),), [("p", 7)]),
            ((("p", PC, 8, False),), []),
            ((("a", be, 5, False), ("p", PC, 3, False)), [("p", 3)]),
            ((("a", be, 4, False), ("p", PC, 3, False)), [("p", 3), ("a", 4)]),
            ((("h", be, 5, True), ("p", PC, 3, False), ("a", be, 2, False)), [("a", 2), ("h", 5)]),
            ((("p", PC, 4, False), ("q", PC, 5, False), ("r", PC, 3, False)),
             [("q", 5)]),
        ):  # fmt: skip
            with self.subTest(asked):
                self.assertEqual(expected, self.promised(*asked))

    def test_hardware(self):
        """Masks of two ways at least; a class for each, two for what is shared."""
        one = ("p", PC, 1, False), ("q", PC, 1, False)
        self.assertEqual([("p", 2), ("q", 2)], self.promised(*one, min_ways=2))
        for classes, expected in ((5, ["p", "q"]), (4, ["p"]), (3, [])):
            self.assertEqual(expected, [name for name, _ in self.promised(*one, classes=classes)])
        ways = WayRequest(1, 1, 11, 1)
        two = tenant("p", 1, priority=PC, ways=ways), tenant("q", 2, priority=PC, ways=ways)
        for kind, count in ((TenantKind.HOST, 2), (TenantKind.STACK, 1), (TenantKind.GUEST, 1)):
            here = inventory(*two, tenant("x", 3, kind=kind), classes=4)
            self.assertEqual(count, len(masks.promised(here, 2, {})), kind)

    def test_everybody(self):
        """Where all tenants have guarantees nothing need stay shared."""
        ways = WayRequest(1, 1, 11, 5)
        two = (tenant("p", 1, priority=PC, ways=ways), tenant("q", 2, priority=PC, ways=ways))
        four = (two[0], tenant("q", 2, priority=PC, ways=WayRequest(1, 1, 11, 4)))
        self.assertEqual(1, len(masks.promised(inventory(*two), 2, {})))
        self.assertEqual(2, len(masks.promised(inventory(*four), 2, {})))
        self.assertEqual(2, len(masks.promised(inventory(*two), 1, {})))
        for ways, classes, count in ((3, 16, 2), (4, 5, 2), (4, 4, 1)):
            one = tenant("q", 2, priority=PC, ways=WayRequest(1, 1, 11, ways))
            found = masks.promised(inventory(two[0], one, classes=classes), 2, {})
            self.assertEqual(count, len(found), (ways, classes))
