# SPDX-License-Identifier: Apache-2.0
"""The network figures measure what their columns say, and judge and draw made-up rows."""

import unittest

from matplotlib.figure import Figure as Canvas

from iat_nova.experiments.papers import catalogue, claims, iat_10, mempool


class NetworkFigureTest(unittest.TestCase):
    def holds(self, name, rows):
        """Judge and draw rows; every claim of the figure is answered. Returns the findings."""
        figure = catalogue.figures()[name]
        found = list(figure.judge(rows))
        asked = {one.id for one in claims.load().values() if one.figure == name}
        self.assertEqual(asked, {finding.claim for finding in found})
        canvas = Canvas()
        figure.draw(canvas, rows)
        self.assertTrue(canvas.axes)
        return {finding.claim: finding.measured for finding in found}

    def measured(self, name, point):
        """Measure one point; its row holds numbers under the columns that are judged."""
        row = catalogue.figures()[name].measure(point)
        self.assertTrue(row)
        return {**point, **row}


class TestRings(NetworkFigureTest):
    def rows(self, packet, rates):
        return [
            {"packet_bytes": packet, "ring": ring, "seed": 1, "zero_loss_mpps": rate}
            for ring, rate in zip((1024, 512, 256, 128, 64), rates, strict=True)
        ]

    def test_small_packets(self):
        """The loss at ring 512, the share left at 64 and the order are read off the rates."""
        found = self.holds("iat-3a", self.rows(64, (10.0, 8.0, 4.0, 2.0, 0.5)))
        self.assertAlmostEqual(-20.0, found["iat-3a-512"])
        self.assertAlmostEqual(5.0, found["iat-3a-64"])
        self.assertTrue(found["iat-3a-mono"])

    def test_large_packets(self):
        """A rate that falls at ring 256 already refutes the claim."""
        self.assertTrue(self.holds("iat-3b", self.rows(1500, (3, 3, 3, 2, 1)))["iat-3b-128"])
        self.assertFalse(self.holds("iat-3b", self.rows(1500, (3, 3, 2, 2, 1)))["iat-3b-128"])

    def test_a_point(self):
        """At 1.5 KB and ring 1,024 one core carries the line without loss."""
        row = self.measured("iat-3b", {"packet_bytes": 1500, "ring": 1024, "seed": 1})
        self.assertEqual(1.0, row["share_of_line"])


class TestLatentContender(NetworkFigureTest):
    def test_the_worst_working_set_is_judged(self):
        """The largest loss and the largest rise over the working sets are compared."""
        rows = [
            {
                "working_set_mb": size,
                "ways": ways,
                "seed": 1,
                "xmem_accesses_per_s": rate,
                "xmem_latency_cycles": 1e9 / rate,
            }
            for size, rates in ((4, (4e7, 3e7)), (8, (2e7, 1.8e7)), (16, (1e7, 1e7)))
            for ways, rate in zip(("dedicated", "ddio"), rates, strict=True)
        ]
        found = self.holds("iat-4", rows)
        self.assertAlmostEqual(-25.0, found["iat-4-thru"])
        self.assertAlmostEqual(100 / 3, found["iat-4-lat"])


class TestSlicing(NetworkFigureTest):
    def test_strategies_are_compared(self):
        """Gains over baseline and Core-only are spreads over packet sizes; I/O-iso falls behind."""
        rates = {
            "baseline": (1e7, 1e7), "core-only": (1.5e7, 1e7), "io-iso": (2e7, 1e7),
            "iat": (2e7, 2e7),
        }  # fmt: skip
        rows = [
            {
                "packet_bytes": packet, "strategy": name, "seed": 1,
                "grown_accesses_per_s": grown, "grown_latency_cycles": 1e9 / grown,
                "after_accesses_per_s": after, "after_latency_cycles": 1e9 / after,
            }
            for packet in (64, 256, 512, 1024, 1500)
            for name, (grown, after) in rates.items()
        ]  # fmt: skip
        found = self.holds("iat-10", rows)
        self.assertEqual((100.0, 100.0), found["iat-10a-base"])
        self.assertTrue(found["iat-10-iso"])
        self.assertTrue(found["iat-10-after"])

    def test_the_timeline(self):
        """A run in which container 4 stays on DDIO's ways for 4 s, or for good, refutes."""
        for free_s, holds in ((1.0, True), (4.0, False), (None, False)):
            row = {"strategy": "iat", "seed": 1}
            row |= {"free_after_growth_s": 0.0, "free_after_ddio_s": free_s}
            for second in range(25):
                row |= {f"latency_cycles_{second:02}": 1.0, f"accesses_per_s_{second:02}": 1.0}
            self.assertEqual(holds, self.holds("iat-11", [row])["iat-11-react"])

    def test_overlap_ends_for_good(self):
        """The last moment of overlap counts; overlap that lasts has no end."""
        seen = [(5.0, False), (6.0, True), (7.0, False), (15.0, True)]
        self.assertEqual(2.0, iat_10.free_after(seen, 5.0, 15.0))
        self.assertEqual(0.0, iat_10.free_after(seen, 7.0, 15.0))
        self.assertIsNone(iat_10.free_after(seen, 15.0, 25.0))


class TestAggregation(NetworkFigureTest):
    def row(self, packet, flows, strategy, **columns):
        usual = {
            "ovs_ipc": 1.0, "ovs_misses_per_packet": 0.01, "ddio_hits_per_s": 1e8,
            "ddio_misses_per_s": 1e5, "memory_bytes_per_s": 1e9, "ddio_ways": 2, "stack_ways": 2,
            "stack_ways_most": 2, "states": "low keep",
        }  # fmt: skip
        place = {"packet_bytes": packet, "flows": flows, "strategy": strategy, "seed": 1}
        return {**place, **usual, **columns}

    def test_packet_sizes(self):
        """Hits and misses are compared at large packets, ways at small ones."""
        rows = [self.row(packet, 1, "baseline") for packet in (64, 256, 512, 1024, 1500)]
        better = {"ddio_misses_per_s": 1e4, "memory_bytes_per_s": 8e8, "ovs_ipc": 1.05}
        for packet in (64, 256, 512, 1024, 1500):
            rows.append(self.row(packet, 1, "iat", **(better if packet > 512 else {})))
        found = self.holds("iat-8", rows)
        for claim in ("hit", "miss", "small"):
            self.assertTrue(found[f"iat-8-{claim}"], claim)
        self.assertAlmostEqual(-20.0, found["iat-8-bw"])
        self.assertAlmostEqual(5.0, found["iat-8-ipc"])

    def test_containers(self):
        """Gains within 25 % of the gain with two containers are alike; no gain is none."""
        for gains, alike in (((5, 6, 5, 4), True), ((5, 3, 5, 5), False), ((0, 0, 0, 0), False)):
            rows = [
                self.row(1500, 1, strategy, guests=guests, ovs_ipc=1 + gain / 100)
                for guests, most in enumerate(gains, 2)
                for strategy, gain in (("baseline", 0), ("iat", most))
            ]
            self.assertIs(alike, self.holds("iat-8-guests", rows)["iat-8-guests"])

    def ramp(self, strategy, misses=4.0, **columns):
        row = {"packet_bytes": 64, "flows": 1, "strategy": strategy, "seed": 1}
        for flows in (1, 10, 100, 1_000, 10_000, 100_000, 1_000_000):
            row[f"ovs_ipc_{flows}"] = 1.0
            row[f"ovs_misses_per_packet_{flows}"] = misses if flows > 1000 else 0.01
        for flows in (1_000, 10_000, 1_000_000):
            row[f"ddio_misses_per_s_{flows}"] = 1e5
        return row | {"stack_ways": 2, "stack_ways_most": 2, "states": "low keep"} | columns

    def test_flows(self):
        """The knee lies past 1 k flows; Core Demand must be reached and ways be granted."""
        grown = self.ramp("iat", states="low keep, core demand", stack_ways_most=3)
        grown["ovs_ipc_10000"] = 1.1
        found = self.holds("iat-9", [self.ramp("baseline"), grown])
        self.assertTrue(found["iat-9-knee"])
        self.assertTrue(found["iat-9-state"])
        self.assertAlmostEqual(10.0, found["iat-9-ipc"])
        found = self.holds("iat-9", [self.ramp("baseline", misses=0.01), self.ramp("iat")])
        self.assertFalse(found["iat-9-knee"])
        self.assertFalse(found["iat-9-state"])

    def test_flows_are_ramped_in_one_run(self):
        """Every 10 s each card has ten times the flows, and each stretch has its window."""
        one = catalogue.definitions()["iat-9"]
        scene = one.made({"packet_bytes": 64, "flows": 1, "strategy": "iat", "seed": 1})
        steps = [(e.at_s, e.value) for e in scene.events if e.subject == "traffic.nic0"]
        self.assertEqual([(10.0 * n, 10**n) for n in range(1, 7)], steps)
        self.assertEqual(70.0, scene.length_s)
        for column in one.columns.values():
            if not isinstance(column, str):
                self.assertEqual(
                    10 * (column.window // 2) + 5, (0, *one.run.marks_s)[column.window]
                )


class TestLoop(NetworkFigureTest):
    def test_the_slowest_case_counts(self):
        """The slowest case counts that the paper had cores for; time grows less than cores do."""
        rows = [
            {
                "tenants": tenants, "cores_per_tenant": cores, "phase": phase, "seed": 1,
                "iteration_us": 10.0 * tenants * cores, "read_us": 1.0,
            }
            for tenants in (1, 2, 4, 8, 16)
            for cores in (1, 2)
            for phase in ("stable", "unstable")
        ]  # fmt: skip
        found = self.holds("iat-15", rows)
        self.assertEqual(160.0, found["iat-15"])
        self.assertFalse(found["iat-15-cores"] or found["iat-15-tenants"] or found["iat-15-poll"])
        for row in rows:
            cores = row["tenants"] * row["cores_per_tenant"]
            row.update(iteration_us=100.0 + 10.0 * cores + row["tenants"], read_us=300.0)
        found = self.holds("iat-15", rows)
        self.assertTrue(found["iat-15-cores"] and found["iat-15-tenants"] and found["iat-15-poll"])


class TestMempool(NetworkFigureTest):
    def test_reductions(self):
        """The reduction is of the sum of both directions; it must fall with each instance."""
        rows = [
            {
                "run": run, "instances": count, "pool": pool, "seed": 1,
                "memory_bytes_per_s": 100.0 if pool == "ring" else 7.0 * count,
                "memory_read_bytes_per_s": 50.0 if pool == "ring" else 4.0 * count,
                "memory_write_bytes_per_s": 50.0 if pool == "ring" else 3.0 * count,
            }
            for run in ("pool-crcoff5", "pool-crcon5", "pool-crcoff63", "pool-crcon55")
            for count in (1, 2, 4, 8, 12)
            for pool in ("ring", "stack")
        ]  # fmt: skip
        found = self.holds("mempool", rows)
        self.assertTrue(found["pool-order"])
        self.assertAlmostEqual(100 - 7 * 27 / 5, found["pool-mean"])
        self.assertAlmostEqual(94.0, found["pool-writes"])  # at 1 instance
        self.assertAlmostEqual(4.0, found["pool-reads"])  # at 12
        self.assertAlmostEqual(72.0, mempool.reductions(rows)["pool-crcoff5"][4])
