# SPDX-License-Identifier: Apache-2.0
"""Where compiled kernels are kept, and what is said without numba."""

import contextlib
import io
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import numba

from iat_nova.sim import _compile, warm
from tools import compile_kernels

ROOT = pathlib.Path(__file__).parents[3]


class TestCacheFolder(unittest.TestCase):
    """The folder of compiled kernels."""

    def folder(self, **environment):
        _compile.cache_folder.cache_clear()
        self.addCleanup(_compile.cache_folder.cache_clear)
        with mock.patch.dict(os.environ, environment):
            return _compile.cache_folder()

    def test_the_users_choice_comes_first(self):
        """NUMBA_CACHE_DIR is where the folder is made, by its owner alone readable."""
        with tempfile.TemporaryDirectory() as base:
            folder = self.folder(NUMBA_CACHE_DIR=base)
            self.assertEqual(pathlib.Path(base), folder.parent)
            self.assertEqual(0o700, folder.stat().st_mode & 0o777)

    def test_a_place_that_cannot_be_written_is_passed_over(self):
        """When a folder cannot be made in one place the next is tried."""
        with tempfile.TemporaryDirectory() as base:
            blocked = pathlib.Path(base) / "file"
            blocked.touch()
            folder = self.folder(NUMBA_CACHE_DIR=str(blocked), XDG_CACHE_HOME=base)
            self.assertEqual(pathlib.Path(base) / "iat-nova", folder.parent)

    def test_what_was_not_used_for_a_month_goes(self):
        """Other versions' folders are removed a month after their last use, nothing else is."""
        with tempfile.TemporaryDirectory() as base:
            names = ("kernels-old", "kernels-recent", "notes")
            for name in names:
                (pathlib.Path(base) / name).mkdir()
            for name in ("kernels-old", "notes"):
                os.utime(pathlib.Path(base) / name, (0, 0))
            folder = self.folder(NUMBA_CACHE_DIR=base)
            os.utime(folder, (0, 0))
            self.assertEqual(folder, self.folder(NUMBA_CACHE_DIR=base))
            left = {one.name for one in pathlib.Path(base).iterdir()}
            self.assertEqual({folder.name, "kernels-recent", "notes"}, left)


class TestQuickstart(unittest.TestCase):
    """What ./quickstart says of the kernels."""

    def said(self, *kernels):
        out = io.StringIO()
        with (
            mock.patch.object(warm, "main", lambda: [kernel() for kernel in kernels]),
            contextlib.redirect_stdout(out),
        ):
            compile_kernels.main()
        return out.getvalue()

    def test_compiling_is_told_where_it_happens(self):
        """It is announced once, however much there is to compile, and not when all is compiled."""
        kernels = [numba.njit(lambda: 1), numba.njit(lambda: 2)]
        self.assertEqual(1, self.said(*kernels).count("compiling the emulated server"))
        self.assertEqual("", self.said(*kernels))


class TestWithoutNumba(unittest.TestCase):
    """The core is installed without the extra."""

    def test_the_message_names_the_extra(self):
        """Importing the package says what to install; the core is imported all the same."""
        script = (
            "import sys; sys.modules['numba'] = None\n"
            "import iat_nova.policy, iat_nova.hardware.api\n"
            "try:\n    import iat_nova.sim\n"
            "except ImportError as error:\n    print(error)\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
        )
        self.assertIn("pip install 'iat-nova[sim]'", done.stdout)
