# SPDX-License-Identifier: Apache-2.0
import errno
import os
import pathlib
import stat
import tempfile
import unittest
from unittest import mock

from iat_nova.common import owned_folder
from iat_nova.common.owned_folder import HeldFile, OwnedFolder

ACCOUNT = 64123  # nobody's number
AS_ROOT = unittest.skipUnless(os.geteuid() == 0, "only root can act as another account")


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.outside = pathlib.Path(folder.name)
        self.outside.chmod(0o755)
        self.path = self.outside / "state"
        self.path.mkdir()
        self.folder = OwnedFolder(self.path)

    def give_away(self):
        """Have another account own the folder."""
        os.chown(self.path, ACCOUNT, ACCOUNT)


class Files(Case):
    """Reading, replacing and removing."""

    def test_whole(self):
        """What is written is read, with its mode; a limit holds."""
        self.folder.replace("a", "text", 0o640)
        self.assertEqual(b"text", self.folder.read("a", 4))
        self.assertEqual(0o640, stat.S_IMODE(self.folder.status("a").st_mode))
        with self.assertRaisesRegex(OSError, "larger than 3 bytes.*state/a"):
            self.folder.read("a", 3)
        self.assertTrue(self.folder.remove("a"))
        self.assertFalse(self.folder.remove("a"))
        self.assertIsNone(self.folder.status("a"))

    def test_missing_folder(self):
        """A folder that is not there has no files; it can be made, with those above."""
        folder = OwnedFolder(self.path / "b/c").subfolder("d")
        self.assertIsNone(folder.status("a"))
        self.assertFalse(folder.remove("a"))
        with self.assertRaises(FileNotFoundError):
            folder.read("a")
        folder.make(0o700)
        self.assertEqual([], folder.names())
        self.assertEqual(0o700, stat.S_IMODE(folder.path.stat().st_mode))

    def test_glance(self):
        """A glance sees what a status sees, and opens nothing: loops glance in each iteration."""
        self.folder.replace("a", "text")
        (self.path / "link").symlink_to("/etc/passwd")
        below = self.folder.subfolder("missing")
        with mock.patch("os.open", side_effect=AssertionError("opened")):
            seen = [self.folder.glance("a"), self.folder.glance("link"), below.glance("a")]
        self.assertEqual([self.folder.status("a"), self.folder.status("link"), None], seen)

    def test_no_paths(self):
        """A name is no path."""
        for name in ("", ".", "..", "a/b", "/etc/passwd", "a\0"):
            for call in (
                lambda name: self.folder.replace(name, "x"),
                self.folder.read,
                self.folder.remove,
                self.folder.subfolder,
                lambda name: self.folder.locked(name, print),
            ):
                with self.subTest(name), self.assertRaisesRegex(OSError, "not the name of a file"):
                    call(name)

    def test_links_are_not_followed(self):
        """A link is refused by readers and locks, replaced by writers, removed for itself."""
        victim = self.outside / "victim"
        victim.write_text("precious")
        (self.path / "a").symlink_to(victim)
        with self.assertRaisesRegex(OSError, "symbolic links"):
            self.folder.read("a")
        with self.assertRaisesRegex(OSError, "symbolic links"):
            self.folder.locked("a", print)
        self.assertTrue(stat.S_ISLNK(self.folder.status("a").st_mode))
        self.folder.replace("a", "mine")
        self.assertFalse((self.path / "a").is_symlink())
        (self.path / "b").symlink_to(victim)
        self.folder.remove("b")
        self.assertEqual("precious", victim.read_text())

    def test_other_kinds(self):
        """A pipe or a folder in a file's place is refused and holds nobody up."""
        os.mkfifo(self.path / "pipe")
        (self.path / "sub").mkdir()
        for name in ("pipe", "sub"):
            with self.assertRaisesRegex(OSError, "is not a regular file|Is a directory"):
                self.folder.locked(name, print)
            with self.assertRaisesRegex(OSError, "is not a regular file"):
                self.folder.read(name)
        with self.assertRaises(IsADirectoryError):
            self.folder.replace("sub", "x")
        self.assertEqual({"pipe", "sub"}, set(os.listdir(self.path)))  # no temporary file

    def test_subfolder_link(self):
        """A subfolder that is a link is refused, whoever made it."""
        (self.outside / "other").mkdir()
        (self.path / "sub").symlink_to(self.outside / "other")
        below = self.folder.subfolder("sub")
        for call in (below.make, below.names, lambda: below.replace("a", "x")):
            with self.assertRaisesRegex(NotADirectoryError, "state/sub"):
                call()
        self.assertEqual([], os.listdir(self.outside / "other"))

    def test_interrupted(self):
        """A replace that fails leaves nothing; what a killed one left goes with the next."""
        with (
            mock.patch("os.fchmod", side_effect=OSError(errno.ENOSPC, "full")),
            self.assertRaisesRegex(OSError, "full.*state/a"),
        ):
            self.folder.replace("a", "x")
        self.assertEqual([], os.listdir(self.path))
        for name, at_s in ((".a.new-0", 0), (".a.new-1", None), (".b.new-2", 0)):
            (self.path / name).write_text("")
            os.utime(self.path / name, None if at_s is None else (at_s, at_s))
        self.folder.replace("a", "x")
        self.assertEqual([".a.new-1", ".b.new-2", "a"], sorted(os.listdir(self.path)))

    def test_names(self):
        """In order; others are left out."""
        for name in ("b.json", "a.json", "c"):
            (self.path / name).write_text(name)
        self.assertEqual(["a.json", "b.json"], self.folder.names(".json"))
        with mock.patch.object(owned_folder, "MOST_ENTRIES", 1):
            self.assertEqual(1, len(self.folder.names()))


class Locks(Case):
    """Locks are of files, not of names."""

    def test_swapped(self):
        """A file that is swapped while it is locked is locked anew."""
        locked = []

        def lock(fd):
            locked.append(os.fstat(fd).st_ino)
            if len(locked) < 3:
                self.folder.replace("lock", "another")

        fd = self.folder.locked("lock", lock)
        self.addCleanup(os.close, fd)
        self.assertEqual(3, len(locked))
        self.assertTrue(self.folder.holds("lock", fd))
        self.folder.remove("lock")
        self.assertFalse(self.folder.holds("lock", fd))

    def test_always_swapped(self):
        """Who swaps the file for ever is refused, with no descriptor left open."""
        before = len(os.listdir("/proc/self/fd"))
        with self.assertRaisesRegex(OSError, "again and again"):
            self.folder.locked("lock", lambda fd: self.folder.replace("lock", "x"))
        self.assertEqual(before, len(os.listdir("/proc/self/fd")))

    def test_kept(self):
        """A locked file that was removed is made and locked anew, with one descriptor at a time."""
        locked = []
        held = HeldFile(self.path / "lock", locked.append)
        self.addCleanup(held.close)
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(3):
            self.folder.remove("lock")
            for _ in range(2):
                held.keep()
                self.assertTrue(self.folder.holds("lock", held.descriptor))
        self.assertEqual((4, before), (len(locked), len(os.listdir("/proc/self/fd"))))

    def test_second_name(self):
        """A lock that is a hard link of another file is refused, and untouched."""
        (self.outside / "victim").write_text("precious")
        os.link(self.outside / "victim", self.path / "lock")
        with self.assertRaisesRegex(OSError, "second name"):
            self.folder.locked("lock", print)


class Paths(Case):
    """Which links in the path of a folder are followed."""

    def test_ours(self):
        """Links of root and of this user, relative and absolute, are followed; a loop ends."""
        self.folder.replace("a", "x")
        (self.outside / "absolute").symlink_to(self.path)
        (self.outside / "relative").symlink_to("state/../absolute/.")
        (self.outside / "loop").symlink_to("loop")
        self.assertEqual(b"x", OwnedFolder(self.outside / "relative").read("a"))
        with self.assertRaisesRegex(OSError, "symbolic links"):
            OwnedFolder(self.outside / "loop").read("a")

    @AS_ROOT
    def test_of_others(self):
        """Links of another account, or in a folder of another account, are refused."""
        (self.path / "by_root").symlink_to(self.outside)
        (self.outside / "by_another").symlink_to(self.path)
        os.lchown(self.outside / "by_another", ACCOUNT, ACCOUNT)
        self.give_away()
        for path in (self.path / "by_root", self.outside / "by_another"):
            with self.subTest(path), self.assertRaisesRegex(OSError, "of another account"):
                OwnedFolder(path).names()


@AS_ROOT
class AnotherAccount(Case):
    """Root acts as the owner of the folder."""

    def setUp(self):
        super().setUp()
        self.give_away()

    def test_files(self):
        """What root makes belongs to the owner, folders too."""
        self.folder.replace("a", "x", 0o640)
        below = self.folder.subfolder("sub")
        below.make()
        os.close(self.folder.locked("lock", lambda fd: None))
        for name in ("a", "sub", "lock"):
            found = self.folder.status(name)
            self.assertEqual((ACCOUNT, ACCOUNT), (found.st_uid, found.st_gid), name)

    def test_no_more_than_the_owner(self):
        """What the owner may not do root does not do for it."""
        secret = self.path / "secret"
        secret.write_text("root's")
        secret.chmod(0o600)
        with self.assertRaises(PermissionError):
            self.folder.read("secret")
        self.path.chmod(0o500)
        with self.assertRaises(PermissionError):
            self.folder.replace("a", "x")

    def test_files_of_a_third_account(self):
        """Where anybody may write into the folder, others' files are not taken for the owner's."""
        (self.path / "planted").write_text("theirs")
        os.chown(self.path / "planted", ACCOUNT + 1, ACCOUNT)
        self.folder.replace("own", "the owner's")
        (self.path / "roots").write_text("root's")
        self.path.chmod(0o1777)
        self.assertEqual(b"theirs", self.folder.read("planted"))
        with self.assertRaisesRegex(PermissionError, "another account than its folder.*planted"):
            self.folder.read("planted", own=True)
        for name in ("own", "roots"):
            self.assertTrue(self.folder.read(name, own=True))
        self.path.chmod(0o775)
        self.assertEqual(b"theirs", self.folder.read("planted", own=True))

    def test_root_again(self):
        """Afterwards root is root, also after an error; other threads never cease to be."""
        private = self.outside / "private"
        private.write_text("x")
        private.chmod(0o600)
        with self.assertRaises(ZeroDivisionError), self.folder.acting_as_owner():
            with self.assertRaises(PermissionError):
                private.read_text()
            1 / 0  # noqa: B018
        self.assertEqual("x", private.read_text())

    def test_refused(self):
        """Root without the right to be another account is told so, and writes nothing."""
        libc = mock.Mock(**{"setfsuid.return_value": 0, "setfsgid.return_value": 0})
        with (
            mock.patch("ctypes.CDLL", return_value=libc),
            self.assertRaisesRegex(PermissionError, f"cannot act as user {ACCOUNT}"),
        ):
            self.folder.replace("a", "x")
        self.assertEqual([], os.listdir(self.path))

    def test_for_good(self):
        """A command that needs nothing of root becomes the owner, and stays it."""
        child = os.fork()
        if child == 0:
            try:
                owned_folder.become_owner(self.path)
                kept = os.getresuid() == os.getresgid() == (ACCOUNT,) * 3 and not os.getgroups()
                os._exit(0 if kept else 1)
            finally:
                os._exit(2)
        self.assertEqual(0, os.waitpid(child, 0)[1])


class Named(Case):
    """Files that an operator names."""

    def test_written(self):
        """A file that is missing or regular is written."""
        for text in ("one", "two"):
            owned_folder.write_named(self.path / "a", text)
            self.assertEqual(text, (self.path / "a").read_text())

    def test_refused(self):
        """A link, a pipe or a device is not replaced."""
        (self.outside / "victim").write_text("precious")
        (self.path / "link").symlink_to(self.outside / "victim")
        os.mkfifo(self.path / "pipe")
        for path in (self.path / "link", self.path / "pipe", "/dev/null"):
            with self.subTest(path), self.assertRaisesRegex(OSError, "not a regular file"):
                owned_folder.write_named(path, "x")
        self.assertEqual("precious", (self.outside / "victim").read_text())
