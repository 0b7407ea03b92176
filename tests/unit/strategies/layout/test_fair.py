# SPDX-License-Identifier: Apache-2.0
"""Counts that need more ways than there are give ways, the largest first."""

import unittest

from iat_nova.strategies.layout import grouping


class CutTest(unittest.TestCase):
    def test_which_counts_give(self) -> None:
        """The largest, among equal ones the first by the order; none below its minimum."""
        for counts, least, excess, left, after in (
            ({"a": 3, "b": 5}, {"a": 1, "b": 1}, 0, 0, {"a": 3, "b": 5}),
            ({"a": 3, "b": 5}, {"a": 1, "b": 1}, -2, -2, {"a": 3, "b": 5}),
            ({"a": 3, "b": 5}, {"a": 1, "b": 1}, 2, 0, {"a": 3, "b": 3}),
            ({"a": 5, "b": 3}, {"a": 1, "b": 1}, 1, 0, {"a": 4, "b": 3}),
            ({"a": 3, "b": 3}, {"a": 1, "b": 1}, 1, 0, {"a": 3, "b": 2}),
            ({"a": 3, "b": 5}, {"a": 1, "b": 1}, 6, 0, {"a": 1, "b": 1}),
            ({"a": 3, "b": 5}, {"a": 1, "b": 1}, 9, 3, {"a": 1, "b": 1}),
            ({"a": 3, "b": 5}, {"a": 1, "b": 4}, 3, 0, {"a": 1, "b": 4}),
            ({"a": 3, "b": 5}, {"a": 1}, 3, 1, {"a": 1, "b": 5}),
            ({"a": 3, "b": 1}, {"a": 3, "b": 2}, 1, 1, {"a": 3, "b": 1}),
        ):
            with self.subTest(counts=counts, least=least, excess=excess):
                found = grouping.cut(counts, least, excess, lambda key: -ord(key))
                self.assertEqual((left, after), (found, counts))
