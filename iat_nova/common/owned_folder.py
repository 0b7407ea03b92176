# SPDX-License-Identifier: Apache-2.0
"""Files in a folder that another account may own: the service's, Nova's, a shared folder.

Root, and the agent with CAP_DAC_OVERRIDE, work in folders of other owners. An owner may replace any
file by a link, a pipe or a folder at any moment. Three rules keep the owner from gaining anything:

* A folder is opened first and used by its descriptor. No symbolic link is followed below a folder
  of another account. A file is checked after the open; modes are set on descriptors.
* Root acts as the owner of the folder (setfsuid(2), which concerns the calling thread alone). A
  trick in the folder thus has no effect that its owner could not have without root.
* A file is replaced through a new file with a random name, never written in place. The only files
  written in place are locks, and a lock with a second name (a hard link) is refused.

All functions raise `OSError` with the path of the file.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import itertools
import os
import secrets
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

from iat_nova.common import files

MOST_LINKS = 16  # symbolic links in the path of a folder
MOST_ENTRIES = 10_000  # of a folder: further entries are ignored
_TEMPORARY = ".new-"
_ABANDONED_NS = 60 * 10**9  # age at which a temporary file is abandoned
_TRIES = 20
_ID = 0xFFFFFFFF  # uid_t and gid_t have no sign
_FOLDER = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY


class OwnedFolder:
    """A folder, named by its path. Each call opens the folder again: it may be replaced meanwhile.

    Root acts as the folder's owner in every call.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._above: OwnedFolder | None = None

    def subfolder(self, name: str) -> OwnedFolder:
        """Return a folder in this folder; a symbolic link in its place is refused."""
        below = OwnedFolder(self.path / _plain(name))
        below._above = self
        return below

    # ------------------------------------------------------------------------- the folder

    def make(self, mode: int = 0o755) -> None:
        """Create the folder and its parent folders where missing."""
        with self._worded(None), self._opened(mode):
            pass

    @contextlib.contextmanager
    def acting_as_owner(self) -> Iterator[None]:
        """Make root act as the folder's owner for all file access in this thread.

        For libraries that take only paths, such as SQLite.
        """
        with self._worded(None), self._opened() as fd:
            owner = os.fstat(fd)
        with acting_as(owner.st_uid, owner.st_gid):
            yield

    def names(self, suffix: str = "") -> list[str]:
        """Return the names with this suffix, sorted, of the first `MOST_ENTRIES` entries."""
        with self._worded(None), self._opened() as fd, _listed(fd) as entries:
            return sorted(entry.name for entry in entries if entry.name.endswith(suffix))

    # -------------------------------------------------------------------------- its files

    def status(self, name: str) -> os.stat_result | None:
        """Return the status of an entry, a link not followed; None if file or folder is missing."""
        try:
            with self._worded(name), self._opened() as fd:
                return os.stat(name, dir_fd=fd, follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def glance(self, name: str) -> os.stat_result | None:
        """Return the status of a file by one lstat(2), or None if file or folder is missing.

        Only for a cheap check whether the file was changed or replaced since an earlier call: the
        answer cannot be trusted. Symbolic links in the path of the folder are followed, so another
        account may fake the status. After a difference, open the file by `read`, `open` or
        `locked`, which follow no such link. If a difference is hidden, the caller continues with
        its own file or its last reading, as if the file were unchanged.
        """
        try:
            return os.lstat(self.path / name)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def read(self, name: str, most: int = files.MOST_BYTES, *, own: bool = False) -> bytes:
        """Return a regular file's content. Refuses other kinds, links, and more than `most`.

        `own`: refuses also a file that any other account may have put into the folder.
        """
        return files.read_open(self.open(name, own=own), self.path / name, most)

    def replace(
        self, name: str, text: str | bytes, mode: int = 0o644, *, durable: bool = False
    ) -> None:
        """Replace a file atomically: a reader sees all of the text or the previous file.

        Any entry of this name is replaced, also a link. `durable`: wait until all is on disk.
        """
        content = text.encode() if isinstance(text, str) else text
        with self._worded(name), self._opened() as folder:
            temporary, fd = _new_file(folder, _plain(name))
            try:
                with open(fd, "wb") as file:
                    file.write(content)
                    file.flush()
                    os.fchmod(fd, mode)
                    _remove_abandoned(folder, name, os.fstat(fd).st_mtime_ns)
                    if durable:
                        os.fsync(fd)
                os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(temporary, dir_fd=folder)
                raise
            if durable:
                _sync(folder)

    def remove(self, name: str, *, durable: bool = False) -> bool:
        """Remove a file, or a link without following; return whether there was an entry."""
        try:
            with self._worded(name), self._opened() as folder:
                os.unlink(_plain(name), dir_fd=folder)
                if durable:
                    _sync(folder)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def rename(self, name: str, to: str) -> None:
        """Rename a file within the folder."""
        with self._worded(name), self._opened() as folder:
            os.rename(_plain(name), _plain(to), src_dir_fd=folder, dst_dir_fd=folder)

    # --------------------------------------------------------------------------- its locks

    def locked(self, name: str, lock: Callable[[int], None]) -> int:
        """Create a file where missing and lock it; return the descriptor that holds the lock.

        `lock` locks a descriptor or raises any error. The returned descriptor belongs to the file
        with this name at the time of the lock: if the file is replaced in between, the new file is
        locked. The folder is created where missing. A file with a second name is refused.
        """
        with self._worded(name):
            for _ in range(_TRIES):
                with self._opened(0o755) as folder:
                    fd = _regular(name, os.O_RDWR | os.O_CREAT, folder)
                try:
                    lock(fd)
                    if self.holds(name, fd):
                        return fd
                except BaseException:
                    os.close(fd)
                    raise
                os.close(fd)
            raise OSError(errno.EAGAIN, "another program replaces the file again and again")

    def open(self, name: str, *, own: bool = False) -> int:
        """Return a descriptor of a regular file, for reading; `own` as in `read`."""
        with self._worded(name), self._opened() as folder:
            fd = _regular(name, os.O_RDONLY, folder)
            if own and _strange(fd, folder):
                os.close(fd)
                why = "belongs to another account than its folder, which anybody may write to"
                raise OSError(errno.EPERM, why)
            return fd

    def holds(self, name: str, fd: int) -> bool:
        """Return whether an open file still has this name, by a `glance`."""
        there, ours = self.glance(name), os.fstat(fd)
        return there is not None and (there.st_dev, there.st_ino) == (ours.st_dev, ours.st_ino)

    # ------------------------------------------------------------------------------- within

    @contextlib.contextmanager
    def _opened(self, make: int | None = None) -> Iterator[int]:
        """Yield the folder's descriptor (O_PATH) and act as the folder's owner meanwhile."""
        if self._above is None:
            fd = _walk(self.path, make)
        else:
            with self._above._opened(make) as above:
                fd = _step(above, self.path.name, make)
        try:
            found = os.fstat(fd)
            if not stat.S_ISDIR(found.st_mode):
                raise NotADirectoryError(errno.ENOTDIR, "is not a folder", str(self.path))
            with acting_as(found.st_uid, found.st_gid):
                yield fd
        finally:
            os.close(fd)

    @contextlib.contextmanager
    def _worded(self, name: str | None) -> Iterator[None]:
        """Make errors name the full path."""
        try:
            yield
        except OSError as error:
            path = str(self.path if name is None else self.path / name)
            raise OSError(error.errno, error.strerror, path) from error


class HeldFile:
    """A file that this process has locked, by a descriptor; `lock` locks a descriptor.

    Missing files and folders are created. The kernel drops the lock at any end of the process. The
    folder may belong to another account: only a regular file with one name is accepted. All methods
    raise the errors of `lock`, and `OSError` with the path of the file.
    """

    def __init__(self, path: Path, lock: Callable[[int], None]) -> None:
        self._folder = OwnedFolder(path.parent)
        self._name = path.name
        self._lock = lock
        self.descriptor = self._folder.locked(self._name, lock)

    def keep(self) -> None:
        """Check that the locked file is still at its path; if not, create and lock a new file."""
        if not self._folder.holds(self._name, self.descriptor):
            descriptor = self._folder.locked(self._name, self._lock)
            os.close(self.descriptor)
            self.descriptor = descriptor

    def close(self) -> None:
        """Release the lock."""
        os.close(self.descriptor)


def write_named(path: str | os.PathLike[str], text: str, *, durable: bool = False) -> None:
    """Write a file at a path that an operator gave on the command line.

    Other accounts may have write access to the folder. Raises `OSError` rather than replace
    anything but a regular file: a link may lead anywhere, and a device such as ``/dev/null`` would
    be replaced.
    """
    target = Path(os.path.abspath(path))
    folder = OwnedFolder(target.parent)
    there = folder.status(target.name)
    if there is not None and not stat.S_ISREG(there.st_mode):
        raise OSError(errno.EINVAL, "is not a regular file; name another file", str(path))
    folder.replace(target.name, text, durable=durable)


def become_owner(path: str | os.PathLike[str]) -> None:
    """Turn root into the folder's owner for good, with only the rights of this account.

    Does nothing for other users, for a folder of root, or without a folder.
    """
    if os.geteuid() != 0:
        return
    try:
        fd = _walk(Path(path), None)
    except (FileNotFoundError, NotADirectoryError):
        return
    found = os.fstat(fd)
    os.close(fd)
    if found.st_uid == 0:
        return
    os.setgroups([])
    os.setresgid(found.st_gid, found.st_gid, found.st_gid)
    os.setresuid(found.st_uid, found.st_uid, found.st_uid)


@contextlib.contextmanager
def acting_as(uid: int, gid: int) -> Iterator[None]:
    """Make root act as another account for all file access, in this thread alone.

    Meanwhile the kernel removes root's rights over files from the thread (capabilities(7)). Nothing
    changes for users other than root. Supplementary groups, which root does not need, are dropped
    for good.
    """
    if os.geteuid() != 0 or uid == 0:
        yield
        return
    if os.getgroups():
        os.setgroups([])
    libc = ctypes.CDLL(None)
    group, user = libc.setfsgid(gid), libc.setfsuid(uid)  # both return the value before
    try:
        now = libc.setfsgid(-1) & _ID, libc.setfsuid(-1) & _ID
        if now != (gid, uid):  # neither call reports failures
            text = f"root cannot act as user {uid}, CAP_SETUID or CAP_SETGID is missing"
            raise PermissionError(errno.EPERM, text)
        yield
    finally:
        libc.setfsuid(user)
        libc.setfsgid(group)


def _walk(path: Path, make: int | None) -> int:
    """Open a folder step by step from the root; return its descriptor (O_PATH).

    A symbolic link is followed if root or this user owns the link and the folder around it. `make`:
    the mode of missing folders to create.
    """
    left = list(reversed(Path(os.path.abspath(path)).parts[1:]))
    links = 0
    fd = os.open("/", _FOLDER | os.O_DIRECTORY)
    try:
        while left:
            name = left.pop()
            below = _step(fd, name, make)
            try:
                if stat.S_ISLNK(os.fstat(below).st_mode):
                    links += 1
                    if links > MOST_LINKS or not (_trusted(fd) and _trusted(below)):
                        raise OSError(errno.ELOOP, "symbolic links of another account are refused")
                    target = os.readlink("", dir_fd=below)
                    left += reversed([one for one in target.split("/") if one])
                    os.close(below)
                    below = os.open("/" if target.startswith("/") else ".", _FOLDER, dir_fd=fd)
            except BaseException:
                os.close(below)
                raise
            os.close(fd)
            fd = below
    except BaseException:
        os.close(fd)
        raise
    return fd


def _step(folder: int, name: str, make: int | None) -> int:
    """Open an entry (O_PATH) without following a link; create a missing folder with mode `make`."""
    try:
        return os.open(name, _FOLDER, dir_fd=folder)
    except FileNotFoundError:
        if make is None:
            raise
    owner = os.fstat(folder)
    with acting_as(owner.st_uid, owner.st_gid), contextlib.suppress(FileExistsError):
        os.mkdir(name, make, dir_fd=folder)
        with contextlib.suppress(PermissionError):  # the owner may create here, but not list
            _sync(folder)  # otherwise the new folder could be lost with the files inside
    return os.open(name, _FOLDER, dir_fd=folder)


def _trusted(fd: int) -> bool:
    return os.fstat(fd).st_uid in (0, os.geteuid())


def _plain(name: str) -> str:
    """Return the name, checked to be the name of an entry, not a path."""
    if name in ("", ".", "..") or "/" in name or "\0" in name:
        raise OSError(errno.EINVAL, f"{name!r} is not the name of a file")
    return name


def _regular(name: str, flags: int, folder: int) -> int:
    """Open a regular file; for writing only a file without a second name."""
    fd = os.open(_plain(name), flags | _FILE, 0o644, dir_fd=folder)
    found = os.fstat(fd)
    if not stat.S_ISREG(found.st_mode):
        why = "is not a regular file"
    elif flags & os.O_RDWR and found.st_nlink > 1:
        why = "has a second name (a hard link); remove it"
    else:
        return fd
    os.close(fd)
    raise OSError(errno.EINVAL, why)


def _strange(fd: int, folder: int) -> bool:
    """Return whether any account may have put a file into the folder of another account.

    The owner of a folder trusts the members of a group that may write there.
    """
    there, owner = os.fstat(folder), os.fstat(fd).st_uid
    return bool(there.st_mode & stat.S_IWOTH) and owner not in (0, there.st_uid, os.geteuid())


def _new_file(folder: int, name: str) -> tuple[str, int]:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    temporary = f".{name}{_TEMPORARY}{secrets.token_hex(8)}"
    return temporary, os.open(temporary, flags, 0o600, dir_fd=folder)


def _remove_abandoned(folder: int, name: str, now_ns: int) -> None:
    """Remove temporary files that an interrupted `replace` of the same file left."""
    with contextlib.suppress(OSError), _listed(folder) as entries:
        for entry in entries:
            if entry.name.startswith(f".{name}{_TEMPORARY}"):
                age_ns = now_ns - entry.stat(follow_symlinks=False).st_mtime_ns
                if age_ns > _ABANDONED_NS:
                    os.unlink(entry.name, dir_fd=folder)


@contextlib.contextmanager
def _listed(folder: int) -> Iterator[Iterator[os.DirEntry[str]]]:
    with _readable(folder) as fd, os.scandir(fd) as entries:
        yield itertools.islice(entries, MOST_ENTRIES)


def _sync(folder: int) -> None:
    with _readable(folder) as fd:
        os.fsync(fd)


@contextlib.contextmanager
def _readable(folder: int) -> Iterator[int]:
    """Yield a descriptor by which a folder can be listed: an O_PATH one cannot."""
    fd = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
    try:
        yield fd
    finally:
        os.close(fd)
