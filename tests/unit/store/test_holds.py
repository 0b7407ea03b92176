# SPDX-License-Identifier: Apache-2.0
"""A hold stands until its time or its release, each tenant's by itself."""

import math
import os
import pathlib
import shutil
import tempfile
import unittest

from iat_nova.model import Hold
from iat_nova.store.holds import Holds


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
            self.assertIn("u1.json cannot be understood", hold.reason)

    def test_links_are_not_followed(self):
        """Whoever may write there cannot have root read another file."""
        self.holds.write(Hold("u1", "db", 3, 100.0))
        (self.holds.path / "u1.json").rename(self.folder / "elsewhere")
        (self.holds.path / "u1.json").symlink_to(self.folder / "elsewhere")
        self.assertEqual([0], [hold.ways for hold in self.holds.current(101.0)])
