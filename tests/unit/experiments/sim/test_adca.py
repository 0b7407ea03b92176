# SPDX-License-Identifier: Apache-2.0
"""ADCA's rules one by one, the machine it was built into, and its figures."""

import dataclasses
import unittest

from matplotlib.figure import Figure as Canvas

from iat_nova.experiments.engine import adaptive, cache
from iat_nova.experiments.machines import machine
from iat_nova.experiments.machines.machine import AdcaChoice, WriteTarget
from iat_nova.experiments.papers import adca, catalogue, claims, definition
from iat_nova.experiments.scenarios.reader import read_scenario
from iat_nova.model import WayMask

WAYS = 8
# One set of eight ways, which has a monitor; one core with an L2 of one line.
TINY = dataclasses.replace(
    machine.MACHINES["loongson-2k1000"],
    cores=1,
    l2_bytes=64,
    l2_ways=1,
    llc_ways=WAYS,
    llc_sets_per_slice=1,
    ddio_ways=WayMask(0xFF),
    io=WriteTarget.ADCA,
)


def monitors(choice, sets=1):
    """Return a monitor for each of a few sets."""
    return adaptive.make(choice, sets, WAYS, 64)


class TestShare(unittest.TestCase):
    """How many ways devices may take."""

    def test_what_the_cores_leave(self):
        """While a device's line waits a core hits at position 3 of 8: five ways are left."""
        a = monitors(AdcaChoice.NORMAL)
        for line in (1, 2, 3, 4):
            adaptive.core_used(a, 0, line)
        adaptive.core_used(a, 0, 1)  # at position 4, but nothing waits
        adaptive.device_wrote(a, 0, 90)
        self.assertEqual(WAYS, adaptive.left(a))
        adaptive.core_used(a, 0, 3)  # the stack is 1, 4, 3, 2
        adaptive.core_used(a, 0, 90)
        self.assertEqual(WAYS - 3, adaptive.left(a))

    def test_monitors_disagree(self):
        """Of shares 8, 5 and 2 the aggressive takes 8, the normal 5, the conservative 2."""
        for choice, left in zip(AdcaChoice, (8, 5, 2), strict=True):
            a = monitors(choice, 3)
            for index, depth in enumerate((0, 3, 6)):
                for line in range(6, 0, -1):
                    adaptive.core_used(a, index, line)  # line n is at position n
                adaptive.device_wrote(a, index, 90)
                if depth:
                    adaptive.core_used(a, index, depth)
                adaptive.core_used(a, index, 90)
            self.assertEqual(left, adaptive.left(a), choice)

    def test_writes_beyond_the_share_go_to_memory(self):
        """A set with as many device lines as devices may have takes no more, but updates them."""
        c = cache.make(TINY, 1)
        c.adaptive.numbers[adaptive.NUMBERS.left] = 2
        for line in (1, 2, 3):
            cache.dma_write(c, line, 0, 1)
        self.assertEqual(
            [2, 1], [c.totals[cache.TOTALS.ddio_misses], c.totals[cache.TOTALS.dma_memory_writes]]
        )
        cache.dma_write(c, 1, 0, 1)
        self.assertEqual(1, c.totals[cache.TOTALS.ddio_hits])
        self.assertEqual(cache.MEMORY, cache.core_access(c, 0, 3, 0, 1))


class TestPriority(unittest.TestCase):
    """Whether device lines are read once."""

    def stream(self, reads, count):
        """Let devices write lines that a core reads so often, each out of the L2 in between."""
        for line in range(self.next_line, self.next_line + count):
            cache.dma_write(self.c, line, 1, 1)
            for other in range(reads):
                cache.core_access(self.c, 0, line, 0, 1)
                cache.core_access(self.c, 0, 1_000_000 + other % 2, 0, 1)
        self.next_line += count

    def setUp(self):
        self.c = cache.make(TINY, 1)
        self.next_line = 0

    def test_learnt_and_unlearnt(self):
        """Only a counter of all ones brings priority replacement, and only all zeros end it."""
        # Some lines wait in the directory, unjudged.
        for reads, count, after in ((1, 20, False), (1, 20, True), (3, 20, True), (3, 20, False)):
            self.stream(reads, count)
            self.assertIs(after, adaptive.prioritised(self.c.adaptive), (reads, count))
        for _ in range(20):  # as many lines read once as lines read more often
            self.stream(1, 1)
            self.stream(3, 1)
            self.assertFalse(adaptive.prioritised(self.c.adaptive))

    def test_a_line_that_was_read_goes_next(self):
        """Cores' lines stay while device lines come and go, clean, through one way."""
        self.stream(1, 40)
        for line in range(2000, 2000 + WAYS - 1):
            cache.core_access(self.c, 0, line, 0, 0)
        before = self.c.totals.copy()
        for line in range(100, 120):
            cache.dma_write(self.c, line, 1, 1)
            cache.core_access(self.c, 0, line, 0, 1)
        found = self.c.totals - before
        self.assertEqual(20, found[cache.TOTALS.written_through])
        self.assertEqual(0, found[cache.TOTALS.write_backs])
        held = {int(entry) >> 3 for entry in self.c.llc[0, 0] if entry >= 0}
        self.assertLessEqual(set(range(2000, 2000 + WAYS - 1)), held)


class TestMachine(unittest.TestCase):
    """`io` in a scenario."""

    def read(self, **changes):
        text = "length: 1s\nworkloads: {x: {profile: xmem, cpus: [0]}}\n"
        text += "".join(f"{k}: {v}\n" for k, v in changes.items())
        return read_scenario(text, "x", "x.yaml").machine

    def test_any_machine_can_have_it(self):
        """ADCA limits devices in each set, so their mask is full; else it is the machine's."""
        self.assertEqual(WriteTarget.DCA, self.read().io)
        found = self.read(io="adca", adca="conservative")
        self.assertEqual((WriteTarget.ADCA, AdcaChoice.CONSERVATIVE), (found.io, found.adca))
        self.assertEqual(0x7FF, found.ddio_ways)
        self.assertEqual(0x600, self.read(io="dma").ddio_ways)


class TestFigures(unittest.TestCase):
    """Figures 6 to 10."""

    def test_measure(self):
        """With plain DMA nothing is placed in the cache and a write takes memory's time."""
        one = catalogue.definitions()["adca-6"]
        run = dataclasses.replace(one.run, settle_s=0.002, measure_s=0.002)
        figure = catalogue.figure(dataclasses.replace(one, run=run))
        rows = {
            io: figure.measure({"io": io, "packet_bytes": 256, "suite": "int", "seed": 1})
            for io in ("dma", "adca")
        }
        for row in rows.values():
            self.assertEqual({"bandwidth_mbps", "write_ns", "spec_mips"}, row.keys())
        # Memory's 150 ns, no row to be opened for three lines of four.
        self.assertGreaterEqual(rows["dma"]["write_ns"], 150.0 - 30.0 * 3 / 4)
        self.assertLess(rows["adca"]["write_ns"], rows["dma"]["write_ns"])

    def test_judged_and_drawn(self):
        """Every claim of the five figures is judged from their rows, and they can be drawn."""
        judged = set()
        for one in definition.read("adca"):
            figure = catalogue.figure(one)
            rows = [
                {**point, "bandwidth_mbps": 300.0, "spec_mips": 500.0, "write_ns": 100.0}
                for point in figure.points(1)
            ]
            judged |= {finding.claim for finding in figure.judge(rows)}
            canvas = Canvas()
            figure.draw(canvas, rows)
            self.assertTrue(canvas.axes)
        wanted = {name for name, claim in claims.load().items() if claim.figure.startswith("adca")}
        self.assertEqual(wanted, judged)

    def test_what_the_network_limits_is_left_out(self):
        """At 128 B DCA reaches the line when alone, so only 64 B tell what SPEC takes."""
        rows = [
            {**point, "bandwidth_mbps": 100.0 if point["suite"] == adca.ALONE else 80.0}
            for point in catalogue.figures()["adca-6"].points(1)
        ]
        for row in rows:
            if row["packet_bytes"] > 64 and row["suite"] == adca.ALONE:
                row["bandwidth_mbps"] = 940.0 if row["io"] == "dca" else 100.0
        losses = {finding.claim: finding for finding in adca.judge_6(rows)}
        self.assertAlmostEqual(-20.0, losses["adca-6-dca"].measured)
        self.assertIn("at 64 B", losses["adca-6-dca"].reason)

    def test_write_latency_orders(self):
        """A gain that DCA loses with size and ADCA keeps meets figure 10's claim, else not."""
        rows = [
            {**point, "write_ns": 100.0 if point["io"] == "dma" else 50.0}
            for point in catalogue.figures()["adca-10"].points(1)
        ]
        (finding,) = adca.judge_10(rows)
        self.assertFalse(finding.measured)
        for row in rows:
            if row["io"] == "dca" and row["packet_bytes"] == 1500:
                row["write_ns"] = 90.0
        (finding,) = adca.judge_10(rows)
        self.assertTrue(finding.measured)
