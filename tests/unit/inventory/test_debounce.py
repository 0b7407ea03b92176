# SPDX-License-Identifier: Apache-2.0
import threading
import unittest

from hypothesis import given, settings
from hypothesis import strategies as st

from iat_nova.common.clock import SystemClock
from iat_nova.inventory.debounce import Debouncer
from tests.unit.build import StillClock


class DebounceTest(unittest.TestCase):
    def setUp(self):
        self.clock = StillClock()
        self.changed = threading.Event()
        self.debouncer = self.make(self.clock)

    def make(self, clock, quiet_s=0.2, bound_s=2.0, slow_timer_s=30.0):
        return Debouncer(
            self.changed, clock, quiet_s=quiet_s, bound_s=bound_s, slow_timer_s=slow_timer_s
        )

    def at(self, now_s):
        self.clock.now_s = now_s
        return self.debouncer.fire_if_due()

    def test_burst_is_one_hint(self):
        """Hints close together fire once, when it has been quiet."""
        for tenth in range(5):
            self.clock.now_s = 100.0 + tenth / 10
            self.debouncer.hint()
            self.assertFalse(self.debouncer.fire_if_due())
        self.assertFalse(self.at(100.5))
        self.assertTrue(self.at(100.61))
        self.assertTrue(self.changed.is_set())
        self.assertFalse(self.at(101.0))

    def test_bound(self):
        """Hints that never cease are passed on at the bound."""
        fired_s = []
        for tenth in range(45):
            self.clock.now_s = 100.0 + tenth / 10
            self.debouncer.hint()
            if self.debouncer.fire_if_due():
                fired_s.append(round(self.clock.now_s, 1))
        self.assertEqual([102.0, 104.1], fired_s)

    def test_slow_timer(self):
        """Without a hint it fires now and then."""
        self.assertFalse(self.at(129.9))
        self.assertTrue(self.at(130.0))
        self.assertFalse(self.at(159.9))
        self.assertTrue(self.at(160.0))

    @settings(derandomize=True, max_examples=60, deadline=None)
    @given(st.lists(st.floats(0.01, 3.0), max_size=20))
    def test_no_hint_is_lost_or_late(self, gaps_s):
        """Whatever the pattern, each hint is followed by a firing within the bound."""
        self.setUp()
        waiting_since_s = None
        for gap_s in [*gaps_s, 3.0]:
            end_s = self.clock.now_s + gap_s
            while self.debouncer.due_s() <= end_s:
                self.assertTrue(self.at(max(self.clock.now_s, self.debouncer.due_s())))
                if waiting_since_s is not None:
                    self.assertLessEqual(self.clock.now_s, waiting_since_s + 2.0)
                waiting_since_s = None
            self.clock.now_s = end_s
            self.debouncer.hint()
            if waiting_since_s is None:
                waiting_since_s = end_s

    def test_thread(self):
        """The thread passes a hint from another thread on, and ends."""
        debouncer = self.make(SystemClock(), quiet_s=0.01)
        debouncer.start()
        threading.Thread(target=debouncer.hint).start()
        self.assertTrue(self.changed.wait(5))
        debouncer.close()
        self.assertNotIn("inventory-hints", [thread.name for thread in threading.enumerate()])
