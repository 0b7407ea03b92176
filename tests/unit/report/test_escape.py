# SPDX-License-Identifier: Apache-2.0
"""Texts are cut to columns."""

import unittest

from iat_nova.report import escape


class CutTest(unittest.TestCase):
    """What is left of a text that is too wide."""

    def test_middle(self) -> None:
        """Begin and end stay, the end with at most half of the other columns."""
        self.assertEqual("compute-0…pute-017", escape.middle("compute-0000-in-compute-017", 18))
        self.assertEqual("web", escape.middle("web", 3))

    def test_the_middle_of_wide_characters(self) -> None:
        """No text is wider than its columns."""
        for columns in range(1, 20):
            cut = escape.middle("計算機計算機計算機-10", columns)
            self.assertLessEqual(escape.width(cut), columns)

    def test_wrap(self) -> None:
        """Lines break at blanks; the last line takes the rest, cut."""
        self.assertEqual(["one two", "three f…"], escape.wrap("one two three four five", 8, 2))
