# SPDX-License-Identifier: Apache-2.0
"""``python -m tests.lab.guest MODULE [TEST...]``: run tests, tell the host through ``/mnt``."""

import json
import sys
import unittest

RESULTS = "/mnt/results"


class Reporter(unittest.TextTestResult):
    """Writes each outcome where the host reads it."""

    def _tell(self, **what):
        with open(RESULTS, "a") as file:
            file.write(json.dumps(what) + "\n")

    def addSuccess(self, test):
        super().addSuccess(test)
        self._tell(test=test.id(), status="passed")

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self._tell(test=test.id(), status="failed", text=self.failures[-1][1])

    def addError(self, test, err):
        super().addError(test, err)
        self._tell(test=test.id(), status="failed", text=self.errors[-1][1])

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            bad = (self.failures + self.errors)[-1]
            self._tell(test=subtest.id(), status="failed", text=bad[1])

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self._tell(test=test.id(), status="skipped", text=reason)

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


def main(module, *names):
    loader = unittest.TestLoader()
    full = f"tests.lab.guest.{module}"
    wanted = [f"{full}.{name}" for name in names] or [full]
    suite = loader.loadTestsFromNames(wanted)
    runner = unittest.TextTestRunner(resultclass=Reporter, verbosity=1)
    return 0 if runner.run(remaining(suite)).wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
