# SPDX-License-Identifier: Apache-2.0
"""A question is waited for as long as one can afford, and asked once."""

import threading
import unittest

from iat_nova.inventory.patience import Patience


class PatienceTest(unittest.TestCase):
    def test_an_answer(self):
        """What the call returns is returned."""
        self.assertEqual(7, Patience(5.0).ask(lambda: 7))

    def test_an_error(self):
        """What the call raises is raised where it was asked."""
        with self.assertRaises(KeyError):
            Patience(5.0, KeyError).ask(lambda: {}["x"])

    def test_no_answer(self):
        """While one question is open no other is asked; afterwards the next one is."""
        release, asked = threading.Event(), []

        def hang():
            asked.append(1)
            release.wait(10)

        patience = Patience(0.01)
        for _ in range(3):
            with self.assertRaises(TimeoutError):
                patience.ask(hang)
        self.assertEqual([1], asked)
        release.set()
        open_question = patience._open
        self.assertTrue(open_question.answered.wait(10))
        self.assertEqual(7, Patience.ask(patience, lambda: 7))
