# SPDX-License-Identifier: Apache-2.0
"""A4's testbed and figures: a point of each, made-up rows, and pictures."""

import dataclasses
import unittest

from matplotlib.figure import Figure as Canvas

from iat_nova.sim import nic
from iat_nova.sim.figures import catalogue, claims, definition

# DPDK's miss rates of figure 3b in percent, in the order of X-Mem's masks.
PUBLISHED_3B = (23.4, 18.6, 17.3, 17.2, 22.6, 47.2, 21.8, 17.3, 72.5, 83.8)
MICRO, SETUPS = (definition.read(stem) for stem in ("a4_micro", "a4_setups"))


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
            scene = catalogue.definitions()["a4-13b"].made({"layout": layout, "seed": 1})
            self.assertEqual(dca, next(d for d in scene.disks if d.name == "heavy").dca)

    def test_all_are_in_the_catalogue(self):
        """Every figure of A4 can be asked for by name."""
        names = {one.name for one in (*MICRO, *SETUPS)}
        self.assertLessEqual(names, catalogue.figures().keys())
        self.assertEqual(11, len(names))


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
