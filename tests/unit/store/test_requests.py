# SPDX-License-Identifier: Apache-2.0
"""A pause and holds last until their time or their end, whatever their files hold."""

import json
import math
import os
import pathlib
import shutil
import tempfile
import unittest

from iat_nova.common.untrusted import LAST_S
from iat_nova.model import Hold, Pause
from iat_nova.store.requests import MOST_HOLDS, Holds, PauseFile


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


class TestHolds(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="iat-holds-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.holds = Holds(self.folder)

    def test_none(self):
        """Without a file, and without a folder, nobody is held."""
        self.assertEqual((), self.holds.current(1.0))
        self.assertEqual((), Holds(self.folder / "absent").current(1.0))

    def test_what_one_writes_another_reads(self):
        """Each tenant's by itself; a second replaces the first, and nothing is left lying about."""
        one = Hold("u1", "db", 3, 100.0, 200.0, "import", "eve")
        two = Hold("pool", "pool", 1, 110.0)
        for hold in (two, Hold("u1", "db", 4, 90.0), one):
            Holds(self.folder).write(hold)
            self.assertIn(hold, self.holds.current(120.0))
        self.assertEqual({one, two}, set(self.holds.current(120.0)))
        self.assertEqual(["pool.json", "u1.json"], sorted(os.listdir(self.holds.path)))

    def test_ends(self):
        """By its time, without anybody's help; by release, also of what is not there."""
        self.holds.write(Hold("u1", "db", 3, 100.0, 200.0))
        self.holds.write(Hold("u2", "web", 2, 100.0))
        self.assertEqual(2, len(self.holds.current(199.9)))
        self.assertEqual(["u2"], [hold.tenant for hold in self.holds.current(200.0)])
        self.assertEqual(math.inf, self.holds.current(200.0)[0].until_s)
        for _ in range(2):
            self.holds.clear("u2")
            self.assertEqual((), self.holds.current(200.0))

    def test_garbage(self):
        """A file nobody understands is a hold of no ways that says what is wrong with it."""
        self.holds.path.mkdir()
        for content in (b"", b"{", b"[]", b"\xff", b'{"ways": 0}', b'{"ways": "3"}', b"{}"):
            (self.holds.path / "u1.json").write_bytes(content)
            (hold,) = self.holds.current(1e12)
            self.assertEqual(("u1", 0), (hold.tenant, hold.ways))
            self.assertIn("u1.json is unreadable: treated as no hold", hold.reason)

    def test_links_are_not_followed(self):
        """Whoever may write there cannot have root read another file."""
        self.holds.write(Hold("u1", "db", 3, 100.0))
        (self.holds.path / "u1.json").rename(self.folder / "elsewhere")
        (self.holds.path / "u1.json").symlink_to(self.folder / "elsewhere")
        self.assertEqual([0], [hold.ways for hold in self.holds.current(101.0)])

    def test_too_many(self):
        """The first ones by name are read, and it is said; all can be ended."""
        self.holds.path.mkdir()
        for number in range(MOST_HOLDS + 3):
            (self.holds.path / f"{number:05}.json").write_text("{")
        found = self.holds.current(1.0)
        self.assertEqual(MOST_HOLDS + 1, len(found))
        self.assertIn("iat-nova release --all", found[-1].reason)
        self.holds.clear_all()
        self.assertEqual((), self.holds.current(1.0))

    def test_something_else_in_the_place_of_the_folder(self):
        """It is said, and can be ended; holds can begin then."""
        for make in (pathlib.Path.touch, lambda path: path.symlink_to(self.folder)):
            make(self.holds.path)
            (found,) = self.holds.current(1.0)
            self.assertIn("it is not a folder", found.reason)
            self.holds.clear_all()
            self.holds.write(Hold("u1", "db", 3, 100.0))
            self.assertEqual(1, len(self.holds.current(101.0)))
            shutil.rmtree(self.holds.path)

    def test_names_that_nobody_can_type(self):
        """The remedy is one that works for all."""
        self.holds.path.mkdir()
        for name in (b"-x.json", b"\xff.json", b" .json", b".json", b"a\nb.json"):
            (self.holds.path / os.fsdecode(name)).write_bytes(b"{")
        for hold in self.holds.current(1.0):
            self.assertIn("`iat-nova release --all`", hold.reason)


class TestWhatIsWritten(unittest.TestCase):
    def test_can_be_read(self):
        """Whatever a name or reason holds: it is cut, or written as an escape."""
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        text = "\ud800" + "x" * 1000
        PauseFile(folder).write(Pause(0.0, LAST_S, text, text))
        Holds(folder).write(Hold("u1", text, 64, 0.0, LAST_S, text, text))
        self.assertEqual(LAST_S, PauseFile(folder).current(1.0).until_s)
        self.assertEqual(64, Holds(folder).current(1.0)[0].ways)

    def test_longer_texts_of_earlier_versions(self):
        """What is only told is cut: the pause and the hold stay in force."""
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        texts = dict.fromkeys(("name", "reason", "by"), "x" * 500)
        plain = json.dumps({"since_s": 0.0, "until_s": None, "ways": 3, **texts})
        (folder / "holds").mkdir()
        for name in ("pause.json", "holds/u1.json"):
            (folder / name).write_text(plain)
        cut = "x" * 397 + "..."
        pause, (hold,) = PauseFile(folder).current(1.0), Holds(folder).current(1.0)
        self.assertEqual((cut, cut), (pause.reason, pause.by))
        self.assertEqual(Hold("u1", cut, 3, 0.0, math.inf, cut, cut), hold)
