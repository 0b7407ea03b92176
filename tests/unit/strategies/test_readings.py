# SPDX-License-Identifier: Apache-2.0
"""What counters say of a tenant: awake, its speed, its stalls, and whether its load is another."""

import dataclasses
import unittest

from iat_nova.model import Rates, Sample
from iat_nova.strategies import readings
from iat_nova.strategies.readings import Look
from tests.unit import frozen
from tests.unit.build import tenant


def sample(**changed):
    """A sample of one interval with nothing counted but what is given."""
    return Sample(**{"domain": 0, "taken_at_s": 1.0, "interval_s": 1.0, "tenants": {}, **changed})


class LookTest(unittest.TestCase):
    """Readings of a sample."""

    def test_speed(self):
        """A guest's speed is its instructions per cycle; that of one with I/O the unstalled share.

        A miss stalls for 100 cycles: 3 million of them take 300 of 1200 million cycles.
        """
        rates = Rates(2.4e9, 1.2e9, 8e6, 3e6)
        for io, speed in ((False, 2.0), (True, 0.75)):
            with self.subTest(io=io):
                found = readings.look((tenant("a", 1, io=io),), sample(tenants={"a": rates}))
                self.assertEqual({"a": Look(speed, 0.25, 3e6, 8e6, 2.0, 1.2e9)}, found)

    def test_who_has_a_reading(self):
        """Who was measured and is awake, by the cycles of its CPUs that count."""
        one, two = tenant("one", 1), tenant("two", 1, 2)
        for cycles, expected in (
            (0.0, set()),
            (1e7, set()),
            (1.001e7, {"one"}),
            (2e7, {"one"}),
            (2.001e7, {"one", "two"}),
        ):
            with self.subTest(cycles=cycles):
                rates = Rates(1e9, cycles, 1e6, 1e5)
                seen = sample(tenants={"one": rates, "two": rates, "gone": rates})
                self.assertEqual(expected, set(readings.look((one, two), seen)))
                self.assertEqual(rates if "one" in expected else None, readings.awake(one, seen))
        self.assertEqual({}, readings.look((one,), sample()))
        self.assertIsNone(readings.awake(one, sample()))

    def test_stalled(self):
        """A share of the cycles, at most 95 %."""
        for misses, cycles_each, expected in (
            (0.0, None, 0.0),
            (3e6, None, 0.3),
            (3e6, 50.0, 0.15),
            (9.4e6, None, 0.94),
            (9.6e6, None, 0.95),
            (9e9, None, 0.95),
        ):
            with self.subTest(misses=misses, cycles_each=cycles_each):
                rates = Rates(1e9, 1e9, 1e9, misses)
                each = () if cycles_each is None else (cycles_each,)
                self.assertAlmostEqual(expected, readings.stalled(rates, *each))

    def test_kinds(self):
        """Misses overlap from 94 % of the cycles on; above 0.4 misses a reference it streams."""
        for stalled, overlaps in ((0.93, False), (0.94, True), (0.95, True)):
            self.assertIs(overlaps, Look(1.0, stalled, 0.0, 0.0).overlaps)
        for misses, streams in ((0.0, False), (4e6, False), (4.1e6, True)):
            self.assertIs(streams, Look(1.0, 0.1, misses, 1e7).streams)
        self.assertIs(False, Look(1.0, 0.0, 0.0, 0.0).streams)

    def test_values(self):
        """Readings take no other attribute; the instructions may be unknown."""
        found = frozen.changeable(readings)
        self.assertEqual({"Best", "Look"}, {name.partition(".")[0] for name in found})
        self.assertFalse({"Best", "Look"} & set(found))
        self.assertEqual(0.0, Look(1.0, 0.0, 0.0, 0.0).ipc)


class InboundTest(unittest.TestCase):
    def test_lines(self):
        """The lines that missed; where hits are not counted apart, all that devices wrote."""
        for hits, misses, writes, expected in (
            (3.0, 2.0, None, 2.0),
            (3.0, 0.0, None, 0.0),
            (None, 2.0, 7.0, 2.0),
            (None, None, 7.0, 7.0),
            (None, None, None, 0.0),
        ):
            with self.subTest(hits=hits, misses=misses, writes=writes):
                seen = sample(
                    ddio_hits_per_s=hits, ddio_misses_per_s=misses, ddio_writes_per_s=writes
                )
                self.assertEqual(expected, readings.inbound(seen))


class ChangeTest(unittest.TestCase):
    def test_share(self):
        """A change is a share of the larger amount; above a quarter it is another load."""
        for was, now, share, another in (
            (0.0, 0.0, 0.0, False),
            (5.0, 5.0, 0.0, False),
            (0.0, 5.0, 1.0, True),
            (8.0, 6.0, 0.25, False),
            (6.0, 8.0, 0.25, False),
            (10.0, 7.0, 0.3, True),
            (7.0, 10.0, 0.3, True),
            (0.5, 0.25, 0.5, True),
        ):
            with self.subTest(was=was, now=now):
                self.assertAlmostEqual(share, readings.change(was, now))
                self.assertIs(another, readings.another(was, now))


class MeanTest(unittest.TestCase):
    def test_of_several(self):
        """The mean of all readings, taken one by one, of each quantity."""
        first, later = Look(1.0, 0.2, 3.0, 8.0, 2.0), Look(4.0, 0.5, 9.0, 2.0, 5.0)
        for count, expected in (
            (2, Look(2.5, 0.35, 6.0, 5.0, 3.5)),
            (3, Look(2.0, 0.3, 5.0, 6.0, 3.0)),
            (4, Look(1.75, 0.275, 4.5, 6.5, 2.75)),
        ):
            found = readings.mean({"a": first}, {"a": later}, count)
            self.assertEqual({"a"}, set(found))
            for field in dataclasses.fields(Look):
                name = field.name
                self.assertAlmostEqual(getattr(expected, name), getattr(found["a"], name), msg=name)

    def test_who_is_new_or_gone(self):
        """A tenant that was not read before has its reading; one that is not read now has none."""
        one, two = Look(1.0, 0.2, 3e6, 8e6, 2.0), Look(4.0, 0.5, 9e6, 2e6, 5.0)
        self.assertEqual({"b": two}, readings.mean({"a": one}, {"b": two}, 2))

    def test_unknown_instructions(self):
        """Where instructions were unknown they are those of the last reading."""
        before, new = Look(1.0, 0.0, 0.0, 0.0), Look(1.0, 0.0, 0.0, 0.0, 3.0)
        self.assertEqual(3.0, readings.further(before, new, 4).ipc)


class SpeedupTest(unittest.TestCase):
    def test_scaled(self):
        """A reading at a share of its speed has that share of its instructions, and all else."""
        found = readings.scaled(Look(2.0, 0.2, 3e6, 8e6, 4.0), 0.75)
        self.assertEqual(Look(1.5, 0.2, 3e6, 8e6, 3.0), found)

    def test_ratio(self):
        """Of speeds; instructions count for a poller at its limit, or that loses far from it."""
        for was, now, expected in (
            # speed, stalled, instructions per cycle, before and after
            ((2.0, 0.1, 0.0), (3.0, 0.1, 0.0), 1.5),  # unknown instructions
            ((2.0, 0.1, 1.0), (1.0, 0.1, 0.0), 0.5),
            ((2.0, 0.1, 0.0), (1.0, 0.1, 1.0), 0.5),
            ((0.0, 0.1, 0.0), (2.0, 0.1, 0.0), 1.0),  # no speed before
            ((0.06, 0.95, 1.0), (0.05, 0.95, 2.0), 2.0),  # at the limit before and after
            ((0.06, 0.95, 2.0), (0.5, 0.5, 1.0), 0.5 / 0.06),  # it leaves the limit
            ((0.06, 0.95, 2.0), (0.05, 0.95, 3.0), 1.5),
            ((0.5, 0.5, 2.0), (0.06, 0.95, 3.0), 0.06 / 0.5),  # it reaches the limit
            ((0.9, 0.1, 2.0), (0.95, 0.95, 1.0), 0.95 / 0.9),
            ((1.0, 0.1, 1.0), (1.2, 0.1, 0.5), 1.2),  # it gains
            ((1.0, 0.1, 1.0), (1.0, 0.1, 0.5), 1.0),
            ((1.0, 0.1, 1.0), (0.8, 0.2, 0.9), 0.9),  # it loses no more than its instructions
            ((1.0, 0.1, 1.0), (0.8, 0.2, 0.7), 0.8),
            ((1.0, 0.1, 1.0), (0.8, 0.2, 1.3), 1.0),
            ((1.0, 0.1, 1.0), (0.8, 0.5, 0.9), 0.9),
            ((1.0, 0.1, 1.0), (0.8, 0.51, 0.9), 0.8),  # near the limit rings fill
        ):
            with self.subTest(was=was, now=now):
                looks = [Look(one[0], one[1], 1e6, 1e7, one[2]) for one in (was, now)]
                self.assertAlmostEqual(expected, readings.speedup(*looks))
