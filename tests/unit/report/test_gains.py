# SPDX-License-Identifier: Apache-2.0
"""Which tenants gained and which lost over a period."""

import dataclasses
import unittest
from unittest import mock

from iat_nova.model import Rates
from iat_nova.report.gains import gains, worth
from iat_nova.strategies.prospect import Prospect
from tests.unit import stories

SECONDS = 40


def period(tenant, first, last):
    """Return samples in which a tenant has `first` rates, and `last` rates from the middle on."""
    for number in range(SECONDS):
        one = stories.quiet(number, 1000.0 + number)
        tenants = {tenant: first if number < SECONDS / 2 else last}
        yield dataclasses.replace(one, sample=dataclasses.replace(one.sample, tenants=tenants))


class Gains(unittest.TestCase):
    """Changes of speed, and the slowest moment."""

    def gain(self, tenant, first, last):
        (found,) = gains(list(period(tenant, first, last)), stories.inventory())
        return found

    def test_program(self):
        """Without I/O the speed is instructions per cycle."""
        found = self.gain(stories.BE, Rates(4e9, 4e9, 3e6, 1e6), Rates(3e9, 4e9, 3e6, 2e6))
        self.assertAlmostEqual(1.0, found.first)
        self.assertAlmostEqual(-0.25, found.change)
        self.assertAlmostEqual(0.75, found.worst)
        self.assertGreaterEqual(found.worst_s, 1000.0 + SECONDS / 2)

    def test_overlapping_misses_of_a_receiver(self):
        """A receiver loses no more than its instructions, whatever 100 cycles a miss add up to."""
        fast, slow = Rates(4.0e9, 4e9, 20e6, 2e6), Rates(3.9e9, 4e9, 20e6, 18e6)
        found = self.gain(stories.PC, fast, slow)
        self.assertAlmostEqual(0.95, found.first)
        self.assertAlmostEqual(0.55, found.last)
        self.assertAlmostEqual(-0.025, found.change)
        self.assertAlmostEqual(0.975, found.worst)
        # Nor does a receiver gain more.
        self.assertAlmostEqual(4.0 / 3.9 - 1, self.gain(stories.PC, slow, fast).change)

    def test_the_tenths_of_a_period(self):
        """The first and the last tenth are compared; three samples together are the slowest."""
        speeds = [1.0] * 4 + [0.5] * 3 + [0.9] * 30 + [1.2] * 3
        rates = [Rates(speed * 4e9, 4e9, 3e6, 1e6) for speed in speeds]
        samples = []
        for number, rate in enumerate(rates):
            (*_, one) = period(stories.BE, rate, rate)
            samples.append(dataclasses.replace(one, wall_s=1000.0 + number))
        (found,) = gains(samples, stories.inventory())
        self.assertAlmostEqual(1.0, found.first)
        self.assertAlmostEqual((0.9 + 3 * 1.2) / 4, found.last)
        self.assertAlmostEqual(0.125, found.change)
        self.assertAlmostEqual(0.5 / 1.2, found.worst)
        self.assertEqual(1005.0, found.worst_s)
        found, few = (gains(samples[-count:], stories.inventory()) for count in (3, 2))
        self.assertEqual((1.2, 0.0), (round(found[0].last, 9), round(found[0].change, 9)))
        self.assertEqual([], few)

    def test_what_enforcing_could_have_given(self):
        """The mean of the samples that know; None without such a sample."""
        known = [Prospect(0.02, 0.3, 1, 1), None, Prospect(0.02, 0.3, 1, 1)]
        with mock.patch("iat_nova.report.pressures.worth", side_effect=known):
            mean = worth([mock.Mock()] * 3, stories.inventory())
        self.assertEqual((0.02, 0.3), (round(mean.likely, 9), round(mean.most, 9)))
        self.assertIsNone(worth([], stories.inventory()))

    def test_who_gained_and_the_worst_moment(self):
        """All tenants of a period. The receiver gains the cycles that no longer wait."""
        samples = []
        for second in range(100):
            made = stories.quiet(second, stories.NIGHT + second)
            part = 0.5 if 50 <= second < 60 else 1.2 if second >= 60 else 1.0
            be = Rates(part * 2e9, 4e9, 3e6, 1e5)
            pc = Rates(2e9 if second < 60 else 3e9, 4e9, 3e6, 4e6 if second < 60 else 0.0)
            rates = {**made.sample.tenants, stories.BE: be, stories.PC: pc}
            sample = dataclasses.replace(made.sample, tenants=rates)
            samples.append(dataclasses.replace(made, sample=sample))
        found = {one.tenant: one for one in gains(samples, stories.inventory())}
        self.assertAlmostEqual(0.2, found[stories.BE].change)
        self.assertAlmostEqual(0.5 / 1.2, found[stories.BE].worst)
        self.assertTrue(50 <= found[stories.BE].worst_s - stories.NIGHT < 60)
        self.assertAlmostEqual(0.9, found[stories.PC].first)
        self.assertAlmostEqual(1 / 0.9 - 1, found[stories.PC].change)
        self.assertAlmostEqual(0.0, found["stack"].change)
