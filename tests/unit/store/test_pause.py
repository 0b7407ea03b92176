# SPDX-License-Identifier: Apache-2.0
"""A pause holds until its time or until it is resumed, whatever state its file is in."""

import math
import os
import pathlib
import shutil
import tempfile
import unittest

from iat_nova.store.pause import Pause, PauseFile


class TestPause(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="iat-pause-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.file = PauseFile(self.folder)

    def test_none(self):
        """Without a file, and without a folder, nothing is paused."""
        self.assertIsNone(self.file.current(100.0))
        self.assertIsNone(PauseFile(self.folder / "absent").current(100.0))

    def test_written_by_another(self):
        """What one writes another reads, a pause without end too."""
        for pause in (Pause(100.0, 200.0, "firmware", "eve"), Pause(100.0, math.inf)):
            PauseFile(self.folder).write(pause)
            self.assertEqual(pause, self.file.current(150.0))

    def test_runs_out(self):
        """At its end a pause is over without anybody's help."""
        self.file.write(Pause(100.0, 200.0))
        self.assertIsNotNone(self.file.current(199.9))
        self.assertIsNone(self.file.current(200.0))

    def test_resume(self):
        """Resuming ends it; resuming again says that there was none."""
        self.file.write(Pause(100.0))
        self.assertTrue(self.file.clear())
        self.assertIsNone(self.file.current(100.0))
        self.assertFalse(self.file.clear())

    def test_replaced(self):
        """A second pause replaces the first, and nothing is left lying about."""
        self.file.write(Pause(100.0, reason="one"))
        self.assertEqual("one", self.file.current(100.0).reason)
        self.file.write(Pause(100.0, reason="two"))
        self.assertEqual("two", self.file.current(100.0).reason)
        self.assertEqual(["pause.json"], os.listdir(self.folder))

    def test_garbage_pauses(self):
        """A file nobody understands holds the masks and says how to go on."""
        for content in (b"", b"{", b"[]", b"\xff\xfe", b'{"until_s": "soon"}'):
            self.file.path.write_bytes(content)
            pause = self.file.current(1e12)
            self.assertIn("iat-nova resume", pause.reason)
            self.assertTrue(self.file.clear())
