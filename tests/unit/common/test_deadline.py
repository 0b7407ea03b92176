# SPDX-License-Identifier: Apache-2.0
"""A question is waited for as long as one can afford, and its answer counts whenever it comes."""

import threading
import unittest

from iat_nova.common.deadline import Deadline
from tests.unit import stories

LONG_S = 10.0


class DeadlineTest(unittest.TestCase):
    def setUp(self):
        self.release, self.late = threading.Event(), threading.Event()
        self.asked = []

    def slow(self):
        self.asked.append(1)
        self.release.wait(LONG_S)
        return len(self.asked)

    def give_up(self, deadline, times=1):
        for _ in range(times):
            with self.assertRaises(TimeoutError):
                deadline.ask(self.slow)

    def test_an_answer(self):
        """What the call returns is returned, and nobody is told of it."""
        self.assertEqual(7, Deadline(5.0, self.late.set).ask(lambda: 7))
        self.assertFalse(self.late.is_set())

    def test_an_error(self):
        """What the call raises is raised where it was asked."""
        with self.assertRaises(KeyError):
            Deadline(5.0).ask(lambda: {}["x"])

    def test_one_question(self):
        """While one question is open no other is asked."""
        self.give_up(Deadline(0.01), times=3)
        self.assertEqual([1], self.asked)
        self.release.set()

    def test_a_late_answer(self):
        """An answer that comes late is told of, and is what the next one who asks gets."""
        deadline = Deadline(0.01, self.late.set)
        self.give_up(deadline)
        self.release.set()
        self.assertTrue(self.late.wait(LONG_S))
        self.assertEqual((1, [1]), (deadline.ask(self.slow), self.asked))
        self.assertEqual((2, [1, 1]), (deadline.ask(self.slow), self.asked))

    def test_a_late_error(self):
        """An error that comes late is raised once."""
        deadline = Deadline(0.01, self.late.set)

        def fail():
            self.release.wait(LONG_S)
            raise KeyError("x")

        with self.assertRaises(TimeoutError):
            deadline.ask(fail)
        self.release.set()
        self.assertTrue(self.late.wait(LONG_S))
        with self.assertRaises(KeyError):
            deadline.ask(fail)
        self.assertEqual(7, deadline.ask(lambda: 7))

    def test_asked_meanwhile(self):
        """Whoever asked while the question was open is told to ask once more: it may be older."""
        deadline = Deadline(0.01, self.late.set)
        self.give_up(deadline, times=2)
        self.release.set()
        self.assertTrue(self.late.wait(LONG_S))
        self.late.clear()
        deadline.ask(self.slow)
        self.assertTrue(self.late.is_set())
        self.late.clear()
        deadline.ask(self.slow)
        self.assertFalse(self.late.is_set())

    def test_a_hung_call_does_not_keep_the_process(self):
        """It ends while the call waits for ever, and nobody joins the call's thread."""
        code = """
            import threading
            from iat_nova.common.deadline import Deadline
            try:
                Deadline(0.01).ask(threading.Event().wait)
            except TimeoutError:
                print("on")
        """
        told = stories.python(code)
        self.assertEqual((0, "on"), (told.returncode, told.stdout.strip()), told.stderr)
