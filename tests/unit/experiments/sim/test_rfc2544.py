# SPDX-License-Identifier: Apache-2.0
"""The search for the rate without loss, and what makes small rings lose."""

import dataclasses
import unittest

from iat_nova.experiments.engine import nic
from iat_nova.experiments.runs import rfc2544
from tests.unit.experiments.sim import scenes

FORWARDER = scenes.FORWARDER.replace("ring:", "jitter: {jitter}, ring:")


class TestSearch(unittest.TestCase):
    def test_the_highest_passing_share_is_found(self):
        """Bisection ends within its resolution below the true limit, at its ends too."""
        for limit in (0.9, 0.3, 0.02):
            found = rfc2544.highest(lambda share, limit=limit: share <= limit, 0.01)
            self.assertLessEqual(found, limit)
            self.assertGreater(found, 0.98 * limit)
        self.assertEqual(1.0, rfc2544.highest(lambda share: True))
        self.assertLess(rfc2544.highest(lambda share: False), 1e-3)


class TestLoss(unittest.TestCase):
    def scenario(self, ring, jitter, rate="10Gb/s", burst=1):
        text = scenes.HEAD + FORWARDER.format(ring=ring, jitter=jitter, rate=rate, packet=512)
        made = scenes.scenario(text)
        traffic = tuple(dataclasses.replace(one, burst=burst) for one in made.traffic)
        return dataclasses.replace(made, traffic=traffic)

    def test_a_small_ring_loses_when_its_thread_loses_the_core(self):
        """At the same rate a ring of 64 loses with jitter, and neither without nor at 1,024."""
        cases = ((64, "100us", False), (64, "0us", True), (1024, "100us", True))
        for ring, jitter, holds in cases:
            with self.subTest(ring=ring, jitter=jitter):
                found = rfc2544.lossless(self.scenario(ring, jitter), 1, trial_s=0.02)
                self.assertEqual(holds, found)

    def test_bursts_longer_than_the_ring_are_lost(self):
        """The same rate passes evenly spaced and does not in bursts of 200 into a ring of 128."""
        self.assertTrue(rfc2544.lossless(self.scenario(128, "0us"), 1, trial_s=0.01))
        self.assertFalse(rfc2544.lossless(self.scenario(128, "0us", burst=200), 1, trial_s=0.01))

    def test_bursts_keep_the_rate(self):
        """Bursts of random length bring as many packets as asked for, but for the last one."""
        machine = scenes.EmulatedServer(self.scenario(4096, "0us", burst=50))
        scenes.run(machine, 0.02)
        expected = nic.packets_per_s(10e9, 512) * 0.02
        offered = machine.metrics()["fwd"].offered
        self.assertLess(abs(offered - expected), 2 * 2 * 50)
