# SPDX-License-Identifier: Apache-2.0
import unittest

from hypothesis import given, settings
from hypothesis import strategies as st

from iat_nova.common.cpulist import format_cpus, parse_cpus


class CpuListTest(unittest.TestCase):
    def test_grammar(self):
        """Numbers, ranges and exclusions are read wherever they stand, blanks or not."""
        cases = {
            "": set(),
            "3": {3},
            "0-3,8": {0, 1, 2, 3, 8},
            " 0 - 2 , 4 ,": {0, 1, 2, 4},
            "^1,0-2": {0, 2},
            "0-7,^2-5": {0, 1, 6, 7},
            "4-4": {4},
        }
        for text, expected in cases.items():
            with self.subTest(text):
                self.assertEqual(expected, parse_cpus(text))

    def test_faults_are_quoted(self):
        """A fault names the part it lies in."""
        for text, part in (("0-3,x", "x"), ("3-1", "3-1"), ("-1", "-1"), ("1-", "1-"), ("^", "^")):
            with self.subTest(text), self.assertRaises(ValueError) as caught:
                parse_cpus(text)
            self.assertIn(f"'{part}'", str(caught.exception))

    def test_absurd_range(self):
        """A range beyond any machine is refused, not made."""
        with self.assertRaises(ValueError):
            parse_cpus("0-99999999999")

    @settings(derandomize=True, max_examples=60, deadline=None)
    @given(st.frozensets(st.integers(0, 300)))
    def test_round_trip(self, cpus):
        """What is formatted is read back as the same set."""
        self.assertEqual(cpus, parse_cpus(format_cpus(cpus)))

    def test_format(self):
        """Runs are written as ranges."""
        self.assertEqual("0-3,8,10-11", format_cpus([8, 0, 1, 2, 3, 10, 11, 1]))
