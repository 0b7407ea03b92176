# SPDX-License-Identifier: Apache-2.0
"""Which guests move: those that bring the most, to hosts with room, and only where it pays."""

import dataclasses
import unittest

from iat_nova.watcher import words
from iat_nova.watcher.choice import Limits, choose
from iat_nova.watcher.hosts import Domain, Fixed, Free, Guest, Host, Reading, Unusable

LIMITS = Limits(threshold=0.1)
ROOM = Free(vcpus=32, pcpus=0, memory_mb=65536, disk_gb=500)


def db(name="db", stalled=0.2, fills=0.3, loss=0.18, **more) -> Guest:
    """A critical guest that is short."""
    readings = {0: Reading(stalled, fills, loss)}
    return Guest(name, name, 4, 8192, 20, True, readings=readings, **more)


def batch(name="batch", fills=0.4, memory_mb=4096, **more) -> Guest:
    return Guest(name, name, 4, memory_mb, 20, False, readings={0: Reading(0.3, fills)}, **more)


def host(name, *guests, exhausted=True, finds=0.3, **more) -> Host:
    domains = {0: Domain(exhausted, 11, {True: finds, False: finds})}
    return Host(name, guests, **{"free": ROOM, "domains": domains, **more})


class ChoiceTest(unittest.TestCase):
    def choose(self, *hosts, limits=LIMITS):
        return choose(hosts, limits)

    def moves(self, *hosts, limits=LIMITS):
        chosen = self.choose(*hosts, limits=limits)
        return [(one.guest.name, one.source, one.destination) for one in chosen.moves]

    def code(self, *hosts, limits=LIMITS):
        """Return why the only short domain stays as it is."""
        chosen = self.choose(*hosts, limits=limits)
        self.assertEqual((), chosen.moves)
        (left,) = chosen.left
        self.assertIn(left.code, words.LEFT)
        return left.code

    def test_the_polluter_moves_to_the_host_with_room(self) -> None:
        crowded = host("c1", db(), batch(), batch("small", fills=0.05))
        hosts = (crowded, host("c2", finds=0.2), host("c3", finds=0.5))
        self.assertEqual([("batch", "c1", "c3")], self.moves(*hosts))
        chosen = self.choose(*hosts)
        self.assertEqual((1, 0), (chosen.short_before, chosen.short_after))
        (relief,) = chosen.moves[0].relieved
        self.assertEqual(("db", 0.18), (relief.guest, relief.before))
        part = (0.3 / 0.6 - 0.3) / (1 - 0.3)  # of the way from its share now to the whole LLC
        self.assertAlmostEqual(0.2 * 0.1**part - 0.02, relief.after)
        self.assertIn("db 18% -> 8%", words.moved(chosen.moves[0]))

    def test_nothing_to_do(self) -> None:
        """A guest at the threshold, or whose loss is not known, is no reason for a migration."""
        for loss in (0.1, 0.0, None):
            chosen = self.choose(host("c1", db(loss=loss), batch()), host("c2"))
            self.assertEqual(((), (), 0), (chosen.moves, chosen.left, chosen.short_before))

    def test_a_guest_that_fills_nearly_the_whole_cache(self) -> None:
        """With a smaller share it is stalled all the time, and loses more than it may."""
        full = db("full", stalled=0.3, fills=0.999, loss=0.29)
        crowded, other = host("c1", db(), batch()), host("c2", full, finds=0.5)
        self.assertEqual([], self.moves(crowded, other))

    def test_the_fewest(self) -> None:
        """One large polluter goes rather than two small ones; no more than are needed."""
        guests = [db(), batch("a", 0.1), batch("b", 0.1), batch("big", 0.45)]
        self.assertEqual([("big", "c1", "c2")], self.moves(host("c1", *guests), host("c2")))
        guests = [db(), batch("a", 0.2), batch("b", 0.21), batch("c", 0.19)]
        moves = self.moves(host("c1", *guests), host("c2"), host("c3"))
        self.assertEqual(["b", "a"], [name for name, _, _ in moves])

    def test_what_lifts_nobody_is_not_moved(self) -> None:
        guests = [db(loss=0.3), batch("a", 0.1), batch("b", 0.1)]
        self.assertEqual("not-enough", self.code(host("c1", *guests), host("c2")))

    def test_the_move_that_brings_the_most(self) -> None:
        """A critical guest goes where that lifts more guests than any best-effort guest would."""
        guests = [db("db1", fills=0.4), db("db2", fills=0.4), batch("small", 0.1)]
        hosts = host("c1", *guests), host("c2", finds=0.6)
        (move,) = self.choose(*hosts).moves
        self.assertTrue(move.guest.critical)
        self.assertTrue(all(one.after <= 0.1 for one in move.relieved), move.relieved)
        name, left = move.passed
        self.assertEqual("small", name)
        self.assertTrue(0.1 < left < 0.18)
        self.assertIn(f"; moving small instead would leave {left:.0%}", words.moved(move))

    def test_best_effort_first_where_it_brings_as_much(self) -> None:
        """Of two moves that lift the same guests, the best-effort guest's is chosen."""
        guests = [db("db1", fills=0.3), db("db2", fills=0.3), batch("large", 0.4)]
        (move,) = self.choose(host("c1", *guests), host("c2", finds=0.6)).moves
        self.assertEqual(("large", None), (move.guest.name, move.passed))

    def test_a_move_that_lifts_a_guest_before_one_that_nearly_lifts_another(self) -> None:
        """With one move left, what lifts nobody is not chosen, however much it brings."""
        far = db("far", stalled=0.9, fills=0.1, loss=0.6, fixed=Fixed.RESOURCES)
        near = db("near", stalled=0.2, fills=0.2, loss=0.11)
        hosts = host("c1", far, near, batch("large", 0.05)), host("c2", finds=0.9)
        few = dataclasses.replace(LIMITS, most_moves=1)
        (move,) = self.choose(*hosts, limits=few).moves
        self.assertLessEqual(min(one.after for one in move.relieved), 0.1)

    def test_the_short_guest_itself(self) -> None:
        """A short guest moves where no best-effort guest can, and only if it is not short there."""
        alone = host("c1", db("db1"), db("db2", loss=0.05))
        self.assertEqual([("db1", "c1", "c2")], self.moves(alone, host("c2", finds=0.5)))
        worse = host("c2", finds=0.11)
        self.assertEqual("no-destination", self.code(alone, worse))
        small = batch("small", 0.01)
        few = dataclasses.replace(LIMITS, most_moves=1)
        hosts = host("c1", *alone.guests, small), host("c2", finds=0.5)
        self.assertEqual([("db1", "c1", "c2")], self.moves(*hosts, limits=few))
        fixed = host("c1", db("db1", fixed=Fixed.RESOURCES), db("db2", fills=0.1, loss=0.05))
        self.assertEqual("not-enough", self.code(fixed, host("c2", finds=0.5)))

    def test_who_stays(self) -> None:
        for fixed in Fixed:
            with self.subTest(fixed=fixed):
                stays = host("c1", db(fixed=fixed), batch(fixed=fixed))
                self.assertEqual("no-candidate", self.code(stays, host("c2")))

    def test_only_hosts_whose_agent_is_at_its_end(self) -> None:
        self.assertEqual("not-exhausted", self.code(host("c1", db(), batch(), exhausted=False)))
        self.assertEqual("not-said", self.code(host("c1", db(), batch(), exhausted=None)))
        for unusable in Unusable:
            refused = host("c1", db(), batch(), unusable=unusable)
            self.assertEqual(unusable.value, self.code(refused, host("c2")))
            unusable_there = host("c2", unusable=unusable)
            self.assertEqual(
                "no-destination",
                self.code(host("c1", db(fixed=Fixed.RESOURCES), batch()), unusable_there),
            )

    def test_destinations(self) -> None:
        """Room in the cache, CPUs, memory, disk, the same aggregates; nobody there gets short."""
        crowded = host("c1", db(fixed=Fixed.RESOURCES), batch())
        for why, there in {
            "ways": host("c2", finds=0.05),
            "aggregates": host("c2", groups=frozenset({"7"})),
            "vcpus": host("c2", free=dataclasses.replace(ROOM, vcpus=3)),
            "memory": host("c2", free=dataclasses.replace(ROOM, memory_mb=1024)),
            "disk": host("c2", free=dataclasses.replace(ROOM, disk_gb=10)),
            "short there": host("c2", db("other", loss=0.09)),
            "unknown there": host("c2", db("other", loss=None)),
            "no metrics": host("c2", domains={}),
        }.items():
            with self.subTest(why=why):
                self.assertEqual("no-destination", self.code(crowded, there))
        quiet = host("c2", db("other", stalled=0.0, fills=0.0, loss=0.0), finds=1.0)
        self.assertEqual([("batch", "c1", "c2")], self.moves(crowded, quiet))
        calm = host("c2", db("other", stalled=0.02, loss=0.01))
        self.assertEqual([("batch", "c1", "c2")], self.moves(crowded, calm))

    def test_dedicated_cpus_need_dedicated_cpus(self) -> None:
        crowded = host("c1", db(fixed=Fixed.RESOURCES), batch(pinned=True))
        self.assertEqual("no-destination", self.code(crowded, host("c2")))
        there = host("c2", free=dataclasses.replace(ROOM, vcpus=-8, pcpus=4))
        self.assertEqual([("batch", "c1", "c2")], self.moves(crowded, there))

    def test_a_plan_counts_its_own_moves(self) -> None:
        """Two guests do not both get the last CPUs, nor the same ways."""
        guests = [db(fixed=Fixed.RESOURCES), batch("a", 0.21), batch("b", 0.2)]
        tight = dataclasses.replace(ROOM, vcpus=4)
        two = (host("c2", free=tight), host("c3", free=tight, finds=0.2))
        destinations = {there for _, _, there in self.moves(host("c1", *guests), *two)}
        self.assertEqual({"c2", "c3"}, destinations)
        self.assertEqual("no-destination", self.code(host("c1", *guests), two[0]))
        roomy = (host("c2", finds=0.45), host("c3", finds=0.3))  # 0.45 * 0.55 is less than 0.3
        destinations = [there for _, _, there in self.moves(host("c1", *guests), *roomy)]
        self.assertEqual(["c2", "c3"], destinations)

    def test_at_most_so_many(self) -> None:
        hosts = [host(f"c{n}", db(f"db{n}", loss=0.15 + n / 100), batch(f"b{n}")) for n in range(3)]
        chosen = self.choose(*hosts, host("room"), host("room2"))
        self.assertEqual(["b2", "b1"], [one.guest.name for one in chosen.moves])
        self.assertEqual([("c0", "most-moves")], [(one.host, one.code) for one in chosen.left])
        self.assertEqual((3, 1), (chosen.short_before, chosen.short_after))

    def test_what_costs_more_than_it_brings(self) -> None:
        """A guest of 512 GB that is copied for longer than the others gain stays."""
        free = dataclasses.replace(ROOM, memory_mb=1 << 20)
        large = (host("c1", db(), batch(memory_mb=512 << 10)), host("c2", free=free))
        self.assertEqual("cost", self.code(*large, limits=dataclasses.replace(LIMITS, stay_s=60)))
        self.assertEqual(1, len(self.moves(*large, limits=dataclasses.replace(LIMITS, stay_s=1e5))))

    def test_a_second_audit_moves_nobody_back(self) -> None:
        """What a plan relieves is not short, and where its guests went nobody is."""
        crowded, room = host("c1", db(), batch()), host("c2", db("other", stalled=0.05, loss=0.01))
        (move,) = self.choose(crowded, room).moves
        after = move.relieved[0].after
        relieved = host("c1", db(loss=after, fills=0.5), finds=0.5)
        filled = host("c2", *room.guests, batch(fills=0.3))
        self.assertEqual([], self.moves(relieved, filled))


if __name__ == "__main__":
    unittest.main()
