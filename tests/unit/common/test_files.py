# SPDX-License-Identifier: Apache-2.0
import os
import pathlib
import tempfile
import unittest
from unittest import mock

from iat_nova.common import files


class ReadBytes(unittest.TestCase):
    """What stands in a file's place and must not hold its reader up."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def test_a_file(self):
        """A regular file is read whole, up to the limit."""
        (self.folder / "a").write_bytes(b"12345")
        self.assertEqual(b"12345", files.read_bytes(self.folder / "a", 5))
        with self.assertRaisesRegex(OSError, "is larger than 4 bytes"):
            files.read_bytes(self.folder / "a", 4)

    def test_other_kinds(self):
        """Devices, pipes and folders are refused at once."""
        os.mkfifo(self.folder / "pipe")
        for path in ("/dev/zero", self.folder / "pipe", self.folder):
            with self.subTest(path), self.assertRaisesRegex(OSError, "is not a regular file"):
                files.read_bytes(path)

    def test_a_pipe_swapped_in(self):
        """What is put in a file's place after it was looked at is not waited for."""
        path = self.folder / "a"
        path.write_bytes(b"12345")

        def swap(real):
            def call(*arguments, **options):
                found = real(*arguments, **options)
                path.unlink()
                os.mkfifo(path)
                return found

            return call

        with mock.patch("os.stat", swap(os.stat)), mock.patch("os.fstat", swap(os.fstat)):
            self.assertEqual(b"12345", files.read_bytes(path))
        with self.assertRaisesRegex(OSError, "is not a regular file"):
            files.read_bytes(path)

    def test_symbolic_links(self):
        """Followed: an operator names the file."""
        (self.folder / "a").write_bytes(b"1")
        (self.folder / "link").symlink_to("a")
        self.assertEqual(b"1", files.read_bytes(self.folder / "link"))

    def test_no_file(self):
        """What is not there is told as usual."""
        with self.assertRaises(FileNotFoundError):
            files.read_bytes(self.folder / "a")
