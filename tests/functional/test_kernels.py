# SPDX-License-Identifier: Apache-2.0
"""Equal sources are compiled once on a machine: whichever checkout, and however many at a time."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).parents[2]

# Prints where it ran and how many kernels it had to compile; numba has some of its own.
_SCRIPT = """
from numba.core.event import RecordingListener, install_listener
from iat_nova.experiments.sim import lcg
recorded = RecordingListener()
with install_listener("numba:compile", recorded):
    lcg.number(lcg.following(5))
started = [event.data["dispatcher"] for _, event in recorded.buffer if event.is_start]
print(lcg.__file__, sum(one.py_func.__module__ == lcg.__name__ for one in started))
"""


class SharedKernelsTest(unittest.TestCase):
    """Processes with one cache folder and checkouts of their own."""

    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        skip = shutil.ignore_patterns("__pycache__")
        for name in ("here", "there"):
            # Without the times of change of what is copied: a checkout is as old as it is.
            copy = self.folder / name / "iat_nova"
            shutil.copytree(ROOT / "iat_nova", copy, ignore=skip, copy_function=shutil.copyfile)

    def start(self, name):
        """Start a process that runs some kernels of a checkout."""
        cache = str(self.folder / "cache")
        return subprocess.Popen(
            [sys.executable, "-c", _SCRIPT],
            env={**os.environ, "NUMBA_CACHE_DIR": cache, "PYTHONPATH": str(self.folder / name)},
            cwd=self.folder,
            stdout=subprocess.PIPE,
            text=True,
        )

    def compiled(self, process):
        """Return how many kernels a process compiled once it has ended."""
        said, _ = process.communicate()
        self.assertEqual(0, process.returncode)
        where, count = said.split()
        self.assertTrue(pathlib.Path(where).is_relative_to(self.folder))
        return int(count)

    def test_another_checkout_compiles_nothing(self):
        """What one checkout has compiled, another finds."""
        self.assertEqual(2, self.compiled(self.start("here")))
        self.assertEqual(0, self.compiled(self.start("there")))

    def test_two_at_once_compile_each_kernel_once(self):
        """The second waits for what the first is compiling."""
        both = [self.start("here"), self.start("there")]
        self.assertEqual(2, sum(map(self.compiled, both)))
