# SPDX-License-Identifier: Apache-2.0
"""What rings, ways and mempools would change, emulated."""

import dataclasses
import unittest

from iat_nova import advice
from iat_nova.sim.advise import estimate
from tests.unit import test_advice as known


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
        """Devices that find no processor are left out."""
        port = dataclasses.replace(known.PORT, rx_queues=64, rx_descriptors=64)
        found = known.advise(known.facts([port, dataclasses.replace(port, name="dpdk1")]))
        self.assertLess(estimate(found, found.rings, 2, False).ddio_miss_ratio, 1.0)
