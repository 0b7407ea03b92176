# SPDX-License-Identifier: Apache-2.0
"""A4's testbed and figures: a point of each, made-up rows, and pictures."""

import dataclasses
import unittest

from matplotlib.figure import Figure as Canvas

from iat_nova.experiments.engine import nic
from iat_nova.experiments.papers import a4_mixes, catalogue, claims, definition

# DPDK's miss rates of figure 3b in percent, in the order of X-Mem's masks.
PUBLISHED_3B = (23.4, 18.6, 17.3, 17.2, 22.6, 47.2, 21.8, 17.3, 72.5, 83.8)
MICRO, SETUPS, MIXES = (definition.read(stem) for stem in ("a4_micro", "a4_setups", "a4_mixes"))


def quick(one, point, settle_s=0.004, measure_s=0.002):
    """Measure a point for a moment."""
    run = dataclasses.replace(one.run, settle_s=settle_s, measure_s=measure_s)
    return {**point, **catalogue.figure(dataclasses.replace(one, run=run)).measure(point)}


def figure(name):
    return catalogue.figures()[name]


class TestTestbed(unittest.TestCase):
    def test_the_link_is_shared_out_and_every_ring_starts_full(self):
        """The shares make the link's rate; after the filling each ring is nearly full."""
        one = catalogue.definitions()["a4-6"]
        point = {"dca": "off", "block_kib": 0, "seed": 1}
        scene = one.made(point)
        self.assertAlmostEqual(100e9, sum(t.rate_bits_per_s for t in scene.traffic))
        row = quick(one, point, 0.0019, 0.0001)
        rate = row["network_mpps"] * 1e6 / 4
        self.assertAlmostEqual(1.0, row["network_latency_us"] * 1e-6 * rate / 2048, delta=0.15)
        self.assertGreater(nic.packets_per_s(100e9, 1024), 4 * rate)


class TestMeasuring(unittest.TestCase):
    """One short measurement of each set-up."""

    def test_each_point_has_the_columns_that_judging_and_drawing_need(self):
        """The first point of each figure can be measured."""
        for one in MICRO:
            with self.subTest(one.name):
                point = one.points(1)[0]
                row = quick(one, point)
                self.assertLessEqual(point.keys(), row.keys())
                self.assertTrue(
                    all(v is None or isinstance(v, str | int | float) for v in row.values())
                )

    def test_points_name_each_seed(self):
        """Three seeds are three times the points of one, all different."""
        for one in MICRO:
            points = [tuple(sorted(point.items())) for point in one.points(3)]
            self.assertEqual(3 * len(one.points(1)), len(set(points)), one.name)


class TestJudging(unittest.TestCase):
    """Made-up rows: the published ones meet every claim, others do not."""

    def rows_3(self, misses):
        return [
            {
                **point, "dpdk_miss_percent": miss, "xmem_miss_percent": 27.0,
                "memory_read_gbytes_per_s": 8.0, "memory_write_gbytes_per_s": 3.0,
            }
            for point, miss in zip(figure("a4-3b").points(1), misses, strict=True)
        ]  # fmt: skip

    def rows_6(self, name, latency, speed=10.0):
        return [
            {
                **point, "network_latency_us": latency(point), "network_p99_us": 900.0,
                "storage_gbytes_per_s": None if point["block_kib"] == 0 else (
                    speed if isinstance(speed, float) else speed(point)
                ),
            }
            for point in figure(name).points(1)
        ]  # fmt: skip

    def met(self, name, rows):
        return [verdict.met for verdict in claims.judge(figure(name).judge(rows))]

    def test_3b(self):
        """The published miss rates meet order and masks; equal ones meet one mask only (47.2 %)."""
        self.assertEqual([True] * 11, self.met("a4-3b", self.rows_3(PUBLISHED_3B)))
        met = self.met("a4-3b", self.rows_3([45.0] * 10))
        self.assertEqual([False] * 8 + [True] + [False] * 2, met)

    def test_6(self):
        """Alone below both on below both off, or not."""
        table = {"off": 900.0, "on": 600.0}

        def latency(point):
            return 300.0 if point["block_kib"] == 0 else table[point["dca"]]

        self.assertEqual([True], self.met("a4-6", self.rows_6("a4-6", latency)))
        table["off"] = 500.0
        self.assertEqual([False], self.met("a4-6", self.rows_6("a4-6", latency)))

    def test_8a(self):
        """Latency falls by 45 % and only 16 KiB are slower; or neither."""

        def latency(point):
            return 600.0 if point["dca"] == "on" else 330.0

        def speed(point):
            return 8.3 if point["dca"] != "on" and point["block_kib"] == 16 else 10.4

        self.assertEqual([True, True], self.met("a4-8a", self.rows_6("a4-8a", latency, speed)))
        same = self.rows_6("a4-8a", lambda point: 600.0)
        self.assertEqual([False, False], self.met("a4-8a", same))

    def test_8b(self):
        """The published miss rates meet all five, and FIO's throughput is judged beside them."""
        points = figure("a4-8b").points(1)
        values = (35.2, 29.3, 24.1, 20.3, 16.6)
        rows = [
            {**p, "xmem_miss_percent": v, "storage_gbytes_per_s": 10.5 if p["fio_mask"] else None}
            for p, v in zip(points, values, strict=True)
        ]
        self.assertEqual([True] * 6, self.met("a4-8b", rows))
        rows = [{**row, "xmem_miss_percent": 80.0} for row in rows]
        self.assertEqual([False] * 5 + [True], self.met("a4-8b", rows))

    def test_drawing(self):
        """Each draws something on its canvas."""
        latency = {"off": 900.0, "on": 600.0, "storage off": 330.0}
        rows = {
            "a4-3a": [{**row, "receiver": "dpdk-nt"} for row in self.rows_3(range(10))],
            "a4-3b": self.rows_3(range(10)),
            "a4-6": self.rows_6("a4-6", lambda point: latency[point["dca"]]),
            "a4-8a": self.rows_6("a4-8a", lambda point: latency[point["dca"]]),
            "a4-8b": [{**p, "xmem_miss_percent": 5.0} for p in figure("a4-8b").points(1)],
        }
        for one in MICRO:
            canvas = Canvas()
            figure(one.name).draw(canvas, rows[one.name])
            self.assertTrue(canvas.axes[0].has_data(), one.name)


class TestSetups(unittest.TestCase):
    def test_each_can_be_measured_and_drawn(self):
        """The first point of each is measured; a picture is drawn with its row at every point."""
        for one in SETUPS:
            with self.subTest(one.name):
                row = quick(one, one.points(1)[0])
                rows = [{**row, **point} for point in one.points(1)]
                canvas = Canvas()
                figure(one.name).draw(canvas, rows)
                self.assertTrue(canvas.axes[0].has_data())
                self.assertEqual([], list(figure(one.name).judge(rows)))

    def test_zones_keep_storage_from_the_llc(self):
        """In A4's masks the antagonist has no DCA; in a shared LLC it has."""
        for layout, dca in (("shared", True), ("zones", False)):
            point = {"layout": layout, "packet_bytes": 64, "block_kib": 4, "seed": 1}
            scene = catalogue.definitions()["a4-11"].made(point)
            self.assertEqual(dca, scene.disks[0].dca)

    def test_all_are_in_the_catalogue(self):
        """Every figure of A4 can be asked for by name."""
        names = {one.name for one in (*MICRO, *SETUPS, *MIXES)}
        self.assertLessEqual(names, catalogue.figures().keys())
        self.assertEqual(12, len(names))


class TestMixes(unittest.TestCase):
    """Figures 13a and 13b: made-up rows, and the scenarios that ship."""

    def rows(self, one, gain):
        """Return rows in which latency falls, and IPC rises, by a factor under A4."""
        columns = [name for name in one.columns if name.endswith(("_ipc", "_latency_us"))]
        for point in one.points(3):
            under = gain if point["strategy"] == "a4" else 1.0
            values = {name: 100.0 / under if name.endswith("_us") else under for name in columns}
            yield {**point, **values}

    def test_a_gain_of_the_published_size_meets_both_claims(self):
        """A gain of 51 % for all meets both, one of 10 % one of them; a loss of 10 % neither."""
        for one in MIXES:
            for gain, met in ((1.505, [True, True]), (1.1, [False, True]), (0.9, [False, False])):
                rows = list(self.rows(one, gain))
                verdicts = claims.judge(figure(one.name).judge(rows))
                self.assertEqual(met, [verdict.met for verdict in verdicts], (one.name, gain))

    def test_means_are_weighted_by_cores(self):
        """FastClick has four cores of ten: its latency halved is a gain of 40 % for all."""
        one = MIXES[0]
        rows = list(self.rows(one, 1.0))
        for row in rows:
            if row["strategy"] == "a4":
                row["fastclick_latency_us"] /= 2
        high, low = figure(one.name).judge(rows)
        self.assertAlmostEqual(40.0, high.measured)
        self.assertTrue(low.measured)

    def test_each_tenant_has_a_weight_and_a_guest(self):
        """The weights are the cores that the scenario's guests have."""
        for one, weights in zip(
            MIXES,
            (a4_mixes.HIGH_13A | a4_mixes.LOW_13A, a4_mixes.HIGH_13B | a4_mixes.LOW_13B),
            strict=True,
        ):
            scene = one.made({"strategy": "a4", "seed": 1})
            cores = {guest.display_name: len(guest.dedicated_cpus) for guest in scene.guests}
            self.assertEqual(cores, weights)

    def test_drawing(self):
        """Each draws something on its canvas."""
        for one in MIXES:
            canvas = Canvas()
            figure(one.name).draw(canvas, list(self.rows(one, 1.2)))
            self.assertTrue(canvas.axes[0].has_data())

    def test_a_copying_receiver_feels_where_its_packets_are(self):
        """FastClick's copies make its ring fill where packets leak; headers alone would not."""
        scene = MIXES[0].made({"strategy": "a4", "seed": 1})
        profile = scene.workload("fastclick0").profile
        self.assertEqual(1.0, profile.payload_share)
        self.assertTrue(profile.sends)


class TestReceivers(unittest.TestCase):
    """Figure 7: a receiver whose packets come from memory falls behind, until it has the ways."""

    def test_latency_falls_at_a_knee(self):
        """In two ways rings stay full; in six they run empty, and latency falls by ten times."""
        one = catalogue.definitions()["a4-7"]
        narrow, wide = (
            quick(one, {"dpdk_mask": mask, "seed": 1}, 0.02, 0.002) for mask in (0x003, 0x0FC)
        )
        self.assertGreater(narrow["network_latency_us"], 10 * wide["network_latency_us"])
        self.assertGreater(narrow["network_p99_us"], 500)
        self.assertGreater(narrow["memory_read_gbytes_per_s"], 2)
        self.assertLess(wide["dpdk_miss_percent"], 0.5)
        # What the streamer fetched for nobody must not push packets out of ways that hold them.
        self.assertLess(wide["memory_write_gbytes_per_s"], 1)
