# SPDX-License-Identifier: Apache-2.0
"""What rings, ways and mempools would change, emulated."""

import dataclasses
import unittest

from iat_nova.cmd import advise as command
from iat_nova.experiments.sim.advise import estimate
from iat_nova.report import advice
from tests.unit.report import test_advice as known


class EstimateTest(unittest.TestCase):
    def test_what_fits_misses_less(self):
        """What does not fit misses; smaller rings, more ways or a stack mempool mend it."""
        pool = advice.Mempool("a", "ring_mp_mc", 16384)
        found = known.advise(known.facts([known.PORT]), pools=[pool])
        small = advice.with_ring(found.rings, found.ring_that_fits)
        walked = estimate(found, small, 2, pool_in_turn=True)
        large = estimate(found, found.rings, 2, pool_in_turn=False)
        self.assertGreater(walked.ddio_miss_ratio, 0.9)
        for fitting in (
            estimate(found, small, 2, pool_in_turn=False),
            estimate(found, found.rings, found.ways_that_fit, pool_in_turn=False),
        ):
            self.assertLess(fitting.ddio_miss_ratio, advice.CROWDED)
            self.assertLess(fitting.ddio_miss_ratio, large.ddio_miss_ratio / 4)
            self.assertLess(fitting.memory_bytes_per_s, large.memory_bytes_per_s / 4)

    def test_more_queues_than_processors(self):
        """Queues that find no processor are left out, and counted."""
        port = dataclasses.replace(known.PORT, rx_queues=64, rx_descriptors=64)
        found = known.advise(known.facts([port, dataclasses.replace(port, name="dpdk1")]))
        tried = estimate(found, found.rings, 2, False)
        self.assertLess(tried.ddio_miss_ratio, 1.0)
        self.assertEqual((32, 96), (tried.queues, tried.queues_left_out))
        page = "\n".join(command.emulated(tried))
        self.assertIn(f"{tried.offered_gbps:.1f} Gb/s received together", page)
        self.assertIn("Emulated are 32 of 128 queues", page)

    def test_one_queue_of_a_fast_card(self):
        """A queue is offered what one core forwards, not 80 % of 100 Gb/s."""
        fast = dataclasses.replace(known.NICS[0], speed_gbps=100.0)
        facts = known.facts([dataclasses.replace(known.PORT, rx_descriptors=64)])
        facts = dataclasses.replace(facts, host=dataclasses.replace(facts.host, nics=(fast,)))
        found = known.advise(facts)
        self.assertAlmostEqual(30.0, estimate(found, found.rings, 2, False).offered_gbps)
