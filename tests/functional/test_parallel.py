# SPDX-License-Identifier: Apache-2.0
"""Runs in processes of this machine, as they are by default."""

import contextlib
import os
import pathlib
import select
import signal
import subprocess
import sys
import tempfile
import unittest

from iat_nova.experiments.runs import parallel


def _twice(number):
    return 2 * number


PARENT = """
import os, time
from iat_nova.experiments.runs import parallel
if __name__ == "__main__":
    with parallel.executor(1) as executor:
        print(executor.submit(os.getpid).result(), flush=True)
        time.sleep(60)
"""


def _end(pidfd):
    with contextlib.suppress(ProcessLookupError):
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)


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

    def test_a_parent_that_is_killed(self):
        """Its processes end with it: nobody would give them work."""
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        script = folder / "parent.py"
        script.write_text(PARENT)
        with subprocess.Popen(
            [sys.executable, script], stdout=subprocess.PIPE, text=True
        ) as parent:
            worker = os.pidfd_open(int(parent.stdout.readline()))
            self.addCleanup(os.close, worker)
            self.addCleanup(_end, worker)
            parent.terminate()
            parent.wait(30)
            self.assertEqual([worker], select.select([worker], [], [], 30)[0])

    def test_each_argument_with_its_result(self):
        """Whatever is done first, a result comes with what was asked."""
        with parallel.executor(1) as executor:
            found = {
                n: future.result() for n, future in parallel.completed(executor, _twice, [1, 2])
            }
        self.assertEqual({1: 2, 2: 4}, found)
