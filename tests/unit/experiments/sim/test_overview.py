# SPDX-License-Identifier: Apache-2.0
"""Many scenarios at a glance."""

import pathlib
import tempfile
import unittest

from iat_nova.experiments.compare import overview
from iat_nova.experiments.compare.compare import Row


def row(scenario, strategy, seed, pc, be=1.0):
    return Row(scenario, strategy, seed, pc, be, 1.0, 2.0, 3.0)


ROWS = (
    row("a", "unmanaged", 1, 0.80), row("a", "unmanaged", 2, 0.90), row("a", "unmanaged", 3, 0.85),
    row("a", "iat", 1, 0.845, be=None),
    row("b", "unmanaged", 1, None), row("b", "iat", 1, None),
)  # fmt: skip


class OverviewTest(unittest.TestCase):
    def test_standings(self):
        """Medians over seeds; who is within a hundredth of the best has won, too."""
        first, second, *nobody = overview.standings(ROWS)
        self.assertEqual(("a", "unmanaged", 3, 0.85), (first.scenario, first.strategy, first.seeds,
                                                       first.pc_performance))  # fmt: skip
        self.assertEqual((1.0, True, True), (first.pc_of_best, first.wins, second.wins))
        self.assertIsNone(second.be_throughput)
        self.assertEqual([False, False], [one.wins for one in nobody])

    def test_worse_by_more_than_noise_has_lost(self):
        """Two hundredths are a difference."""
        _, lost = overview.standings((row("a", "x", 1, 1.0), row("a", "y", 1, 0.98)))
        self.assertFalse(lost.wins)

    def test_the_picture(self):
        """Names all scenarios and strategies; nothing measured leaves a gap."""
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "overview.svg"
            overview.draw(path, ROWS)
            text = path.read_text()
        for part in ("PC performance (alone: 1)", "BE throughput (unmanaged: 1)", "iat", ">b<"):
            self.assertIn(part, text)
