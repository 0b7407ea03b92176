# SPDX-License-Identifier: Apache-2.0
"""The traces of `bench llc` are what their names say, and its rows tell what was run."""

import unittest
from unittest import mock

from iat_nova.experiments.times import llc as bench

ACCESSES = 200_000


class TestBench(unittest.TestCase):
    def rows(self):
        """Run without pycachesim, whether it is installed or not."""
        notes = []
        with mock.patch.object(bench, "_find_pycachesim", return_value=None):
            return {row.trace: row for row in bench.rows(ACCESSES, notes.append)}, notes

    def test_traces_are_what_their_names_say(self):
        """Most accesses are served by L2, by the LLC, by memory; a core finds what a card wrote."""
        rows, _ = self.rows()
        self.assertEqual(["hit-heavy", "llc-heavy", "miss-heavy", "dma"], list(rows))
        self.assertGreater(rows["hit-heavy"].l2_hits, 0.99)
        self.assertGreater(rows["llc-heavy"].llc_hits, 0.8)
        self.assertLess(rows["miss-heavy"].l2_hits + rows["miss-heavy"].llc_hits, 0.4)
        self.assertGreater(rows["dma"].llc_hits, 0.9)
        self.assertTrue(all(row.accesses_per_s > 0 for row in rows.values()))

    def test_whole_server(self):
        """Three and fourteen programs beside four functions; devices' accesses count as well."""
        small, full = bench.testbed_rows(0.002)
        self.assertEqual(["testbed-7", "testbed-18"], [small.trace, full.trace])
        busy = {cpu for one in bench.testbed(14).workloads for cpu in one.cpus}
        self.assertEqual(set(range(18)), busy)
        for row in (small, full):
            accesses = bench.SAMPLING * row.accesses_per_s / row.emulated_s_per_s
            # The cards write 158 M lines a second, and read as many to send them back.
            self.assertGreater(accesses, 400e6)

    def test_absent_pycachesim_is_told(self):
        """Its rows are left out and the note says how to have them."""
        rows, notes = self.rows()
        self.assertEqual({bench.ENGINE}, {row.engine for row in rows.values()})
        self.assertEqual(1, len(notes))
        self.assertIn("iat-nova[bench]", notes[0])
