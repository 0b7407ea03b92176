# SPDX-License-Identifier: Apache-2.0
"""The history on a disk that is full and under the eyes of a user with no rights."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

from iat_nova.store.reader import HistoryReader
from iat_nova.store.writer import History
from tests.unit import stories

# It becomes nobody itself, once all is imported: the checkout and the Python in it may well
# stand in a folder that nobody may enter.
READER = """
    import os, sys
    from iat_nova.store.reader import HistoryReader
    os.setgroups([])
    os.setresgid(65534, 65534, 65534)
    os.setresuid(65534, 65534, 65534)
    with HistoryReader(sys.argv[1]) as reader:
        print(reader.latest(0).iteration.decision.iteration)
"""


@unittest.skipUnless(os.getuid() == 0, "needs root, to mount a small disk and to become nobody")
class TestHistoryAsRoot(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="iat-history-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.folder.chmod(0o755)
        self.path = self.folder / "history.sqlite"
        self.clock = stories.SetClock()

    def open(self):
        history = History(self.path, max_age_s=1e6, max_bytes=8 << 20, clock=self.clock)
        self.addCleanup(history.close)
        return history

    def mount(self, size):
        """Make the folder a small disk of its own."""
        command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "iat-nova-test", self.folder]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            self.skipTest(f"this machine lets nobody mount: {done.stderr.strip()}")
        self.addCleanup(subprocess.run, ["umount", "--lazy", self.folder], check=False)

    def test_full_disk(self):
        """A full disk is told, and once there is room again recording goes on."""
        self.mount("1m")
        history = self.open()
        stories.tell(history, clock=self.clock)
        self.assertTrue(history.flush(), history.problem)
        filler = self.folder / "filler"
        with self.assertRaises(OSError), open(filler, "wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))
        for number in range(13, 400):
            history.record(stories.quiet(number, self.clock.wall_s + number))
        while history.problem is None:  # a busy machine takes longer than a second
            self.assertFalse(history.flush(timeout_s=1.0))
        self.assertIn("the disk is full", history.problem)
        filler.unlink()
        self.assertTrue(history.flush(), history.problem)
        self.assertIsNone(history.problem)
        with HistoryReader(self.path) as reader:
            self.assertEqual(399, reader.latest(0).iteration.decision.iteration)

    def test_stranger_reads(self):
        """A user who may write nothing reads beside the agent, after its death, after its end."""
        for ending in ("die", "close"):
            stories.python(stories.WRITER, self.path, ending)
            with self.subTest(ending):
                self.assert_nobody_reads("12")
        history = self.open()
        row = history.inventory(self.clock.wall(), stories.facts(), {})
        history.record(stories.quiet(14, self.clock.wall_s, inventory_id=row))
        self.assertTrue(history.flush(), history.problem)
        with self.subTest("alive"):
            self.assert_nobody_reads("14")

    def assert_nobody_reads(self, number):
        read = stories.python(READER, self.path)
        self.assertEqual(f"{number}\n", read.stdout, read.stderr)
