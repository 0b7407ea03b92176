# SPDX-License-Identifier: Apache-2.0
"""What PMD threads did, from the counts that ovs-vswitchd shows (3.1's text)."""

import unittest

from iat_nova.inventory.pmd_stats import PmdCounts, PmdStats, parse
from iat_nova.model import PmdThread

THREAD = """\
pmd thread numa_id 0 core_id {cpu}:
  packets received: {packets}
  packet recirculations: 7
  avg. datapath passes per packet: 1.00
  phwol hits: 0
  emc hits: 12
  megaflow hits: 3
  avg. subtable lookups per megaflow hit: 1.50
  miss with success upcall: 2
  miss with failed upcall: {lost}
  avg. packets per output batch: 1.02
  idle cycles: {idle} (60.00%)
  processing cycles: {busy} (40.00%)
  avg cycles per packet: 500.00 (1000/2)
"""
MAIN = """\
main thread:
  packets received: 99
  idle cycles: 1 (1.00%)
  processing cycles: 1 (1.00%)
  miss with failed upcall: 1
"""


def shown(*threads):
    """Return the text for threads of (CPU, packets, lost upcalls, busy, idle)."""
    names = ("cpu", "packets", "lost", "busy", "idle")
    return "".join(THREAD.format(**dict(zip(names, t, strict=True))) for t in threads) + MAIN


class ParseTest(unittest.TestCase):
    def test_threads(self):
        """Threads by CPU; the main thread's counts belong to none of them."""
        self.assertEqual(
            {2: PmdCounts(10, 1, 40, 60), 3: PmdCounts(0, 0, 0, 5)},
            parse(shown((2, 10, 1, 40, 60), (3, 0, 0, 0, 5))),
        )

    def test_others(self):
        """No thread, none of the counts, or any other text: nothing."""
        for text in ("", MAIN, "pmd thread numa_id 0 core_id 1:\n", "\x00", "  idle cycles: 3\n"):
            with self.subTest(text):
                self.assertEqual({}, parse(text))


class UpdateTest(unittest.TestCase):
    def setUp(self):
        self.stats = PmdStats()

    def test_between_two_looks(self):
        """The share of busy cycles, and packets, since the last look."""
        self.assertEqual((), self.stats.update(10.0, shown((2, 100, 5, 1000, 9000))))
        (thread,) = self.stats.update(12.0, shown((2, 140, 7, 21000, 49000)))
        self.assertEqual(PmdThread(2, 1 / 3, 20.0, 500.0, 1.0), thread)

    def test_old_form(self):
        """Open vSwitch before 2.10 has other names; a thread without cycles is no such form."""
        old = "pmd thread numa_id 0 core_id 1:\n\temc hits:7\n\tidle cycles:9 (100.00%)\n"
        for text, unknown in (
            (old, True),
            (MAIN, False),
            ("", False),
            (shown((2, 0, 0, 0, 0)), False),
        ):
            self.stats.update(0.0, text)
            self.assertIs(unknown, self.stats.unknown_form)

    def test_fractions(self):
        """Rates are no whole numbers, and a look may come long after the last."""
        self.stats.update(10.0, shown((2, 0, 0, 0, 0)))
        (thread,) = self.stats.update(32.0, shown((2, 33, 11, 50, 50)))
        self.assertEqual(PmdThread(2, 0.5, 1.5, 50 / 33, 0.5), thread)

    def test_idle(self):
        """Nothing came: no cycles a packet; a thread that had no cycle was neither."""
        self.stats.update(10.0, shown((2, 1, 0, 5, 5), (3, 1, 0, 5, 5)))
        found = self.stats.update(11.0, shown((2, 1, 0, 5, 9), (3, 1, 0, 5, 5)))
        self.assertEqual(
            (PmdThread(2, 0.0, 0.0, None, 0.0), PmdThread(3, None, 0.0, None, 0.0)), found
        )

    def test_looks_in_a_burst(self):
        """Within a second the last figures stand."""
        self.stats.update(10.0, shown((2, 0, 0, 0, 0)))
        first = self.stats.update(11.0, shown((2, 10, 0, 50, 50)))
        self.assertEqual(first, self.stats.update(11.5, shown((2, 900, 0, 51, 50))))
        (later,) = self.stats.update(13.0, shown((2, 30, 0, 150, 50)))
        self.assertEqual(PmdThread(2, 1.0, 10.0, 5.0, 0.0), later)

    def test_cleared_and_new(self):
        """Counts that fell, and threads that were not there, are left out until the next look."""
        self.stats.update(10.0, shown((2, 100, 0, 50, 50)))
        self.assertEqual((), self.stats.update(12.0, shown((2, 1, 0, 5, 5), (3, 1, 0, 5, 5))))
        found = self.stats.update(14.0, shown((2, 3, 0, 6, 6), (3, 1, 0, 5, 6)))
        self.assertEqual([2, 3], [thread.cpu for thread in found])
