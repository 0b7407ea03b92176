# SPDX-License-Identifier: Apache-2.0
"""Figures in reasons: short, in the field's units."""

import math
import unittest

from iat_nova.common import amounts


class AmountsTest(unittest.TestCase):
    def test_each(self) -> None:
        """Rates, sizes, relative changes, ways, and names up to a number."""
        for form, value, text in (
            (amounts.rate, 2.44e6, "2.4 M/s"),
            (amounts.rate, 1e6, "1.0 M/s"),
            (amounts.rate, 1.5e9, "1500.0 M/s"),
            (amounts.rate, 1e12, "1000000.0 M/s"),
            (amounts.rate, -3e6, "-3.0 M/s"),
            (amounts.rate, 999_400, "999 k/s"),
            (amounts.rate, 999_999.6, "1000 k/s"),
            (amounts.rate, 120_400, "120 k/s"),
            (amounts.rate, 1000, "1 k/s"),
            (amounts.rate, 999, "999 /s"),
            (amounts.rate, 999.9, "1000 /s"),
            (amounts.rate, 30.4, "30 /s"),
            (amounts.rate, 0, "0 /s"),
            (amounts.size, 3 << 29, "1.5 GiB"),
            (amounts.size, 1 << 30, "1.0 GiB"),
            (amounts.size, (1 << 30) - 1, "1024.0 MiB"),
            (amounts.size, 22 << 20, "22.0 MiB"),
            (amounts.size, 1 << 20, "1.0 MiB"),
            (amounts.size, -(1 << 20), "-1.0 MiB"),
            (amounts.size, (1 << 20) - 1, "1024 KiB"),
            (amounts.size, 64 << 10, "64 KiB"),
            (amounts.size, 700, "1 KiB"),
            (amounts.size, 0, "0 KiB"),
            (amounts.percent, 0.314, "+31 %"),
            (amounts.percent, -0.05, "-5 %"),
            (amounts.percent, 2.0, "+200 %"),
            (amounts.percent, math.inf, "from zero"),
            (amounts.ways, 1, "1 way"),
            (amounts.ways, 0, "0 ways"),
            (amounts.ways, 3, "3 ways"),
            (amounts.ways, 300, "300 ways"),
            (amounts.names, "abc", "a, b, c"),
            (amounts.names, "abcd", "a, b, c, d"),
            (amounts.names, "abcdefg", "a, b, c, d and 3 more"),
            (amounts.names, "", ""),
        ):
            with self.subTest(text):
                self.assertEqual(text, form(value))
        self.assertEqual("a and 2 more", amounts.names(iter("abc"), 1))
