# SPDX-License-Identifier: Apache-2.0
"""Runs in processes of this machine, as they are by default."""

import os
import signal
import unittest

from iat_nova.experiments.sim import parallel


def _twice(number):
    return 2 * number


def _killed(number):
    os.kill(os.getpid(), signal.SIGKILL)
    return number


class ProcessesTest(unittest.TestCase):
    def test_a_process_that_is_killed(self):
        """By the kernel for want of memory, mostly: it is said so."""
        said = self.assertRaisesRegex(parallel.ParallelError, "was killed, .*--jobs 1")
        with said, parallel.executor(1) as executor:
            for _, future in parallel.completed(executor, _killed, [1]):
                future.result()

    def test_each_argument_with_its_result(self):
        """Whatever is done first, a result comes with what was asked."""
        with parallel.executor(1) as executor:
            found = {
                n: future.result() for n, future in parallel.completed(executor, _twice, [1, 2])
            }
        self.assertEqual({1: 2, 2: 4}, found)
