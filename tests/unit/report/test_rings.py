# SPDX-License-Identifier: Apache-2.0
"""Whether rings leak, by counters, and whether they may shrink."""

import dataclasses
import unittest
from unittest import mock

from iat_nova.model import Parameters, Sample, WayMask
from iat_nova.report import rings
from iat_nova.report.rings import Verdict
from tests.unit.report import test_advice as known

LOW = 1e6


def samples(*inbound, missed=0.5):
    return [
        Sample(0, float(number), 1.0, {}, ddio_hits_per_s=(1 - missed) * rate,
               ddio_misses_per_s=missed * rate)
        for number, rate in enumerate(inbound)
    ]  # fmt: skip


class Verdicts(unittest.TestCase):
    """Each verdict, its sentence, and whether smaller rings are advised."""

    def find(self, counted, ports=(known.PORT,), drops_per_s=None):
        return rings.find(known.advise(known.facts(ports)), counted, drops_per_s, LOW)

    def test_buffers_that_fit(self):
        """Misses of other devices do not count against rings that fit."""
        small = dataclasses.replace(known.PORT, rx_descriptors=64)
        found = self.find(samples(1e8), [small])
        self.assertIs(Verdict.FIT, found.verdict)
        self.assertIsNone(rings.told(found))
        self.assertIsNone(rings.short(found))

    def test_leak(self):
        """The sentence has the share and names the largest ring."""
        small = dataclasses.replace(known.PORT, name="dpdk1", rx_descriptors=64)
        found = self.find(samples(4e7, 6e7), [small, known.PORT])
        self.assertIs(Verdict.LEAK, found.verdict)
        self.assertTrue(found.verdict.may_shrink)
        self.assertEqual((5e7, 2.5e7), (found.inbound_lines_per_s, found.missed_lines_per_s))
        self.assertEqual(
            "Counted over 2.0 s: 25.0 M/s of 50.0 M/s lines that devices write miss (50%), lines "
            "of disks included. The largest ring is that of dpdk0 (Open vSwitch).",
            rings.told(found),
        )
        self.assertIn("50% of the lines that devices wrote in the last 2.0 s", rings.short(found))
        self.assertEqual("50%", rings.tiles(found)[0][0])

    def test_too_large_and_idle(self):
        """Rings that could leak do not at a light load: leave them."""
        found = self.find(samples(5e7, missed=0.01))
        self.assertIs(Verdict.FEW_MISSES, found.verdict)
        self.assertFalse(found.verdict.may_shrink)
        self.assertIn("Leave the rings as they are", rings.told(found))
        self.assertIsNone(rings.short(found))

    def test_bursts_need_the_ring(self):
        """The mean hides bursts: no smaller ring."""
        found = self.find(samples(1e7, 1e7, 6e7, 1e7))
        self.assertIs(Verdict.LEAK_IN_BURSTS, found.verdict)
        self.assertFalse(found.verdict.may_shrink)
        self.assertIn("bursts of 60.0 M/s lines. Do not shrink", rings.told(found))

    def test_how_high_a_burst_is(self):
        """A burst has one and a half times the mean."""
        for burst, expected in ((1.4e7, Verdict.LEAK), (2e7, Verdict.LEAK_IN_BURSTS)):
            found = self.find(samples(1e7, 1e7, burst, 1e7))
            self.assertIs(expected, found.verdict)

    def test_a_short_burst_in_an_idle_minute(self):
        """The mean of its misses is below the threshold."""
        counted = [*samples(*[1e3] * 40), *samples(3e7), *samples(*[1e3] * 19)]
        self.assertIs(Verdict.LEAK_IN_BURSTS, self.find(counted).verdict)

    def test_a_load_that_has_begun_or_ended_is_no_burst(self):
        """A burst has less load before and after it."""
        for rates in ([0.0] * 40 + [5e7] * 20, [5e7] * 20 + [0.0] * 40):
            self.assertIs(Verdict.LEAK, self.find(samples(*rates)).verdict)

    def test_intervals_weigh(self):
        """A long sample counts more than a short one."""
        long, short = samples(4e7, 1e7)
        found = self.find([dataclasses.replace(long, interval_s=3.0), short])
        self.assertEqual((4.0, 3.25e7), (found.over_s, found.inbound_lines_per_s))

    def test_whose_drops(self):
        """Drops of other ports, and a packet now and then, say nothing of these rings."""
        other = dataclasses.replace(known.PORT, name="vhu1", type="dpdkvhostuser", drops=9)
        for mine, rate, expected in ((None, 50.0, None), (7, 0.5, None), (7, 1.0, 1.0)):
            facts = known.facts([dataclasses.replace(known.PORT, drops=mine), other])
            switch = dataclasses.replace(facts.switch, drops_per_s=rate)
            facts = dataclasses.replace(facts, switch=switch)
            self.assertEqual(expected, rings.dropped_per_s(facts, known.advise(facts)))

    def test_a_long_name_is_cut(self):
        """Guests choose their names."""
        found = self.find(samples(5e7))
        largest = dataclasses.replace(found.largest, owner="abcdefghij" * 4)
        told = rings.told(dataclasses.replace(found, largest=largest))
        self.assertIn("dpdk0 (abcdefghijabcde…ghijabcdefghij).", told)

    def test_drops(self):
        """A ring that overflows already must not shrink."""
        found = self.find(samples(5e7), drops_per_s=1200.0)
        self.assertIs(Verdict.LEAK_WITH_DROPS, found.verdict)
        self.assertFalse(found.verdict.may_shrink)
        self.assertIn("drops 1200 packets a second", rings.told(found))

    def test_not_counted(self):
        """AMD counts lines that devices wrote, without hits."""
        found = self.find([Sample(0, 1.0, 1.0, {}, ddio_writes_per_s=5e7)])
        self.assertIs(Verdict.NOT_COUNTED, found.verdict)
        self.assertIn("a leak would not be seen", rings.told(found))

    def test_no_sample(self):
        """Before the first iteration nothing is counted."""
        self.assertIs(Verdict.NOT_COUNTED, self.find([]).verdict)


class Records(unittest.TestCase):
    """Which samples of the history are read."""

    def read(self, interval_s=1.0, latest=True):
        """Return what is read, and the times between which it is."""
        (one,) = samples(5e7)
        sample = dataclasses.replace(one, interval_s=interval_s)
        row = mock.Mock(iteration=mock.Mock(wall_s=5000.0, sample=sample))
        reader = mock.Mock()
        reader.latest.return_value = row if latest else None
        reader.between.return_value = [row]
        found = rings.read(reader, 3)
        return found, reader.between.call_args

    def test_the_last_minute(self):
        """Long intervals need longer: ten of them."""
        for interval_s, begin_s in ((1.0, 4940.0), (6.0, 4940.0), (10.0, 4900.0)):
            found, asked = self.read(interval_s)
            self.assertEqual([interval_s], [one.interval_s for one in found])
            self.assertEqual(mock.call(begin_s, 5000.0, 3, at_most=120), asked)

    def test_nothing_is_recorded(self):
        """There is nothing to ask for."""
        self.assertEqual(([], None), self.read(latest=False))

    def test_rings_that_fit_need_no_samples(self):
        """Counters are read only where rings are too large; of ways of unknown size none."""
        for descriptors, read in ((64, 0), (2048, 1)):
            reader = mock.Mock()
            reader.latest.return_value = None
            facts = known.facts([dataclasses.replace(known.PORT, rx_descriptors=descriptors)])
            found = rings.of_domain(reader, facts, known.DOMAIN, WayMask(0x600), Parameters())
            self.assertEqual(read, reader.latest.call_count)
            self.assertIs(Verdict.NOT_COUNTED if read else Verdict.FIT, found.verdict)
        unknown = dataclasses.replace(known.DOMAIN, way_bytes=None)
        self.assertIsNone(
            rings.of_domain(mock.Mock(), facts, unknown, WayMask(0x600), Parameters())
        )


class Bursts(unittest.TestCase):
    """The risk of a smaller ring."""

    def test_time_until_full(self):
        """25 Gb/s are 37.2 M shortest frames a second (84 bytes each on the wire)."""
        (ring,) = known.advise(known.facts([known.PORT])).rings
        self.assertAlmostEqual(2048 / 37.2, rings.full_after_us(ring, 2048), delta=0.05)
        self.assertIn("in 6.9 µs (now 55.1 µs)", rings.burst_words([ring], 256))

    def test_unknown_speed(self):
        """Without the card's speed there is no figure."""
        (ring,) = known.advise(known.facts([known.PORT])).rings
        ring = dataclasses.replace(ring, speed_gbps=None)
        self.assertEqual("short bursts may then be dropped", rings.burst_words([ring], 256))

    def test_the_ring_that_is_full_first(self):
        """The figures are of the ring that overflows first once it is small."""
        (slow,) = known.advise(known.facts([known.PORT])).rings
        fast = dataclasses.replace(slow, speed_gbps=100.0, descriptors=16384)
        self.assertIn("in 1.7 µs (now 110.1 µs)", rings.burst_words([slow, fast], 256))

    def test_rings_that_stay(self):
        """A ring that is small already says nothing."""
        (ring,) = known.advise(known.facts([known.PORT])).rings
        self.assertIn("dropped", rings.burst_words([ring], ring.descriptors))
