# SPDX-License-Identifier: Apache-2.0
"""Huge pages of the tests: what was taken is given back, whoever is killed."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

from tests.functional import huge_pages

ROOT = pathlib.Path(__file__).parents[2]

HOLD = """
import pathlib, sys
from tests.functional import huge_pages
with huge_pages.reserve(20, *map(pathlib.Path, sys.argv[1:])):
    print("held", flush=True)
    sys.stdin.read()
"""


class HugePagesTest(unittest.TestCase):
    """With a file in the place of the kernel's number: other tests may run on this machine."""

    def setUp(self):
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.number, self.claims = folder / "nr_hugepages", folder / "claims"
        self.number.write_text("100\n")

    def pages(self):
        return int(self.number.read_text())

    def reserve(self, megabytes):
        return huge_pages.reserve(megabytes, self.number, self.claims)

    def holder(self):
        """Start a process that holds ten pages."""
        process = subprocess.Popen(
            [sys.executable, "-c", HOLD, self.number, self.claims],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        self.assertEqual(b"held\n", process.stdout.readline())
        return process

    def test_given_back(self):
        """On top of what is there, and no claim is left."""
        with self.reserve(192):
            self.assertEqual(196, self.pages())
        self.assertEqual(100, self.pages())
        self.assertEqual([], list(self.claims.iterdir()))

    def test_given_back_after_a_failure(self):
        """An exception ends the claim too."""
        with self.assertRaises(ZeroDivisionError), self.reserve(8):
            raise ZeroDivisionError
        self.assertEqual(100, self.pages())

    def test_those_of_a_killed_run(self):
        """The next to claim gives back what the dead had, and not what the living have."""
        dead, living = self.holder(), self.holder()
        self.assertEqual(120, self.pages())
        dead.kill()
        dead.wait()
        self.assertEqual(120, self.pages())
        with self.reserve(4):
            self.assertEqual(112, self.pages())
        self.assertEqual(110, self.pages())
        living.communicate()
        self.assertEqual(100, self.pages())
        self.assertEqual([], list(self.claims.iterdir()))

    def test_killed_as_it_began(self):
        """A claim of which nothing was written has taken nothing."""
        self.claims.mkdir()
        (self.claims / "begun").touch()
        with self.reserve(2):
            self.assertEqual(101, self.pages())
        self.assertEqual([], list(self.claims.iterdir()))
