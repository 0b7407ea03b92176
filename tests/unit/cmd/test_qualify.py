# SPDX-License-Identifier: Apache-2.0
"""iat-nova qualify where nothing may be begun, and how a signal ends it; the lab has the rest."""

import contextlib
import io
import os
import pathlib
import signal
import tempfile
import unittest

from iat_nova.cmd import main as program
from iat_nova.cmd.qualify import ending_by_signal


class Refusals(unittest.TestCase):
    """What is wrong is said before anything is opened."""

    def run_it(self, *words, options=""):
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        config = folder / "iat-nova.conf"
        config.write_text(f"[iat]\nstate_dir = {folder}\n{options}")
        said = io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            try:
                status = program.main(["qualify", *words, "--config-file", str(config)])
            except SystemExit as end:
                status = end.code
        return status, said.getvalue()

    def test_arguments(self):
        """Tests, CPUs and folders that are not there."""
        for words, why in (
            (("--only", "mask,disk"), "no such test: disk; there are mask, ddio, port, slices"),
            (("--only", ","), "none named"),
            (("--cpus", "a-b"), "'a-b' in the CPU list"),
            (("--cpus", ""), "it names no CPU"),
            (("--out", "/nowhere"), "--out /nowhere: there is no such folder; mkdir it"),
        ):
            with self.subTest(words):
                status, said = self.run_it(*words)
                self.assertEqual(2, status, said)
                self.assertIn(why, said)

    def test_emulated(self):
        """There is nothing to qualify."""
        status, said = self.run_it(
            "--yes", options="hardware = emulated\nemulated_scenario = figure7-a\n"
        )
        self.assertEqual(1, status)
        self.assertIn("there is no hardware to qualify", said)


class Signals(unittest.TestCase):
    """The first one ends it in order."""

    def test_only_the_first_counts(self):
        """It raises once; a second one does not disturb what restores; handlers come back."""
        before = signal.getsignal(signal.SIGTERM)
        restored = []
        with self.assertRaises(SystemExit) as end, ending_by_signal():
            try:
                os.kill(os.getpid(), signal.SIGTERM)
                self.fail("it went on")
            finally:
                os.kill(os.getpid(), signal.SIGINT)
                restored.append(True)
        self.assertEqual((143, [True]), (end.exception.code, restored))
        self.assertEqual(before, signal.getsignal(signal.SIGTERM))

    def test_the_first_during_a_restore(self):
        """It waits until the restore, before or after the measurement, is at its end."""
        for when in ("before", "after"):
            restored, measured = [], []
            with (
                self.subTest(when),
                self.assertRaises(SystemExit) as end,
                ending_by_signal() as ending,
                ending.deferred(),
                _restored(when, restored),
                ending.at_once(),
            ):
                measured.append(True)
            self.assertEqual((143, ["before", "after"]), (end.exception.code, restored))
            self.assertEqual([True] if when == "after" else [], measured)

    def test_between_measurement_and_restore(self):
        """It ends what measures, and the restore is not disturbed."""
        restored = []
        with (
            self.assertRaises(SystemExit) as end,
            ending_by_signal() as ending,
            ending.deferred(),
            _restored("", restored),
            ending.at_once(),
        ):
            os.kill(os.getpid(), signal.SIGHUP)
            self.fail("it went on")
        self.assertEqual((129, ["before", "after"]), (end.exception.code, restored))


@contextlib.contextmanager
def _restored(when, restored):
    """Note two restores, around what is inside; a signal comes during one of them."""
    for part in ("before", "after"):
        try:
            if part == "after":
                yield
        finally:
            if part == when:
                os.kill(os.getpid(), signal.SIGTERM)
            restored.append(part)
