# SPDX-License-Identifier: Apache-2.0
"""The time limit of tests where suites with different limits are in one process."""

import pathlib
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).parents[2]
LEFT = """
import signal, unittest
from tests import time_limit

class Test(unittest.TestCase):
    def test(self):
        print(round(signal.getitimer(signal.ITIMER_REAL)[0], -1))

for limit_s in LIMITS:
    time_limit.install(limit_s)
unittest.main(argv=["test"])
"""


class TimeLimitTest(unittest.TestCase):
    def test_the_longest_counts(self):
        """In whatever order the suites were imported."""
        for limits in ((900.0, 300.0), (300.0, 900.0)):
            with self.subTest(limits):
                code = LEFT.replace("LIMITS", repr(limits))
                done = subprocess.run(
                    [sys.executable, "-c", code],
                    cwd=ROOT,
                    capture_output=True,
                    text=True,
                    check=True,
                )
                self.assertEqual("900.0\n", done.stdout)
