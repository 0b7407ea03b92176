# SPDX-License-Identifier: Apache-2.0
"""Localities: shares, sizes and the tables that kernels draw from."""

import math
import unittest

import numpy as np

from iat_nova.experiments.scenarios import locality

MIB = 1 << 20


class TestLocality(unittest.TestCase):
    """Pieces of memory and the share of the accesses each gets."""

    def test_zipf_is_what_the_law_says(self):
        """The share of the most popular records is the ratio of harmonic sums; all are covered."""
        pieces = locality.zipf(10_000, 1024)
        self.assertAlmostEqual(1.0, sum(share for share, _ in pieces))
        self.assertAlmostEqual(10_000 * 1024, locality.size_bytes(pieces))
        harmonic = np.cumsum(np.arange(1, 10_001) ** -0.99)
        for records in (10, 100, 1000):
            share = sum(
                part * min(1.0, max(0.0, records * 1024 - start) / size)
                for (part, size), start in zip(pieces, _starts(pieces), strict=True)
            )
            expected = harmonic[records - 1] / harmonic[-1]
            self.assertLess(abs(share - expected), 1 / 64, records)

    def test_table_keeps_shares_and_sizes(self):
        """Slots are dealt by share; the stretches lie side by side and cover the memory."""
        pieces = ((0.5, 1 * MIB), (0.3, 2 * MIB), (0.2, 61 * MIB))
        table = locality.table(pieces, 1000, 32)
        self.assertEqual((locality.SLOTS, 2), table.shape)
        stretches, counts = np.unique(table, axis=0, return_counts=True)
        self.assertEqual([128, 77, 51], list(counts))
        lines = [round(size / 64 / 32) for _, size in pieces]
        self.assertEqual(lines, list(stretches[:, 1]))
        self.assertEqual([1000, 1000 + lines[0], 1000 + sum(lines[:2])], list(stretches[:, 0]))

    def test_small_pieces_are_not_lost(self):
        """A piece smaller than a sampled line is one line."""
        table = locality.table(locality.zipf(1000, 64), 0, 32)
        self.assertEqual(1, table[:, 1].min())
        self.assertLessEqual((table[:, 0] + table[:, 1]).max(), math.ceil(1000 / 32))

    def test_mixed_weighs_its_parts(self):
        """Two localities side by side keep their own shares within their weights."""
        mix = locality.mixed((0.25, locality.uniform(MIB)), (0.75, ((0.5, 10.0), (0.5, 20.0))))
        self.assertEqual(((0.25, MIB), (0.375, 10.0), (0.375, 20.0)), mix)


def _starts(pieces):
    return np.cumsum([0.0, *(size for _, size in pieces)])[:-1]
