# SPDX-License-Identifier: Apache-2.0
"""Where compiled kernels are kept, and what is said without numba."""

import contextlib
import io
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import numba
import numpy as np
from numba import types

from iat_nova.experiments.sim import _compile, lcg, warm
from tools import compile_kernels

ROOT = pathlib.Path(__file__).parents[4]
SIM = pathlib.Path(_compile.__file__).parent


class TestCacheFolder(unittest.TestCase):
    """Where the folders of compiled kernels are."""

    def folder(self, **environment):
        _compile.cache_folder.cache_clear()
        self.addCleanup(_compile.cache_folder.cache_clear)
        with mock.patch.dict(os.environ, environment):
            return _compile.cache_folder()

    def test_the_users_choice_comes_first(self):
        """In NUMBA_CACHE_DIR a module's folder is made, by its owner alone readable."""
        with tempfile.TemporaryDirectory() as base:
            self.assertEqual(pathlib.Path(base), self.folder(NUMBA_CACHE_DIR=base))
            folder = _compile.module_folder(pathlib.Path(base), pathlib.Path(lcg.__file__))
            self.assertEqual(pathlib.Path(base), folder.parent)
            self.assertEqual(0o700, folder.stat().st_mode & 0o777)

    def test_a_place_that_cannot_be_written_is_passed_over(self):
        """When a folder cannot be made in one place the next is tried."""
        with tempfile.TemporaryDirectory() as base:
            blocked = pathlib.Path(base) / "file"
            blocked.touch()
            folder = self.folder(NUMBA_CACHE_DIR=str(blocked), XDG_CACHE_HOME=base)
            self.assertEqual(pathlib.Path(base) / "iat-nova", folder)

    def test_a_cold_cache_is_known_before_it_is_filled(self):
        """Nothing there, and the machine code of the engine's kernels there."""
        with tempfile.TemporaryDirectory() as base:
            self.folder(NUMBA_CACHE_DIR=base)
            self.assertTrue(_compile.is_cold())
            folder = _compile.module_folder(pathlib.Path(base), SIM / "engine.py")
            self.assertTrue(_compile.is_cold())
            (folder / "engine.advance-1.py311.nbi").touch()
            self.assertFalse(_compile.is_cold())

    def test_what_was_not_used_for_a_month_goes(self):
        """Folders are removed a month after their last use, nothing else is."""
        with tempfile.TemporaryDirectory() as base:
            names = ("kernels-old", "kernels-recent", "notes")
            for name in names:
                (pathlib.Path(base) / name).mkdir()
            for name in ("kernels-old", "notes"):
                os.utime(pathlib.Path(base) / name, (0, 0))
            folder = self.folder(NUMBA_CACHE_DIR=base)
            left = {one.name for one in folder.iterdir()}
            self.assertEqual({"kernels-recent", "notes"}, left)


class TestDigest(unittest.TestCase):
    """What a module's folder is named after."""

    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.enterContext(
            mock.patch.object(_compile, "_SIM", self.folder / "iat_nova/experiments/sim")
        )
        self.addCleanup(self.forget)
        self.source = self.folder / "iat_nova/experiments/sim/engine.py"
        shutil.copytree(SIM, self.source.parent, ignore=shutil.ignore_patterns("__pycache__"))

    def forget(self):
        _compile.digest.cache_clear()
        _compile._imports.cache_clear()

    def digest(self, **added):
        """Return the engine's digest in a copy of the package with a line added to modules."""
        for name, line in added.items():
            with (
                (self.source.parent / name.replace("__", "/")).with_suffix(".py").open("a") as file
            ):
                file.write(line)
        self.forget()
        return _compile.digest(self.source)

    def test_it_follows_the_content_not_the_place(self):
        """A checkout elsewhere, made at another time, has the same."""
        with mock.patch.object(_compile, "_SIM", SIM):
            here = _compile.digest(SIM / "engine.py")
        self.assertEqual(here, self.digest())

    def test_it_follows_what_is_imported(self):
        """A module that the engine's kernels call counts, however far, and no other does."""
        before = self.digest()
        self.assertEqual(before, self.digest(run="# more", scenario="# more"))
        far = self.digest(_lanes="# more")
        self.assertNotEqual(before, far)
        self.assertNotEqual(far, self.digest(workloads__fio="# more"))


@_compile.kernel
def _doubled(number):
    return 2 * number


@_compile.kernel
def _at(numbers, index):
    return numbers[index]


class TestIndices(unittest.TestCase):
    """What an index is."""

    def test_a_negative_index_is_no_place_from_the_end(self):
        """No time goes into that in kernels; in other code of the process it is as ever."""
        numbers = np.arange(4)
        self.assertEqual([3, 0], [_at(numbers[1:], 2), _at(numbers[1:], -1)])
        self.assertEqual(3, numba.njit(_at.py_func)(numbers[1:], -1))


class TestVariants(unittest.TestCase):
    """How many compiled forms a kernel has."""

    def test_whole_numbers_are_of_one_kind_to_a_kernel_that_is_called(self):
        """Written out, of 8, 32 or 64 bits: it is compiled once."""
        for kind in (types.int8, types.int32, types.int64, types.literal(3), types.literal(4)):
            _doubled.get_call_template((kind,), {})
        self.assertEqual([(types.int64,)], _doubled.signatures)


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
            "try:\n    import iat_nova.experiments.sim.server\n"
            "except ImportError as error:\n    print(error)\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
        )
        self.assertIn("pip install 'iat-nova[sim]'", done.stdout)
