# SPDX-License-Identifier: Apache-2.0
"""The kernels' random numbers."""

import unittest

from iat_nova.experiments.sim import lcg


class Following(unittest.TestCase):
    def test_is_the_product_without_its_highest_bit_whatever_overflows(self) -> None:
        state = 1
        for _ in range(1000):
            expected = (state * 6364136223846793005 + 1442695040888963407) % 2**63
            state = lcg.following(state)
            self.assertEqual(expected, state)

    def test_numbers_are_spread_evenly(self) -> None:
        state, tenths = 1, [0] * 10
        for _ in range(10_000):
            state = lcg.following(state)
            tenths[lcg.number(state) * 10 // lcg.RANGE] += 1
        # Six standard deviations of a tenth's count.
        self.assertLess(max(abs(count - 1000) for count in tenths), 180)
