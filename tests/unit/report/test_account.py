# SPDX-License-Identifier: Apache-2.0
"""Whom a person means, and what is told of them."""

import contextlib
import dataclasses
import pathlib
import shutil
import tempfile
import unittest

from iat_nova.model import (
    Group,
    Guest,
    Parameters,
    Priority,
    TenantKind,
    WayMask,
    WayRequest,
    verbatim,
)
from iat_nova.report import account, subjects
from iat_nova.report.view import gather
from iat_nova.store.reader import HistoryReader
from iat_nova.store.records import Inventory
from iat_nova.store.writer import History
from tests.unit import stories

UUID = stories.PC.partition("/")[0]
OTHER = "6f9619ff-0000-4000-8000-000000000000"


def picture(*guests, tenants=None):
    """An inventory with further guests."""
    seen = stories.inventory()
    if tenants is not None:
        seen = dataclasses.replace(seen, tenants=tenants)
    known = dataclasses.replace(stories.facts(), guests=(*stories.facts().guests, *guests))
    reasons = {stories.PC: verbatim("class gold (flavor=nfv.large)")}
    return Inventory(stories.NIGHT, known, {0: seen}, reasons)


def guest(**changes):
    """Another guest, by default of the first one's name."""
    plain = Guest(OTHER, 4, "instance-00000004", "pc1", "m1", {}, None, (), (6, 7))
    return dataclasses.replace(plain, **changes)


PAGE = """\
Guest      pc1 (instance-00000003,
           6f9619ff-8b86-d011-b42d-00cf4fc964ff)
           flavor nfv.large
Priority   PC: performance-critical guest
Class      class gold (flavor=nfv.large)

Domain 0   CPUs 4-5; may have 2 to 8 ways, starts with 3
           has 3 ways 0x1c
           0 [vsw…][pc1    ][be1    ][.][~~~~] 10
Changes of its ways: none recorded

Why not more
  - 2026-11-21 03:00:04 UTC: refuse: no idle way
  - 2026-11-21 03:00:04 UTC: #4: misses high: I/O presses
    the LLC; no idle way
  - 900 k/s LLC misses, 7.5% of its references
  - cache domain 0 has 3 ways idle

What would help
  - iat:llc_ways=4 in flavor nfv.large: then it never has
    fewer
  - iat-nova hold pc1 --ways 4 --for 1h: to measure the
    effect"""


class TestFind(unittest.TestCase):
    def test_names(self):
        """UUID in either case, its begin, what the owner calls it, what libvirt does."""
        for text in (UUID, UUID.upper(), UUID[:8], "pc1", "instance-00000003", "pc1 (6f9619ff)"):
            self.assertEqual(UUID, subjects.find(picture(), text).key, text)
        for text, key in (("vswitch", "stack"), ("stack", "stack")):
            self.assertEqual(key, subjects.find(picture(), text).key)
        for text in ("", "pc", "6f9619f", "PC1", "instance-3"):
            self.assertIsNone(subjects.find(picture(), text), text)

    def test_several(self):
        """A name that several have is an error that lists them; what tells them apart is none."""
        both = picture(guest())
        for text in ("pc1", "6f9619ff"):
            with self.assertRaises(subjects.Ambiguous) as caught:
                subjects.find(both, text)
            for part in (UUID, OTHER, "instance-00000003", "instance-00000004"):
                self.assertIn(part, str(caught.exception))
        for text in (UUID, "instance-00000003", "6f9619ff-8"):
            self.assertEqual(UUID, subjects.find(both, text).key)
        # one guest is called as another's instance
        with self.assertRaises(subjects.Ambiguous):
            subjects.find(picture(guest(display_name="instance-00000003")), "instance-00000003")

    def test_floats(self):
        """A guest without CPUs of its own is what the pool is where it floats."""
        pool = dataclasses.replace(
            stories.inventory().tenants[2], id="pool", name="pool", kind=TenantKind.POOL
        )
        tenants = (*stories.inventory().tenants[:2], pool)
        found = subjects.find(picture(guest(), tenants=tenants), OTHER)
        self.assertEqual(
            (True, True, False), (found.floats, found.is_it("pool"), found.is_it(OTHER))
        )
        again = subjects.find(picture(), UUID)
        self.assertTrue(again.is_it(f"{UUID}/9"))  # in another run
        self.assertFalse(again.is_it("pool"))


class TestAccount(unittest.TestCase):
    def tell(
        self, tenant=None, *, counted=True, limit=None, masks=None, burst=4, told=True, gone=False,
        written=True, joined=False, **status,
    ):  # fmt: skip
        """Write a story with one tenant changed; return the account of somebody.

        `burst`: the iteration that moves ways. `told`: whether it says why. `gone`: whether
        somebody has left before the last iteration. `written`: whether masks were written.
        `joined`: whether tenants with the same mask have counts of their own.
        """
        folder = pathlib.Path(tempfile.mkdtemp(prefix="iat-account-"))
        self.addCleanup(shutil.rmtree, folder)
        clock = stories.SetClock()
        history = History(folder / "history.sqlite", max_age_s=1e9, max_bytes=8 << 20, clock=clock)
        history.status(stories.status(**status))
        first = stories.inventory()
        one = dataclasses.replace(first.tenants[1], **(tenant or {}))
        there = picture(tenants=(first.tenants[0], one, first.tenants[2]))
        row = history.inventory(clock.wall(), there.facts, there.domains, there.reasons)
        for number in range(1, 6):
            make = stories.burst if number == burst else stories.quiet
            if gone and number == 5:
                left = {0: dataclasses.replace(first, tenants=(first.tenants[0], first.tenants[2]))}
                row = history.inventory(stories.NIGHT + number, there.facts, left, {})
            iteration = make(number, stories.NIGHT + number, inventory_id=row)
            if not written:
                iteration = dataclasses.replace(iteration, effective=None)
            if not told:
                silent = dataclasses.replace(iteration.decision, why=())
                iteration = dataclasses.replace(iteration, decision=silent)
            if not counted:
                sample = dataclasses.replace(iteration.sample, tenants={})
                iteration = dataclasses.replace(iteration, sample=sample)
            if limit is not None or masks is not None:
                layout = iteration.decision.layout
                groups = tuple(dataclasses.replace(g, bandwidth=limit) for g in layout.groups)
                if masks is not None:
                    tenants = ("stack", stories.PC, stories.BE)
                    groups = tuple(  # tenants with the same mask have one class of service
                        Group(
                            tuple(t for t, m in zip(tenants, masks, strict=True) if m == mask), mask
                        )
                        for mask in map(WayMask, dict.fromkeys(masks))
                    )
                layout = dataclasses.replace(layout, groups=groups)
                decision = dataclasses.replace(iteration.decision, layout=layout)
                if masks is not None and not joined:
                    counts = {one: layout.mask_of(one).count for one in tenants}
                    allocation = dataclasses.replace(decision.allocation, tenants=counts)
                    decision = dataclasses.replace(decision, allocation=allocation)
                iteration = dataclasses.replace(iteration, decision=decision)
            history.record(iteration)
        self.assertTrue(history.flush(60.0), history.problem)
        history.close()
        with contextlib.closing(HistoryReader(folder / "history.sqlite")) as reader:
            seen = there if gone else reader.latest_inventory()
            return account.give(reader, gather(reader), subjects.find(seen, UUID), seen)

    def test_the_rule_and_what_was_refused(self):
        """The reason is that of the recorded picture; a hold of the strategy says why not more."""
        told = self.tell()
        page = account.page(told, stories.NIGHT + 9)
        self.assertIn("Class      class gold (flavor=nfv.large)", page)
        self.assertIn("refuse: no idle way", page)
        self.assertTrue(all(len(line) <= 80 for line in page.splitlines()), page)

    def test_a_whole_page(self):
        """In sixty columns."""
        self.assertEqual(PAGE, account.page(self.tell(), stories.NIGHT + 9, width=60))

    def test_a_record(self):
        """The same for programs."""
        told = account.record(self.tell())
        self.assertEqual(UUID, told["key"])
        self.assertEqual(("pc1", "instance-00000003"), (told["name"], told["instance_name"]))
        self.assertEqual((True, None), (told["here"], told["hold"]))
        (part,) = told["domains"]
        bounds = [part[key] for key in ("least", "initial", "most", "promised", "ways")]
        self.assertEqual([2, 3, 8, 0, 3], bounds)
        self.assertEqual(["cache domain 0 has 3 ways idle"], told["why_not_more"][-1:])

    def test_the_bounds(self):
        """The least ways are told where they differ from the most."""
        for ways, said in (((1, 3, 3), "may have 1 to 3 ways"), ((3, 3, 3), "may have 3 ways")):
            page = account.page(self.tell({"ways": WayRequest(*ways)}), stories.NIGHT + 9)
            self.assertIn(said, page)

    def test_who_has_left(self):
        """The masks of now are not those of a guest that is no longer there."""
        self.assertTrue(self.tell().here)
        told = self.tell(gone=True)
        self.assertFalse(told.here)
        self.assertIsNone(told.parts[0].mask)
        # Of its last iteration, and not when its inventory was stored.
        self.assertEqual(stories.NIGHT + 4, told.seen_s)

    def test_an_agent_that_only_observes(self):
        """A guest has no ways that are decided and not written."""
        self.assertIn("  has 3 ways 0x1c", account.page(self.tell(), stories.NIGHT + 9))
        page = account.page(self.tell(written=False), stories.NIGHT + 9)
        self.assertIn("           would have 3 ways 0x1c; not written\n", page)
        self.assertNotIn("  has 3 ways", page)

    def test_iterations_that_moved_nothing(self):
        """The last one, and the last decision where it says why."""
        for changes, expected in (
            ({}, [5, 4]),
            ({"told": False}, [5]),
            ({"burst": None}, [5]),
            ({"burst": 5}, [5]),
        ):
            with self.subTest(changes):
                (part,) = self.tell(**changes).parts
                found = [one.iteration.decision.iteration for one in part.quiet]
                self.assertEqual(expected, found)

    def test_a_weight(self):
        """It is told where the class has one."""
        for weight, said in ((1.0, False), (2.0, True)):
            page = account.page(self.tell({"weight": weight}), stories.NIGHT + 9)
            self.assertEqual(said, "weight 2 (its class's, for the default strategy)" in page)

    def test_a_limit_of_bandwidth(self):
        """It is told where there is one, with the least that the policy leaves."""
        for limit, said in ((None, False), (60, True)):
            page = account.page(self.tell({"bandwidth_min": 40}, limit=limit), stories.NIGHT + 9)
            text = "memory bandwidth limited to 60 %; the policy leaves it 40 % at least"
            self.assertEqual(said, text in page)

    def test_why_not_more(self):
        """Each cause is told, and what would end it."""
        held = WayRequest(3, 3, 3, held=True)
        for changes, status, why, remedy in (
            ({}, {}, "cache domain 0 has 3 ways idle", "llc_ways=4"),
            ({"ways": WayRequest(1, 3, 3)}, {}, "its maximum is 3 ways", "iat:llc_ways_max"),
            ({"ways": held}, {}, "an operator holds it at 3 ways", "iat-nova release pc1"),
            ({"priority": Priority.BE}, {}, "it is best effort", "iat:priority=PC"),
            ({}, {"parameters": Parameters(floor_references_per_s=1e6)}, "too few to count", None),
            ({}, {"mode": "observe", "reasons": (stories.REASON,)}, "only observes: because", None),
        ):
            told = self.tell(changes, **status)
            self.assertIn(why, " ".join(account.why_not_more(told)), why)
            self.assertIn(remedy or "", " ".join(account.what_would_help(told)), why)

    def test_two_cache_domains(self):
        """What is said of one alone names it."""
        told = self.tell()
        (part,) = told.parts
        there = part.seen.inventory
        other = dataclasses.replace(there, domain=dataclasses.replace(there.domain, id=1))
        seen = dataclasses.replace(part.seen, inventory=other)
        both = dataclasses.replace(
            told, parts=(part, dataclasses.replace(part, seen=seen, refused=None))
        )
        why = account.why_not_more(both)
        self.assertRegex(why[0], "^domain 0: 2026-11-21 .*: refuse: no idle way$")
        self.assertIn("900 k/s LLC misses, 7.5% of its references", why)
        self.assertIn("cache domain 0 has 3 ways idle", why)
        self.assertIn("cache domain 1 has 3 ways idle", why)
        self.assertEqual(account.what_would_help(told), account.what_would_help(both))

    def test_a_class_for_two_tenants(self):
        """Where classes are scarce a strategy that counts ways by tenant still gives and takes."""
        told = self.tell({"priority": Priority.BE}, masks=(0x3, 0xFC, 0xFC), joined=True)
        why = account.why_not_more(told)
        self.assertIn("it shares ways with be1", why)
        self.assertIn("it is best effort: it gives ways to performance-critical guests", why)
        self.assertIn("starts with 3", account.page(told, stories.NIGHT + 9))

    def test_ways_that_all_may_fill(self):
        """Where masks overlap nobody gives ways; who fills the same ones is named, and no other."""
        told = self.tell(masks=(0x7FF, 0x1FF, 0x600))
        why, helps = account.why_not_more(told), account.what_would_help(told)
        self.assertIn("it shares ways with vswitch", why)
        self.assertNotIn("could give", " ".join(why))
        self.assertIn("iat:llc_ways=N in flavor", " ".join(helps))
        self.assertNotIn("there are more than ways", " ".join(helps))
        promised = self.tell({"ways": WayRequest(2, 2, 9, 2)}, masks=(0x7FF, 0x1FF, 0x600))
        (help_, *_) = account.what_would_help(promised)
        self.assertIn("more than iat:llc_ways=2 in flavor nfv.large", help_)
        self.assertNotIn("starts with", account.page(told, stories.NIGHT + 9))
        all_ways = self.tell(masks=(0x7FF, 0x7FF, 0x7FF))
        self.assertNotIn("starts with", account.page(all_ways, stories.NIGHT + 9))
        decided = self.tell(masks=(0x7FF, 0x7FF, 0x7FF), written=False)
        has, *more = account.why_not_more(decided)
        self.assertEqual("it has all 11 ways", has)
        self.assertTrue(all(one.startswith("it shares ways with") for one in more), more)
        everything = self.tell(masks=(0x7FF, 0x7FF, 0x600))
        self.assertIn("it shares ways with vswitch, be1", account.why_not_more(everything))
        self.assertNotIn("--ways 12", " ".join(account.what_would_help(everything)))

    def test_without_counters(self):
        """What could not be measured is said, and is not taken for no demand."""
        self.assertIn("could not be read", " ".join(account.why_not_more(self.tell(counted=False))))

    def test_what_would_help_would_be_taken(self):
        """A hold that is proposed fits; one that does not says why."""
        self.assertIn(
            "iat-nova hold pc1 --ways 4 --for", " ".join(account.what_would_help(self.tell()))
        )
        ways = WayRequest(3, 3, 9, 3)
        first = stories.inventory().tenants[0]
        with self.subTest("the switch has all others"):
            patched = dataclasses.replace(first, ways=WayRequest(7, 7, 8))
            self.addCleanup(setattr, stories, "inventory", stories.inventory)
            whole = stories.inventory()
            stories.inventory = lambda name="be1": dataclasses.replace(
                whole, tenants=(patched, *whole.tenants[1:])
            )
            helps = " ".join(account.what_would_help(self.tell({"ways": ways})))
            self.assertIn("no hold at 4: cache domain 0 has 11 ways", helps)
