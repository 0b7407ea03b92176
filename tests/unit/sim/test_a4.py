# SPDX-License-Identifier: Apache-2.0
"""A4's testbed and figures: a point of each, made-up rows, and pictures."""

import unittest
from unittest import mock

from matplotlib.figure import Figure as Canvas

from iat_nova.sim import a4_testbed, nic
from iat_nova.sim.figures import a4_micro, a4_setups, catalogue, claims


def quick(figure, point, module=a4_micro):
    """Measure a point for a moment."""
    with mock.patch.multiple(module, WARM_S=0.004, RUN_S=0.002):
        return {**point, **figure.measure(point)}


def figure(name, module=a4_micro):
    return next(one for one in module.FIGURES if one.name == name)


class TestTestbed(unittest.TestCase):
    def test_the_link_is_shared_out_and_every_ring_starts_full(self):
        """The shares make the link's rate; after the filling each ring is nearly full."""
        scene = a4_testbed.scenario(
            "test", a4_testbed.receiver("dpdk-t", (0, 1, 2, 3), 0x060, dca=False)
        )
        self.assertAlmostEqual(100e9, sum(t.rate_bits_per_s for t in scene.traffic))
        self.assertAlmostEqual(1.0, sum(a4_testbed.QUEUE_SHARES))
        with mock.patch.multiple(a4_micro, WARM_S=0.0019, RUN_S=0.0001):
            row = a4_micro.measure_6({"dca": "off", "block_kib": 0, "seed": 1})
        rate = row["network_mpps"] * 1e6 / 4
        self.assertAlmostEqual(1.0, row["network_latency_us"] * 1e-6 * rate / 2048, delta=0.15)
        self.assertGreater(nic.packets_per_s(100e9, 1024), 4 * rate)


class TestMeasuring(unittest.TestCase):
    """One short measurement of each set-up."""

    def test_each_point_has_the_columns_that_judging_and_drawing_need(self):
        """The first point of each figure can be measured."""
        for one in a4_micro.FIGURES:
            with self.subTest(one.name):
                point = one.points(1)[0]
                row = quick(one, point)
                self.assertLessEqual(point.keys(), row.keys())
                self.assertTrue(
                    all(v is None or isinstance(v, str | int | float) for v in row.values())
                )

    def test_points_name_each_seed(self):
        """Three seeds are three times the points of one, all different."""
        for one in a4_micro.FIGURES:
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
        """The published miss rates meet all five; equal ones meet neither order nor the ends."""
        self.assertEqual(
            [True] * 5, self.met("a4-3b", self.rows_3(a4_micro.PUBLISHED_3["dpdk-t"][0]))
        )
        self.assertEqual([False] * 5, self.met("a4-3b", self.rows_3([45.0] * 10)))

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
        """The published miss rates meet all four; X-Mem alone is no claim."""
        points = figure("a4-8b").points(1)
        values = (*a4_micro.PUBLISHED_8B, 16.6)
        rows = [{**p, "xmem_miss_percent": v} for p, v in zip(points, values, strict=True)]
        self.assertEqual([True] * 4, self.met("a4-8b", rows))
        rows = [{**point, "xmem_miss_percent": 80.0} for point in points]
        self.assertEqual([False] * 4, self.met("a4-8b", rows))

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
        for one in a4_micro.FIGURES:
            canvas = Canvas()
            one.draw(canvas, rows[one.name])
            self.assertTrue(canvas.axes[0].has_data(), one.name)


class TestSetups(unittest.TestCase):
    def test_each_can_be_measured_and_drawn(self):
        """The first point of each is measured; a picture is drawn with its row at every point."""
        for one in a4_setups.FIGURES:
            with self.subTest(one.name):
                row = quick(one, one.points(1)[0], a4_setups)
                rows = [{**row, **point} for point in one.points(1)]
                canvas = Canvas()
                one.draw(canvas, rows)
                self.assertTrue(canvas.axes[0].has_data())
                self.assertEqual([], list(one.judge(rows)))

    def test_zones_keep_storage_from_the_llc(self):
        """In A4's masks the antagonist has no DCA; in a shared LLC it has."""
        for layout, dca in (("shared", True), ("zones", False)):
            part = a4_setups.storage_13b(layout)
            scene = a4_testbed.scenario("test", part)
            self.assertEqual(dca, next(d for d in scene.disks if d.name == "heavy").dca)

    def test_all_are_in_the_catalogue(self):
        """Every figure of A4 can be asked for by name."""
        names = {one.name for module in (a4_micro, a4_setups) for one in module.FIGURES}
        self.assertLessEqual(names, catalogue.figures().keys())
        self.assertEqual(11, len(names))
