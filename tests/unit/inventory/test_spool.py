# SPDX-License-Identifier: Apache-2.0
import os
import pathlib
import tempfile
import unittest

from iat_nova.inventory.spool import Spool, SpoolError
from tests.said import raises


class SpoolTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.spool = Spool(self.folder)

    def test_reads_a_file(self):
        """An instance's specs come from its own file; further members do not matter."""
        (self.folder / "u.json").write_text('{"flavor": "m1", "extra_specs": {"iat:io": "true"}}')
        self.assertEqual({"iat:io": "true"}, self.spool.extra_specs_of("u"))

    def test_unknown(self):
        """No file, or no folder, means unknown; an empty mapping means none."""
        self.assertIsNone(self.spool.extra_specs_of("u"))
        self.assertIsNone(Spool(self.folder / "absent").extra_specs_of("u"))
        (self.folder / "u.json").write_text('{"extra_specs": {}}')
        self.assertEqual({}, self.spool.extra_specs_of("u"))

    def test_faults_name_the_file(self):
        """Whatever a file holds, an error names it and nothing else is raised."""
        for text in ("{", "[]", '{"extra_specs": 1}', '{"extra_specs": {"a": 1}}', "[" * 100_000):
            with self.subTest(text[:30]):
                (self.folder / "u.json").write_text(text)
                with raises(self, SpoolError, r"u\.json"):
                    self.spool.extra_specs_of("u")

    def test_not_utf_8(self):
        """Bytes that are no text are an error as well."""
        (self.folder / "u.json").write_bytes(b'{"extra_specs": {"a": "\xff"}}')
        with self.assertRaises(SpoolError):
            self.spool.extra_specs_of("u")

    def test_huge(self):
        """A file too large to be true is not read into memory."""
        (self.folder / "u.json").write_text('{"extra_specs": {"a": "' + "x" * 300_000 + '"}}')
        with raises(self, SpoolError, "larger"):
            self.spool.extra_specs_of("u")

    def test_a_link_or_a_pipe(self):
        """Who may write there neither has the agent read another file, nor has it wait."""
        (self.folder / "a").write_text('{"extra_specs": {}}')
        (self.folder / "u.json").symlink_to("a")
        with raises(self, SpoolError, "u.json cannot be read: .*symbolic links"):
            self.spool.extra_specs_of("u")
        os.mkfifo(self.folder / "v.json")
        with raises(self, SpoolError, "v.json cannot be read: is not a regular file"):
            self.spool.extra_specs_of("v")

    def test_unreadable(self):
        """A file that cannot be opened is an error, not a silence."""
        (self.folder / "u.json").mkdir()
        with raises(self, SpoolError, "cannot be read"):
            self.spool.extra_specs_of("u")
