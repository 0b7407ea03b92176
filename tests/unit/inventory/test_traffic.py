# SPDX-License-Identifier: Apache-2.0
import unittest

from iat_nova.inventory.traffic import Traffic

KEY = ("u", 1, "tap1")


class TrafficTest(unittest.TestCase):
    def setUp(self):
        self.traffic = Traffic(window_s=1.0)

    def rate(self, now_s, count):
        return self.traffic.rates(now_s, {KEY: count})[KEY]

    def test_rate(self):
        """The first count gives no rate; the second the packets a second since the first."""
        self.assertIsNone(self.rate(10.0, 1000))
        self.assertEqual(500.0, self.rate(12.0, 2000))

    def test_any_second(self):
        """Neither the clock nor the counts need to be whole multiples of anything."""
        self.rate(10.0, 1000)
        self.assertEqual(200.5, self.rate(32.0, 5411))

    def test_window(self):
        """Unless told otherwise two counts are a second apart."""
        traffic = Traffic()
        traffic.rates(10.0, {KEY: 0})
        self.assertIsNone(traffic.rates(10.9, {KEY: 90})[KEY])
        self.assertEqual(100.0, traffic.rates(11.0, {KEY: 100})[KEY])

    def test_burst_of_reconciles(self):
        """Counts within the window neither give a rate nor move its beginning."""
        self.rate(10.0, 1000)
        self.assertIsNone(self.rate(10.1, 1500))
        self.assertEqual(1000.0, self.rate(11.0, 2000))
        self.assertEqual(1000.0, self.rate(11.1, 9000))

    def test_reset(self):
        """A counter that went back starts anew, and never gives a negative rate."""
        self.rate(10.0, 1000)
        self.assertIsNone(self.rate(12.0, 5))
        self.assertEqual(10.0, self.rate(13.0, 15))

    def test_forgets(self):
        """A device that was gone has no rate when it comes back."""
        self.rate(10.0, 1000)
        self.assertEqual({}, self.traffic.rates(11.0, {}))
        self.assertIsNone(self.rate(12.0, 2000))

    def test_silence_is_zero(self):
        """A device that carried nothing has the rate zero, which is known."""
        self.rate(10.0, 1000)
        self.assertEqual(0.0, self.rate(11.0, 1000))
