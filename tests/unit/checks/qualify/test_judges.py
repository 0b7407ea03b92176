# SPDX-License-Identifier: Apache-2.0
"""What the tests of a host say of good, bad and noisy hardware: rows in, a verdict out."""

import contextlib
import dataclasses
import random
import unittest
from unittest import mock

from iat_nova.checks.qualify import bandwidth, ddio, mask, port, slices, write_time
from iat_nova.checks.qualify.api import Bench, Unavailable, Verdict
from iat_nova.checks.qualify.run import TESTS, usual
from iat_nova.experiments.times import fake
from iat_nova.hardware.api import Counts, DomainCounts
from iat_nova.model import BandwidthControl, DevicePort, WayMask, message
from iat_nova.report import sentences
from tests.qualify_sample import counted, obeys, streams, stretches, walks

DISK = "0000:5e:00.0"
PASS, FAIL, INCONCLUSIVE = Verdict.PASS, Verdict.FAIL, Verdict.INCONCLUSIVE


def codes(judged):
    """Return the codes of a judgement: of what was seen, what it means, and the remedy."""
    return judged.says.code, judged.means.code, judged.remedy and judged.remedy.code


class Mask(unittest.TestCase):
    """Does a mask limit misses?"""

    def test_good(self):
        """Arrays miss where they outgrow their class."""
        judged = mask.judge(walks(obeys))
        self.assertEqual(PASS, judged.verdict, judged)
        self.assertEqual(("mask-misses", "masks-isolate", None), codes(judged))
        self.assertEqual((2, 11), (judged.says.values["few"], judged.says.values["many"]))

    def test_good_with_some_noise(self):
        """Some misses more or less change nothing."""
        dice = random.Random(1)
        rows = walks(lambda w, s: min(1.0, max(0.0, obeys(w, s) + dice.uniform(-0.08, 0.08))))
        self.assertEqual(PASS, mask.judge(rows).verdict)

    def test_a_mask_without_effect(self):
        """Every class hits as if it had all ways."""
        judged = mask.judge(walks(lambda w, s: obeys(11, s)))
        self.assertEqual(FAIL, judged.verdict, judged)
        self.assertEqual(
            ("mask-changes-nothing", "masks-without-effect", "see-bios-and-report"), codes(judged)
        )

    def test_a_neighbour_that_fills_the_cache(self):
        """Even what fits misses: no judgement, whether the classes differ or not."""
        for noise in (lambda w, s: 0.6, lambda w, s: max(obeys(w, s), 0.27)):
            self.assertEqual(INCONCLUSIVE, mask.judge(walks(noise)).verdict)

    def test_a_weak_effect(self):
        """A difference that is there and is too small proves nothing."""
        judged = mask.judge(walks(lambda w, s: 0.2 * obeys(w, s)))
        self.assertEqual(INCONCLUSIVE, judged.verdict)

    def test_more_ways_that_miss_more(self):
        """A class in between that misses clearly more than the smallest is no order."""
        judged = mask.judge(walks(lambda w, s: 0.95 if (w, s) == (8, 6) else obeys(w, s)))
        self.assertEqual(INCONCLUSIVE, judged.verdict)

    def test_too_few_ways(self):
        """Two classes with no array between them."""
        self.assertEqual(INCONCLUSIVE, mask.judge(walks(obeys, ways=(2, 3))).verdict)


class Ddio(unittest.TestCase):
    """Do DDIO's ways change hits and misses?"""

    def test_good(self):
        """More ways, fewer misses, each time."""
        judged = ddio.judge(stretches(0.5, 0.05, 0.52, 0.04, 0.49, 0.06))
        self.assertEqual(PASS, judged.verdict, judged)

    def test_ways_without_effect(self):
        """The same misses whatever the register says."""
        judged = ddio.judge(stretches(0.5, 0.5, 0.505, 0.495, 0.5, 0.502))
        self.assertEqual(FAIL, judged.verdict, judged)
        self.assertEqual(
            ("ddio-changes-nothing", "ddio-without-effect", "leave-ddio-alone"), codes(judged)
        )

    def test_no_effect_on_buffers_of_other_programs(self):
        """Their buffers may exceed what any number of ways holds: nothing is proven."""
        judged = ddio.judge(stretches(0.5, 0.5, 0.505, 0.495, 0.5, 0.502, ours=False))
        self.assertEqual(INCONCLUSIVE, judged.verdict, judged)
        self.assertEqual(
            ("ddio-buffers-unknown", "ddio-undecided", "name-nvme-disk"), codes(judged)
        )
        judged = ddio.judge(stretches(0.5, 0.05, 0.52, 0.04, 0.49, 0.06, ours=False))
        self.assertEqual(PASS, judged.verdict, judged)

    def test_a_register_that_keeps_its_value(self):
        """What is read back is not what was asked for."""
        judged = ddio.judge(stretches(0.5, 0.5, 0.5, 0.5, 0.5, 0.5, reads=lambda asked: 2))
        self.assertEqual(FAIL, judged.verdict)
        self.assertEqual(message("ddio-register-keeps", asked=6, ways=2), judged.says)

    def test_traffic_that_changes(self):
        """Other traffic explains other misses."""
        judged = ddio.judge(stretches(0.5, 0.05, 0.5, 0.05, lines=[10e6, 4e6, 10e6, 4e6]))
        self.assertEqual(INCONCLUSIVE, judged.verdict)
        self.assertEqual("ddio-traffic-changed", judged.says.code)
        self.assertAlmostEqual(4e6, judged.says.values["least_per_s"])
        self.assertAlmostEqual(10e6, judged.says.values["most_per_s"])

    def test_nothing_to_gain(self):
        """Buffers that fit already, and those that are never met again."""
        for shares in ((0.01, 0.0, 0.02, 0.0), (0.99, 0.98, 0.99, 0.98)):
            self.assertEqual(INCONCLUSIVE, ddio.judge(stretches(*shares)).verdict)

    def test_noise(self):
        """A mean that fell and stretches that overlap."""
        judged = ddio.judge(stretches(0.5, 0.3, 0.31, 0.45, 0.55, 0.3))
        self.assertEqual(INCONCLUSIVE, judged.verdict)

    def test_the_wrong_way(self):
        """More misses with more ways is no success."""
        judged = ddio.judge(stretches(0.3, 0.5, 0.3, 0.5))
        self.assertEqual(INCONCLUSIVE, judged.verdict)


class Port(unittest.TestCase):
    """Do a port's ways change its hits and misses?"""

    def test_as_of_ddio(self):
        """The same figures decide; what they mean is said of ports."""
        for shares, verdict, means, remedy in (
            ((0.5, 0.05, 0.52, 0.04), PASS, "port-follows", None),
            ((0.5, 0.5, 0.505, 0.495), FAIL, "port-without-effect", "leave-ports-alone"),
            ((0.01, 0, 0.02, 0), INCONCLUSIVE, "port-undecided", "use-faster-disk-or-traffic"),
        ):
            with self.subTest(means):
                judged = port.judge(stretches(*shares))
                self.assertEqual(verdict, judged.verdict)
                self.assertEqual((means, remedy), codes(judged)[1:])
        judged = port.judge(stretches(0.5, 0.5, reads=lambda asked: 2))
        self.assertEqual((FAIL, "port-without-effect"), (judged.verdict, judged.means.code))

    def test_only_with_io_rdt(self):
        """Without it no host fails for want of it."""
        self.assertEqual({"port"}, {one.name for one in TESTS.values()} - {
            one.name for one in usual(ports=False)
        })  # fmt: skip
        self.assertEqual(tuple(TESTS.values()), usual(ports=True))

    def bench(self, host, **given):
        nothing = dict.fromkeys(field.name for field in dataclasses.fields(Bench))
        return Bench(**{**nothing, **host.bench(), **given})

    def test_the_port_of_the_disk_moves_alone(self):
        """Below DDIO's two ways, in turn; ports and DDIO's ways are as found at the end."""
        host = PortHost()
        rows = port.measure(self.bench(host), lambda step: None)
        self.assertEqual([2, 6] * 3, [row.ways for row in rows])
        self.assertEqual([DISK], list(dict.fromkeys(host.placed_ports)))
        self.assertEqual([0x180, 0x1F8] * 3, host.placed_masks)
        self.assertEqual([0x600, 0x780], host.ddio_masks)
        self.assertEqual({}, host.ways)
        self.assertEqual(PASS, port.judge(rows).verdict)

    def test_restored_after_an_error(self):
        """Counters that stop end the test."""
        host = PortHost(stops=True)
        with self.assertRaisesRegex(Unavailable, "ddio-counters-stopped"):
            port.measure(self.bench(host), lambda step: None)
        self.assertEqual(({}, 0x780), (host.ways, host.ddio_masks[-1]))

    def test_not_possible(self):
        """Without classes of ports, and with a disk behind none of them."""
        for host, given, why in (
            (PortHost(), {"port_ways": None}, "ports-not-placed"),
            (PortHost(devices=()), {}, "port-of-disk-unknown"),
        ):
            with self.subTest(why), self.assertRaisesRegex(Unavailable, why):
                port.measure(self.bench(host, **given), lambda step: None)
            self.assertEqual([], host.ddio_masks)

    def test_not_counted(self):
        """The reason is that of the choice of counters, here and in the test of DDIO."""
        host = PortHost()
        host.domain = dataclasses.replace(host.domain, ddio_counters=False)
        bench = self.bench(host, ddio_counted=message("cha-absent"))
        for test in (port, ddio):
            with self.subTest(test.__name__), self.assertRaises(Unavailable) as refused:
                test.measure(bench, lambda step: None)
            self.assertEqual(
                "hits and misses of devices, which the test needs, are not counted: no uncore_cha "
                "PMU: the kernel counts no hits and misses of DDIO",
                sentences.text(refused.exception.message),
            )


class PortHost:
    """A host whose disk misses less with more ways of its port; DDIO was found with 4 ways."""

    ours = True

    def __init__(self, devices=("0000:5d:00.0", "0000:5e:00.0"), *, stops=False):
        self.devices, self.stops = devices, stops
        self.domain = dataclasses.replace(
            fake.SKYLAKE,
            device_ports=(DevicePort("0000:3b:00.0", ("0000:3b:00.0",)), DevicePort(DISK, (DISK,))),
        )
        self.ways, self.placed_ports, self.placed_masks, self.ddio_masks = {}, [], [], []
        self.now_s, self.hits, self.misses = 0.0, 0.0, 0.0

    def bench(self):
        counters = mock.Mock(watch=lambda cpus: None, read=self.count)
        ddio_ways = mock.Mock(read=lambda domain: WayMask(0x780), write=self.write)
        return {
            "domain": self.domain, "domains": (self.domain,), "cpus": (1, 2), "clusters": 1,
            "counters": counters, "ddio": ddio_ways, "clock": mock.Mock(wait=self.wait),
            "inbound": self, "port_ways": self,
        }  # fmt: skip

    @contextlib.contextmanager
    def flowing(self, cpu, footprint):
        yield

    def write(self, domain, mask):
        self.ddio_masks.append(mask)
        return mask

    def place(self, domain, groups):
        self.ways = {one: group.mask for group in groups for one in group.ports}
        self.placed_ports += self.ways
        self.placed_masks += self.ways.values()
        return self.ways

    def wait(self, wake, seconds):
        share = 0.5 if self.ways[DISK].count == 2 else 0.1
        self.now_s += seconds
        self.misses += 1e7 * seconds * share
        self.hits += 1e7 * seconds * (1 - share)

    def count(self):
        domains = {} if self.stops else {0: DomainCounts(int(self.hits), int(self.misses), 0)}
        return Counts(self.now_s, {}, domains)


class Slices(unittest.TestCase):
    """Do the slices agree?"""

    def test_good(self):
        """All within some per cent."""
        rows = counted(*(1_000_000 + 5_000 * (n % 7) for n in range(18)))
        self.assertEqual(PASS, slices.judge(rows).verdict)

    def test_one_that_differs(self):
        """One slice would mislead; the remedy counts all."""
        judged = slices.judge(counted(*[1_000_000] * 17, 700_000))
        self.assertEqual(FAIL, judged.verdict)
        self.assertEqual(
            ("slice-farthest", "one-slice-misleads", "count-all-slices"), codes(judged)
        )
        self.assertEqual((18, 17), (judged.says.values["slices"], judged.says.values["slice"]))

    def test_clusters(self):
        """With sub-NUMA clustering slices agree with those of their cluster; one may be idle."""
        self.assertEqual(FAIL, slices.judge(counted(*[900_000] * 9, *[10] * 9)).verdict)
        judged = slices.judge(counted(*[900_000] * 9, *[10] * 9, clusters=2))
        self.assertEqual(PASS, judged.verdict)

    def test_too_little(self):
        """A hundred lines prove nothing, and no line divides by nothing."""
        self.assertEqual(INCONCLUSIVE, slices.judge(counted(*[100] * 18)).verdict)
        self.assertEqual(INCONCLUSIVE, slices.judge(counted(*[0] * 18)).verdict)


class Bandwidth(unittest.TestCase):
    """Does a limit throttle?"""

    def test_verdicts(self):
        """Good, without effect, drifting by itself, and hardly any effect."""
        for rates, verdict in (
            ((12.0, 7.0, 1.5, 11.8), PASS),
            ((12.0, 12.1, 11.9, 12.0), FAIL),
            ((12.0, 7.0, 1.5, 6.0), INCONCLUSIVE),
            ((12.0, 11.5, 10.9, 12.0), INCONCLUSIVE),
            ((0.0, 0.0, 0.0, 0.0), INCONCLUSIVE),
        ):
            with self.subTest(rates):
                self.assertEqual(verdict, bandwidth.judge(streams(*rates)).verdict)

    def test_in_gbps(self):
        """What all CPUs of a cache domain move is what to set; of some it is said to ask all."""
        alone = [
            bandwidth.TrafficRow(limit, False, rate * 1e9)
            for limit, rate in ((2048, 20), (8, 1), (4, 0.5), (2048, 20))
        ]
        for more, means in (
            ((), message("limits-throttle")),
            ((16, True), message("limits-throttle-whole", cpus=16, gbps=47.56)),
            ((2, False), message("limits-throttle-part", cpus=2, gbps=47.56)),
        ):
            rows = alone + ([bandwidth.TrafficRow(2048, False, 47.56e9, *more)] if more else [])
            judged = bandwidth.judge(rows)
            self.assertEqual(PASS, judged.verdict)
            self.assertEqual(means, judged.means)
            said = judged.says.values
            self.assertEqual(message("limit-in-gbps", limit_gbps=0.5), said["limit"])
            self.assertEqual(0.5e9, said["limited_bytes_per_s"])
            self.assertEqual(bandwidth.chart(alone), bandwidth.chart(rows))

    def test_what_is_measured(self):
        """On AMD also what the CPUs move together, without a limit; no class is left."""
        amd = BandwidthControl(1, 1, 2048, percent=False)
        percent = BandwidthControl(10, 10, 100, percent=True)
        for control, cpus, limits, together in (
            (amd, fake.SKYLAKE.cpus, (2048, 8, 4, 2048), (fake.SKYLAKE.cpus, True)),
            (amd, (3, 4), (2048, 8, 4, 2048), ((3, 4), False)),
            (amd, (3,), (2048, 8, 4, 2048), None),
            (percent, (3, 4), (100, 50, 10, 100), None),
        ):
            domain = dataclasses.replace(fake.SKYLAKE, bandwidth=control)
            allocator = fake.FakeAllocator((domain,))
            streamed = []

            def stream(cpus, allocator=allocator, streamed=streamed):
                streamed.append((cpus, allocator.bandwidth(0)["qualify"]))
                return len(cpus) * 1e9

            nothing = dict.fromkeys(field.name for field in dataclasses.fields(Bench))
            given = {"domain": domain, "cpus": cpus, "allocator": allocator, "streams": stream}
            rows = bandwidth.measure(Bench(**{**nothing, **given}), lambda step: None)
            one = [(cpus[:1], limit) for limit in limits]
            self.assertEqual(one + ([(together[0], 2048)] if together else []), streamed)
            if together:
                *rows, last = rows
                every = len(cpus), together[1]
                self.assertEqual(bandwidth.TrafficRow(2048, False, len(cpus) * 1e9, *every), last)
            self.assertEqual([(limit, 1) for limit in limits], [(r.limit, r.cpus) for r in rows])
            self.assertEqual({}, allocator.effective(0))


class WriteTime(unittest.TestCase):
    """How long does a write take?"""

    def test_verdicts(self):
        """By the slower of the two kinds' medians; one slow write changes nothing."""
        for masks_s, ddio_s, verdict in (
            (0.0002, 0.0001, PASS),
            (0.0002, 0.03, INCONCLUSIVE),
            (0.3, 0.0001, FAIL),
        ):
            rows = [write_time.WriteRow("mask", masks_s)] * 20 + [
                write_time.WriteRow("DDIO", ddio_s)
            ] * 20
            with self.subTest(masks_s=masks_s, ddio_s=ddio_s):
                self.assertEqual(verdict, write_time.judge([*rows, rows[0]]).verdict)
        rows = [write_time.WriteRow("mask", 0.0002)] * 20 + [write_time.WriteRow("mask", 0.5)]
        judged = write_time.judge(rows)
        self.assertEqual(PASS, judged.verdict)
        self.assertEqual(500.0, judged.says.values["slowest_ms"])


class Charts(unittest.TestCase):
    """Each test draws what it measured."""

    def test_points(self):
        """Every row is in a curve, at a place the axis has."""
        for name, rows, lines, points in (
            ("mask", walks(obeys), 4, 36),
            ("ddio", stretches(0.5, 0.1, 0.5, 0.1), 1, 4),
            ("port", stretches(0.5, 0.1, 0.5, 0.1), 1, 4),
            ("slices", counted(*[5] * 60), 1, 60),
            ("bandwidth", streams(12, 7, 2, 12), 1, 3),
            (
                "write-time",
                [write_time.WriteRow("mask", 0.1), write_time.WriteRow("DDIO", 0.2)],
                2,
                2,
            ),
        ):
            chart = TESTS[name].chart(rows)
            with self.subTest(name):
                self.assertEqual(lines, len(chart.lines))
                self.assertEqual(points, sum(len(points) for _, points in chart.lines))
                self.assertTrue(chart.ticks)
