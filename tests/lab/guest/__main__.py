# SPDX-License-Identifier: Apache-2.0
"""``python -m tests.lab.guest MODULE...``: run tests, tell the host through ``/mnt``."""

import json
import os
import sys
import time
import unittest
from pathlib import Path

from iat_nova.hardware.counters import events
from tests import proofs

RESULTS = "/mnt/results"
BEGUN = Path("/mnt/begun")
PANIC_ON_OOPS = Path("/proc/sys/kernel/panic_on_oops")


class Reporter(unittest.TextTestResult):
    """Writes each outcome where the host reads it."""

    _begin = 0.0

    def _tell(self, **what):
        with open(RESULTS, "a") as file:
            file.write(json.dumps(what) + "\n")

    def _outcome(self, test, status, **what):
        seconds = round(time.monotonic() - self._begin, 1)
        self._tell(
            test=test.id(), status=status, seconds=seconds, proves=proofs.proven_by(test), **what
        )

    def startTestRun(self):
        super().startTestRun()
        known = events.cpu_model().known
        self._tell(cpu=known.name, kernel=".".join(os.uname().release.split(".")[:2]))

    def startTest(self, test):
        super().startTest(test)
        self._begin = time.monotonic()

    def addSuccess(self, test):
        super().addSuccess(test)
        self._outcome(test, "passed")

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self._outcome(test, "failed", text=self.failures[-1][1])

    def addError(self, test, err):
        super().addError(test, err)
        self._outcome(test, "failed", text=self.errors[-1][1])

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            bad = (self.failures + self.errors)[-1]
            self._outcome(subtest, "failed", text=bad[1])

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self._outcome(test, "skipped", text=reason)

    def stopTestRun(self):
        super().stopTestRun()
        self._tell(end=True)


def remaining(suite):
    """Return the tests that have no outcome yet: an earlier guest may have ended half-way."""
    try:
        with open(RESULTS) as file:
            done = {json.loads(line).get("test") for line in file}
    except FileNotFoundError:
        done = set()

    def left(part):
        if isinstance(part, unittest.TestCase):
            return [] if part.id() in done else [part]
        return [test for inner in part for test in left(inner)]

    return unittest.TestSuite(left(suite))


def main(*modules):
    """Run the modules, or a class or test in them; return the exit status."""
    BEGUN.touch()
    PANIC_ON_OOPS.write_text("1")  # a kernel that stumbled ends the guest; it proves nothing more
    suite = unittest.TestLoader().loadTestsFromNames([f"tests.lab.guest.{one}" for one in modules])
    runner = unittest.TextTestRunner(resultclass=Reporter, verbosity=1)
    return 0 if runner.run(remaining(suite)).wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
