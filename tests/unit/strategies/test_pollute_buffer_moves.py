# SPDX-License-Identifier: Apache-2.0
"""What each family of moves offers, and what a move promises by the figures of a sample."""

import unittest

from iat_nova.model import (
    BandwidthControl,
    DcaPort,
    DomainInventory,
    Parameters,
    Priority,
    Rates,
    Sample,
    TenantKind,
    WayMask,
    WayRequest,
)
from iat_nova.strategies import readings
from iat_nova.strategies.pollute_buffer import moves
from iat_nova.strategies.pollute_buffer.plan import Limit, Own, Plan
from iat_nova.strategies.pollute_buffer.view import View, saved
from iat_nova.strategies.readings import Look
from tests.unit.build import domain, tenant

PC, BE = Priority.PC, Priority.BE
TENANTS = (
    tenant("io", 1, priority=PC, io=True, devices=("0000:3b:02.1",)),
    tenant("c", 2, priority=PC),
    tenant("b", 3),
    tenant("s", 4, bandwidth_min=20),
)
MISSES = {"io": 1e6, "c": 2e6, "b": 3e6, "s": 4e6}
LINES = 3e6  # that devices write and miss


def plan(confined="", buffer=2, ddio=2, **more):
    """A plan; `own` by tenant, in the order of their places."""
    own = tuple(Own(name, ways) for name, ways in more.pop("own", {}).items())
    return Plan(frozenset(confined), buffer, ddio, own=own, **more)


def view(*others, lines=LINES, floors=None, settled=True, references=8e6, **facts):
    """A view of two critical and two best-effort guests; s streams."""
    tenants = (*TENANTS, *others)
    rates = {one.id: Rates(2e9, 2e9, references, MISSES.get(one.id, 1e6)) for one in tenants}
    sample = Sample(0, 1.0, 1.0, rates, None if lines is None else 9e6, lines)
    looks = readings.look(tenants, sample)
    inventory = DomainInventory(domain(**facts), tenants)
    return View(inventory, Parameters(), sample, looks, floors, settled=settled)


class MovesCase(unittest.TestCase):
    def offered(self, family, seen, before):
        """The moves of one family: promise and plan by code and subject, the best one first."""
        found = moves.candidates(seen, before, moves.FAMILIES.keys() - {family})
        promises = [promise for promise, _ in found]
        self.assertEqual(sorted(promises, reverse=True), promises)
        return {(move.what.code, move.subject): (promise, move.plan) for promise, move in found}

    def check(self, family, seen, before, expected):
        """Compare the moves: promise and plan by code and subject."""
        found = self.offered(family, seen, before)
        self.assertEqual(set(expected), set(found))
        for key, (promise, after) in expected.items():
            with self.subTest(key):
                self.assertAlmostEqual(promise, found[key][0])
                self.assertEqual(after, found[key][1])


class ApartTest(MovesCase):
    def test_from_the_start(self):
        """Best effort to the topmost ways with devices, or critical guests out of DDIO's alone."""
        seen = view()
        critical, least = frozenset({"io", "c"}), frozenset({"c"})
        for ddio, lines in ((2, LINES), (0, 0.0)):
            self.check("topmost-ways", seen, plan(ddio=ddio), {
                ("best-effort-topmost", "layout"): (
                    seen.relief(critical, 7e6 + lines),
                    plan("bs", ddio=ddio, on_ddio=True, clear=True),
                ),
                ("keep-clear", "layout"): (
                    seen.relief(least, lines), plan(ddio=ddio, clear=True)
                ),
            })  # fmt: skip

    def test_back(self):
        """Ways that others fill are open to critical guests again, once this was settled.

        What their fills cost is taken off the promise.
        """
        for before, dirty, topmost in (
            (plan(clear=True), 2, True),
            (plan("b", 3, clear=True), 2, True),
            (plan("b", 3, on_ddio=True, clear=True), 3, False),
            (plan("", 3, on_ddio=True, clear=True), 2, False),
        ):
            with self.subTest(before):
                found = self.offered("topmost-ways", view(), before)
                self.assertEqual(topmost, ("best-effort-topmost", "layout") in found)
                promise, after = found["keep-clear-no-more", "layout"]
                critical = frozenset({"c"})
                mixed = LINES + (view().fills(before.confined) if before.on_ddio else 0.0)
                self.assertAlmostEqual(
                    view().stake(critical) * saved(11 - dirty, 11) - view().relief(critical, mixed),
                    promise,
                )
                self.assertFalse(after.clear)
                again = self.offered("topmost-ways", view(settled=False), before)
                self.assertNotIn(("keep-clear-no-more", "layout"), again)

    def test_room_on_ddio(self):
        """Where two own their ways the topmost ways are DDIO's: enough for all of best effort."""
        own, four = {"c": 3, "io": 2}, tenant("w", 5, ways=WayRequest(4, 4, 11))
        for before, others, expected in (
            (plan(own=own), (), True),
            (plan(ddio=1, own=own), (), False),
            (plan(own=own), (four,), False),
            (plan(ddio=4, own=own), (four,), True),
            (plan(ddio=1, own={"c": 3}), (), True),
        ):
            with self.subTest(before=before, others=others):
                found = self.offered("topmost-ways", view(*others), before)
                self.assertEqual(expected, ("best-effort-topmost", "layout") in found)

    def test_larger_buffer(self):
        """A larger buffer stays as large."""
        found = self.offered("topmost-ways", view(), plan("b", 3))
        self.assertEqual(3, found["best-effort-topmost", "layout"][1].buffer)


class OnesTest(MovesCase):
    def test_confine(self):
        """Best-effort guests, and streams of any priority but the stack, that fill much."""
        streams = tenant("x", 5, priority=PC)
        stack = tenant("stack", 6, kind=TenantKind.STACK, priority=Priority.STACK)
        seen = view(streams, stack)
        for one in ("x", "stack"):
            seen.looks[one].misses_per_s = 5e6
        expected = {
            ("confine", one): (seen.relief(seen.ids - {one}, seen.misses(one)), plan(one))
            for one in ("b", "s", "x")
        }
        self.check("confine-single", seen, plan(), expected)
        del seen.looks["b"]  # asleep
        found = self.offered("confine-single", seen, plan())
        self.assertEqual({"s", "x"}, {subject for _, subject in found})

    def test_release(self):
        """Who is critical, or below its minimum speed; others gain by the confinement."""
        self.assertNotIn("b", {one for _, one in self.offered("confine-single", view(), plan("b"))})
        floors = {"b": Look(2.0, 0.0, 0.0, 0.0)}
        for who, seen in (("c", view()), ("b", view(floors=floors))):
            with self.subTest(who):
                found = self.offered("confine-single", seen, plan(who, 3, on_ddio=True))
                promise, after = found["release", who]
                stake = sum(seen.stakes[who])
                back = seen.relief(seen.ids - {who}, seen.misses(who))
                self.assertAlmostEqual(stake - back, promise)
                self.assertEqual(plan(), after)

    def test_owners(self):
        """An owner that reaches shared ways may be left with its own alone; others have no more."""
        before = plan(own={"b": 2, "c": 2, "s": 2})
        seen = view()
        self.check("confine-single", seen, before, {
            ("confine-to-own", "b"): (
                seen.relief(seen.ids - {"b"}, 3e6), plan("b", own={"b": 2, "c": 2, "s": 2})
            )
        })  # fmt: skip


class SizeTest(MovesCase):
    def test_sizes(self):
        """Two ways more for those within, one fewer for those outside, within the shared ways."""
        for before, settled, facts, expected in (
            (plan("b"), True, {}, {4, 1}),
            (plan("b"), False, {}, {4}),
            (plan("b"), True, {"min_ways": 2}, {4}),
            (plan("b", 1), True, {}, {3}),
            (plan("b", 7), True, {}, {9, 6}),
            (plan("b", 8), True, {}, {7}),
            (plan(), True, {}, set()),
            (plan("b", own={"b": 2}), True, {}, set()),
            (plan("b", own={"c": 2, "io": 2}, on_ddio=True), True, {}, set()),
            (plan("b", own={"c": 2}, on_ddio=True), True, {}, {4, 1}),
        ):
            with self.subTest(before=before, settled=settled, facts=facts):
                seen = view(settled=settled, **facts)
                found = moves.candidates(seen, before, moves.FAMILIES.keys() - {"buffer-size"})
                self.assertEqual(expected, {move.what.values["ways"] for _, move in found})
                self.assertEqual(expected, {move.plan.buffer for _, move in found})
                self.assertEqual({"buffer-size"} if expected else set(),
                                 {move.what.code for _, move in found})  # fmt: skip

    def test_promises(self):
        """What those within gain by a larger share; or those outside, less the loss within."""
        seen = view()
        within, outside = (seen.stake(frozenset(one)) for one in (("b",), ("io", "c", "s")))
        found = moves.candidates(seen, plan("b"), moves.FAMILIES.keys() - {"buffer-size"})
        promises = {move.plan.buffer: promise for promise, move in found}
        self.assertAlmostEqual(within * saved(2, 4), promises[4])
        self.assertAlmostEqual(outside * saved(9, 10) + within * saved(2, 1), promises[1])


class DdioTest(MovesCase):
    def test_more_and_fewer(self):
        """Two ways more while lines miss, two fewer once settled, within the policy's bounds."""
        readers, others = frozenset({"io"}), frozenset({"c", "b", "s"})
        for ddio, more, less in ((2, 4, None), (3, 5, 2), (4, 6, 2), (5, 6, 3), (6, None, 4)):
            for settled, lines in ((True, LINES), (False, LINES), (True, 1e6), (True, 0.5e6)):
                with self.subTest(ddio=ddio, settled=settled, lines=lines):
                    seen = view(settled=settled, lines=lines)
                    found = moves.candidates(
                        seen, plan("b", 3, ddio), moves.FAMILIES.keys() - {"ddio-ways"}
                    )
                    promises = {move.plan: promise for promise, move in found}
                    expected = {}
                    if more and lines > 1e6:
                        gain = seen.stake(readers) * seen.packets_missed * saved(ddio, more)
                        expected[plan("b", 3, more)] = gain
                    if less and settled:
                        gain = seen.stake(others) * saved(11 - ddio, 11 - less)
                        expected[plan("b", 3, less)] = gain
                    self.assertEqual(set(expected), set(promises))
                    for after, promise in expected.items():
                        self.assertAlmostEqual(promise, promises[after])

    def test_room(self):
        """Not at the cost of own ways; not where DDIO cannot be sized, or is not counted."""
        for before, seen, expected in (
            (plan(own={"c": 5}), view(), {4}),
            (plan(own={"c": 6}), view(), set()),
            (plan(), view(ddio_resizable=False), set()),
            (plan(), view(lines=None), set()),
            (plan(ddio=2), view(ways=3), {3}),
        ):
            with self.subTest(before):
                found = moves.candidates(seen, before, moves.FAMILIES.keys() - {"ddio-ways"})
                self.assertEqual(expected, {move.plan.ddio for _, move in found})
                self.assertEqual(expected, {move.what.values["ways"] for _, move in found})

    def test_buffer_on_these_ways(self):
        """It keeps its own share, and two ways at least."""
        for before, after in (
            (plan("b", 2, 2, on_ddio=True), {(4, 4)}),
            (plan("b", 3, 4, on_ddio=True), {(6, 5), (2, 2)}),
            (plan("b", 6, 4, on_ddio=True), {(6, 8), (2, 4)}),
        ):
            with self.subTest(before):
                found = moves.candidates(view(), before, moves.FAMILIES.keys() - {"ddio-ways"})
                self.assertEqual(after, {(move.plan.ddio, move.plan.buffer) for _, move in found})

    def test_any_way(self):
        """Devices that may fill all ways are confined, and let loose again."""
        seen = view(ddio=0)
        others = frozenset({"c", "b", "s"})
        self.check("ddio-ways", seen, plan(ddio=0), {
            ("ddio-ways", "ddio"): (seen.relief(others, LINES), plan())
        })  # fmt: skip
        self.assertEqual({}, self.offered("ddio-ways", view(ddio=0, lines=1e6), plan(ddio=0)))
        full = plan(ddio=0, own={"c": 8})
        self.assertEqual({}, self.offered("ddio-ways", seen, full))
        found = self.offered("ddio-ways", seen, plan())
        self.assertEqual(
            (seen.stake(frozenset({"io"})), plan(ddio=0)), found["ddio-any-way", "ddio"]
        )
        self.assertNotIn(("ddio-any-way", "ddio"), self.offered("ddio-ways", view(), plan()))


class DcaTest(MovesCase):
    port = DcaPort("0000:3a:00.0", ("0000:3b:02.1",))
    other = DcaPort("0000:5d:00.0", ("0000:5e:00.0",))

    def test_off_and_on(self):
        """Off where the owners' hits save little and lines miss; back where it was switched off."""
        ports = {"dca_ports": (self.port, self.other)}
        off = plan(dca_off=(self.port.address,))
        few = 1.5e6  # references: half a million hits save a fortieth of the cycles
        seen = view(references=few, **ports)
        gain = seen.relief(seen.ids - {"io"}, LINES)
        self.check("port-dca", seen, plan(), {("port-dca-off", "ddio"): (gain, off)})
        self.assertEqual({}, self.offered("port-dca", view(**ports), plan()))
        self.assertEqual(
            {}, self.offered("port-dca", view(references=few, lines=1e6, **ports), plan())
        )
        both = plan(dca_off=(self.other.address, self.port.address))
        found = moves.candidates(seen, both, moves.FAMILIES.keys() - {"port-dca"})
        self.assertEqual(
            {self.port.address: (seen.stake(frozenset({"io"})), (self.other.address,)),
             self.other.address: (0.0, (self.port.address,))},
            {move.what.values["port"]: (promise, move.plan.dca_off) for promise, move in found},
        )  # fmt: skip


class LendTest(MovesCase):
    def test_one(self):
        """Its ways are open to all; the others gain by the larger share."""
        seen = view()
        gain = seen.stake(frozenset({"io", "b", "s"})) * saved(8, 11)
        self.check("share-guaranteed-ways", seen, plan("bc", own={"c": 3}), {
            ("lend", "c"): (gain, plan("b", lenders=("c",)))
        })  # fmt: skip
        self.assertEqual({}, self.offered("share-guaranteed-ways", seen, plan()))

    def test_several(self):
        """All together, and each; one that did not reach the shared ways gains as well."""
        own = {"c": 3, "io": 2, "b": 1}
        seen = view()
        found = self.offered("share-guaranteed-ways", seen, plan(own=own))
        self.assertEqual(
            {("lend-all", "layout"), ("lend", "c"), ("lend", "io"), ("lend", "b")}, set(found)
        )
        stake = {one: seen.stake(frozenset({one})) for one in MISSES}
        every = stake["s"] * saved(3, 11) + stake["b"] * saved(1, 11)
        self.assertAlmostEqual(every, found["lend-all", "layout"][0])
        last = (stake["s"] + stake["c"] + stake["io"]) * saved(3, 4) + stake["b"] * saved(1, 4)
        self.assertAlmostEqual(last, found["lend", "b"][0])
        after = found["lend-all", "layout"][1]
        self.assertEqual(((), ("c", "io", "b")), (after.own, after.lenders))
        self.assertEqual((Own("c", 3), Own("io", 2)), found["lend", "b"][1].own)


class ThrottleTest(MovesCase):
    steps = BandwidthControl(10, 10, 100, percent=True)

    def test_streams_of_best_effort(self):
        """Each time a step down, of 85 % at most, to the tenant's minimum of 20 %."""
        for now, lower in ((100, 90), (90, 80), (50, 40), (30, 20), (20, None)):
            with self.subTest(now=now):
                limits = () if now == 100 else (Limit("s", now),)
                found = self.offered(
                    "memory-bandwidth", view(bandwidth=self.steps), plan(limits=limits)
                )
                down = found.get(("limit-streams", "layout"))
                if lower is None:
                    self.assertIsNone(down)
                    continue
                seen = view(bandwidth=self.steps)
                kept_out = (1 - lower / now) * 4e6
                self.assertAlmostEqual(seen.relief(frozenset({"io", "c"}), kept_out), down[0])
                self.assertEqual((Limit("s", lower),), down[1].limits)

    def test_no_more(self):
        """Limits are lifted once settled; the tenants' stalls are the promise."""
        before = plan(limits=(Limit("s", 20),))
        seen = view(bandwidth=self.steps)
        self.check("memory-bandwidth", seen, before, {
            ("limit-streams-no-more", "layout"): (seen.stake(frozenset({"s"})), plan())
        })  # fmt: skip
        fresh = view(bandwidth=self.steps, settled=False)
        self.assertEqual({}, self.offered("memory-bandwidth", fresh, before))

    def test_no_limits(self):
        """Without the hardware, without a definition of 100 %, or for a minimum of all of it."""
        unknown = BandwidthControl(1, 1, 2048, percent=False)
        for facts in ({}, {"bandwidth": unknown}):
            self.assertEqual({}, self.offered("memory-bandwidth", view(**facts), plan()))
        seen = view(bandwidth=self.steps)
        seen.looks["s"].references_per_s = 2e7  # reuses its lines
        seen.looks["b"].misses_per_s = 8e6  # streams, and keeps all of its bandwidth
        self.assertEqual({}, self.offered("memory-bandwidth", seen, plan()))

    def test_what_is_felt(self):
        """In GB/s a limit above the traffic is not felt: the next one below it is taken."""
        control = BandwidthControl(1, 1, 2048, percent=False, whole=4)  # half a GB/s, in quarters
        seen = view(bandwidth=control)  # s has 0.256 GB/s of it
        ((promise, after),) = self.offered("memory-bandwidth", seen, plan()).values()
        self.assertEqual((Limit("s", 50),), after.limits)
        kept_out = (1 - 50 / 51.2) * 4e6
        self.assertAlmostEqual(seen.relief(frozenset({"io", "c"}), kept_out), promise)


class CandidatesTest(MovesCase):
    def test_all(self):
        """The best first, of all families that are not left out."""
        seen = view()
        found = moves.candidates(seen, plan())
        some = moves.candidates(seen, plan(), {"topmost-ways"})
        self.assertEqual(len(found) - 2, len(some))
        promises = [promise for promise, _ in found]
        self.assertEqual(sorted(promises, reverse=True), promises)
        self.assertEqual([], moves.candidates(seen, plan(), moves.FAMILIES.keys()))
        self.assertEqual(WayMask(0x600), seen.inventory.domain.ddio_found)
