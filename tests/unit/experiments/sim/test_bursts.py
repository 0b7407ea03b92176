# SPDX-License-Identifier: Apache-2.0
"""What a burst of packets costs: its own accesses, as far as enough of them are simulated."""

import unittest

import numpy as np

from iat_nova.experiments.engine import threads as th
from iat_nova.experiments.engine.layout import number
from iat_nova.experiments.machines.machine import GOLD_6140

MEAN, OWN = 10.0, 40.0  # stall cycles of a line: the running mean, and the burst's own


def threads(lines):
    """Return threads with one input, whose burst has seen `lines` sampled lines of `OWN` cycles."""
    stalls = np.full((1, th.CLASSES), MEAN)
    bursts = np.zeros((1, th.CLASSES, 2))
    bursts[0, number("COPY_FROM")] = (lines, lines * OWN)
    floats = np.zeros((1, len(th.FLOATS)))
    floats[0, th.FLOATS.running] = GOLD_6140.running_weight
    floats[0, th.FLOATS.credible_lines] = GOLD_6140.credible_lines
    return th.Threads(
        np.zeros((1, len(th.INTS)), np.int64),
        floats,
        stalls,
        bursts,
        np.ones((1, th.CLASSES)),
        np.zeros((1, 4), np.int64),
        np.zeros((1, 1), np.int64),
        np.ones((1, 1, 2), np.int32),
    )


class TestSettle(unittest.TestCase):
    def test_with_all_lines_a_burst_pays_its_own_cost(self):
        """32 packets of 24 lines: what the mean missed is paid nearly whole."""
        missed = 32 * 24 * (OWN - MEAN)
        self.assertAlmostEqual(missed, th.settle(threads(32 * 24), 0, 0, 1), delta=0.04 * missed)

    def test_with_one_line_in_32_half_is_paid(self):
        """24 sampled lines of 768 count as much as the running mean."""
        missed = 32 * 24 * (OWN - MEAN)
        self.assertAlmostEqual(missed / 2, th.settle(threads(24), 0, 0, 32))

    def test_a_single_line_hardly_counts(self):
        """One sampled line stands for 32, and a twenty-fifth of what it missed is paid."""
        self.assertAlmostEqual(32 * (OWN - MEAN) / 25, th.settle(threads(1), 0, 0, 32))

    def test_a_burst_without_sampled_lines_costs_the_mean(self):
        self.assertEqual(0.0, th.settle(threads(0), 0, 0, 32))

    def test_the_mean_follows_and_the_next_burst_starts_anew(self):
        """The mean moves towards the burst's, other classes stay; nothing is paid twice."""
        t = threads(24)
        th.settle(t, 0, 0, 32)
        self.assertAlmostEqual(
            MEAN + (OWN - MEAN) * 24 * GOLD_6140.running_weight, t.stalls[0, number("COPY_FROM")]
        )
        self.assertEqual(MEAN, t.stalls[0, number("COPY_TO")])
        self.assertEqual(0.0, th.settle(t, 0, 0, 32))
