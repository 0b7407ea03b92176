# SPDX-License-Identifier: Apache-2.0
"""Pauses that grow."""

import unittest

from iat_nova.common.retry import FIRST_S, LONGEST_S, Retry


class RetryTest(unittest.TestCase):
    def test_pauses_double_up_to_the_longest(self) -> None:
        """Each failure waits twice as long as the one before."""
        retry, now_s, pauses = Retry(), 1000.0, []
        self.assertTrue(retry.is_due(now_s))
        for _ in range(9):
            pauses.append(retry.failed(now_s))
            self.assertFalse(retry.is_due(now_s + pauses[-1] - 0.1))
            now_s += pauses[-1]
            self.assertTrue(retry.is_due(now_s))
        self.assertEqual([10.0, 20.0, 40.0, 80.0, 160.0, 320.0, 600.0, 600.0, 600.0], pauses)

    def test_what_held_for_long_begins_anew(self) -> None:
        """What fails again soon after it was tried goes on with the pauses as they were."""
        retry = Retry()
        self.assertEqual(FIRST_S, retry.failed(0.0))
        self.assertEqual(2 * FIRST_S, retry.failed(FIRST_S + LONGEST_S))
        self.assertEqual(FIRST_S, retry.failed(FIRST_S + LONGEST_S + 2 * FIRST_S + LONGEST_S + 1))
