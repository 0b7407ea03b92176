# SPDX-License-Identifier: Apache-2.0
"""The compiled engine: each variant has equal results, and none leaves its arrays."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import numpy as np

from iat_nova.experiments.engine import adaptive, cache, layout, library, recipe
from iat_nova.experiments.machines.machine import GOLD_6140

ROOT = pathlib.Path(__file__).parents[4]
CHECKED = "-O1 -g -Werror -fsanitize=address,undefined -fno-sanitize-recover=all"


def states(flags, **environment):
    """Return digests of the states of an engine that is compiled with more flags."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.unit.experiments.sim.native_state"],
        env={**os.environ, "IAT_NOVA_ENGINE_FLAGS": flags, **environment},
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise AssertionError(done.stderr[-4000:])
    return done.stdout


class VariantsTest(unittest.TestCase):
    def test_variants_are_equal_and_stay_in_bounds(self):
        """AVX2, the compiler's own vectors, plain loops; and under the sanitizers."""
        asan = subprocess.check_output(["gcc", "-print-file-name=libasan.so"], text=True).strip()
        checks = {"LD_PRELOAD": asan, "ASAN_OPTIONS": "detect_leaks=0"}
        expected = states("-Werror")
        self.assertEqual(22, len(set(expected.splitlines())))
        for flags, environment in (
            ("-Werror -DPORTABLE", {}),
            ("-Werror -DSCALAR", {}),
            (CHECKED, checks),
        ):
            with self.subTest(flags):
                self.assertEqual(expected, states(flags, **environment))

    def test_random_numbers(self):
        """The next state is the product without its highest bit, whatever overflows."""
        state = 1
        for _ in range(1000):
            expected = (state * 6364136223846793005 + 1442695040888963407) % 2**63
            state = library.FUNCTIONS["next_state"](state)
            self.assertEqual(expected, state)


class BuildTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def cache_folder(self):
        with mock.patch.dict(os.environ, XDG_CACHE_HOME=str(self.folder)):
            return library.cache_folder()

    def test_without_a_compiler_the_remedy_is_named(self):
        environment = {"XDG_CACHE_HOME": str(self.folder), "PATH": "/none", "CC": ""}
        with self.assertRaisesRegex(AssertionError, "needs a C compiler .*: install gcc"):
            states("-DOTHER", **environment)

    def test_a_failing_compiler_is_quoted(self):
        with self.assertRaisesRegex(AssertionError, "cannot be compiled: .*-fno-such-flag"):
            states("-fno-such-flag", XDG_CACHE_HOME=str(self.folder))

    def test_a_folder_that_others_can_write_is_passed_over(self):
        self.assertEqual(self.folder / "iat-nova", self.cache_folder())
        (self.folder / "iat-nova").chmod(0o777)
        self.assertNotEqual(self.folder / "iat-nova", self.cache_folder())

    def test_it_follows_the_content_and_old_libraries_go(self):
        """Another checkout shares the library; a change or another flag does not."""
        with mock.patch.dict(os.environ, XDG_CACHE_HOME=str(self.folder)):
            old, other = (self.folder / "iat-nova" / f"{name}.so" for name in ("engine-1", "x"))
            old.parent.mkdir(mode=0o700)
            for path in (old, other):
                path.touch()
                os.utime(path, (0, 0))
            with mock.patch.object(library, "_compile", lambda target, flags: target.touch()):
                self.assertEqual(library._built([]), library._built([]))
                self.assertNotEqual(library._built([]), library._built(["-g"]))
        self.assertEqual((False, True), (old.exists(), other.exists()))
        before = library.digest()
        shutil.copytree(library.FOLDER, self.folder / "copy")
        with mock.patch.object(recipe, "FOLDER", self.folder / "copy"):
            self.assertEqual(before, library.digest())
            (self.folder / "copy" / "llc.c").write_text("")
            self.assertNotEqual(before, library.digest())


class LayoutTest(unittest.TestCase):
    def test_an_array_of_another_form_is_refused(self):
        """A wrong number of columns, type or order would be read beyond its end, or as nonsense."""
        made = cache.make(GOLD_6140, 32).adaptive
        for wrong in (np.zeros(3, np.int64), np.zeros(4), np.zeros(8, np.int64)[::2]):
            with self.subTest(wrong), self.assertRaisesRegex(TypeError, "not an array of Adaptive"):
                _ = adaptive.Adaptive(wrong, made.watch, made.stack, made.directory).address

    def test_names(self):
        self.assertEqual(1 << 25, layout.number("CLOCK_LIMIT"))
        self.assertEqual(40 << 5, layout.number("BINS"))
        self.assertEqual(["line", "reads"], list(layout.columns("DirectoryEntry").names))
        with self.assertRaises(AttributeError):
            _ = layout.columns("Ring").post
