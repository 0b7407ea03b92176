# SPDX-License-Identifier: Apache-2.0
"""Quantities are read as people write them, and nothing else is."""

import unittest

from hypothesis import given, settings
from hypothesis import strategies as st

from iat_nova.policy import units
from iat_nova.policy.units import Kind
from tests.said import raises


class UnitsTest(unittest.TestCase):
    def test_what_people_write(self) -> None:
        """Each spelling has its value in the base unit."""
        for kind, written, value in (
            (Kind.FRACTION, "3%", 0.03),
            (Kind.FRACTION, "7 %", 0.07),
            (Kind.FRACTION, 0.03, 0.03),
            (Kind.RATE, "1M/s", 1e6),
            (Kind.RATE, "100k/s", 1e5),
            (Kind.RATE, "1.5 M/s", 1.5e6),
            (Kind.RATE, "1e6", 1e6),
            (Kind.RATE, 500, 500.0),
            (Kind.DURATION, "500ms", 0.5),
            (Kind.DURATION, "10s", 10.0),
            (Kind.DURATION, "2min", 120.0),
            (Kind.DURATION, "1h", 3600.0),
            (Kind.DURATION, 2, 2.0),
            (Kind.SIZE, "1MiB", 1048576.0),
            (Kind.SIZE, "2MB", 2e6),
            (Kind.SIZE, ".5KiB", 512.0),
        ):
            with self.subTest(written=written):
                self.assertEqual(value, units.parse(kind, written))

    def test_what_is_refused(self) -> None:
        """A wrong or ambiguous unit is refused and what is allowed is named."""
        for kind, written, message in (
            (Kind.RATE, "1MB/s", "unknown unit 'MB/s'"),
            (Kind.RATE, "1M", "unknown unit 'M'"),
            (Kind.RATE, "5%", "unknown unit '%'"),
            (Kind.DURATION, "10m", "unknown unit 'm'"),  # minutes or milli-?
            (Kind.SIZE, "10", "the unit is missing"),
            (Kind.SIZE, 10, "the unit is missing"),
            (Kind.FRACTION, True, "expected a fraction such as 3%"),
            (Kind.FRACTION, float("nan"), "expected a fraction"),
            (Kind.FRACTION, "three", "expected a fraction"),
            (Kind.DURATION, None, "expected a duration"),
            (Kind.DURATION, "1e999s", "expected a duration"),
            (Kind.RATE, "١٠", "expected a rate"),
        ):
            with self.subTest(written=written), raises(self, units.UnitError, message):
                units.parse(kind, written)

    @given(
        st.sampled_from((Kind.FRACTION, Kind.RATE, Kind.DURATION)),
        st.integers(0, 10**9),
        st.integers(0, 4),
    )
    @settings(derandomize=True, max_examples=200)
    def test_text_reads_back(self, kind: Kind, digits: int, decimals: int) -> None:
        """What `text` writes has the value it was written for, to six digits."""
        value = digits / 10**decimals
        self.assertAlmostEqual(
            1.0, (units.parse(kind, units.text(kind, value)) + 1) / (value + 1), places=5
        )

    def test_text_takes_the_largest_unit(self) -> None:
        """Defaults are shown as an operator would write them."""
        for kind, value, text in (
            (Kind.FRACTION, 1, "100%"),
            (Kind.FRACTION, 0.03, "3%"),
            (Kind.RATE, 1e6, "1M/s"),
            (Kind.RATE, 0, "0"),
            (Kind.DURATION, 0.5, "500ms"),
            (Kind.DURATION, 640, "640s"),
            (Kind.DURATION, 120, "2min"),
        ):
            self.assertEqual(text, units.text(kind, value))
