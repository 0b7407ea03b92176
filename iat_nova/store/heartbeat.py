# SPDX-License-Identifier: Apache-2.0
"""The single agent of a state directory: its lock, and its heartbeat in the locked file.

The lock shows whether an agent runs: the kernel releases the lock of a process that died. The same
file has the agent's activity: one page, reserved with the lock and written in place. A full disk
therefore does not stop the heartbeat (except on file systems that copy on write, such as btrfs).
Times are on the kernel's monotonic clock, together with the id of the boot: steps of the wall clock
change no age.
"""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import fcntl
import json
import os
import pathlib
import struct
import time
import zlib
from collections.abc import Callable, Iterator
from typing import Any

from iat_nova.common import readers, untrusted
from iat_nova.common.kernel_files import text_of
from iat_nova.common.owned_folder import HeldFile, OwnedFolder

SIZE = readers.HEARTBEAT.most_bytes  # one page: written by one call
TEXT_MAX = untrusted.MOST_TEXT  # characters, each at most six bytes of JSON
STALE_INTERVALS = 5  # an agent is stalled after this many missed intervals
STALE_LEAST_S = 5.0
_BLANK = b"\0 \t\r\n"  # of a page that is reserved and not written yet
_READS = 3  # a read may meet a half-written page
_PID_MOST = 1 << 22  # proc(5): kernel.pid_max
_FLOCK = "hhqqi4x"  # struct flock of fcntl(2): type, whence, start, length, process


class AlreadyRunning(Exception):
    """Another agent owns this state directory."""


class StateError(Exception):
    """The state directory cannot be used now: full, read-only, of another owner."""


class AgentState(enum.StrEnum):
    """The state of a state directory's agent, as reported by the agent and as seen from outside."""

    RUNNING = "running"
    STARTING = "starting"  # holds the lock, before the first iteration
    STALLED = "stalled"  # seen: holds the lock, and its iterations are overdue
    STOPPING = "stopping"
    STOPPED = "stopped"
    FAILED = "failed"  # ended by an error, and reported the error
    UNCLEAN = "unclean"  # seen: the lock is free and no end was reported


@dataclasses.dataclass(frozen=True, slots=True)
class Beat:
    """An agent's last report. Times in seconds on the monotonic clock of boot `boot_id`."""

    pid: int
    boot_id: str
    phase: str
    since_s: float  # when the phase began
    at_s: float  # when the agent last reported
    interval_s: float = 0.0
    text: str = ""  # starting: awaited part; running: why nothing is recorded; failed: error


@dataclasses.dataclass(frozen=True, slots=True)
class AgentNow:
    """The agent's present state.

    `age_s`: seconds since its last iteration, or since its start or stop began; None where not
    known. `text`: the awaited part, the reason for recording nothing, or the error.
    """

    state: AgentState
    pid: int | None = None
    age_s: float | None = None
    text: str = ""

    @property
    def alive(self) -> bool:
        """Whether the agent's process exists."""
        return self.state not in (AgentState.STOPPED, AgentState.FAILED, AgentState.UNCLEAN)


@dataclasses.dataclass(frozen=True, slots=True)
class Living:
    """A process, and a descriptor for this process that no later process can take over."""

    pid: int
    pidfd: int


class NoAgent(Exception):
    """No process is seen to hold the lock; the text, if any, gives the reason."""


def boot_id() -> str:
    """Return the id of this boot (proc(5)); empty where the kernel has none."""
    return text_of(pathlib.Path("/proc/sys/kernel/random/boot_id"))


class Heartbeat:
    """Reports the agent's activity, for `look`; without a lock file nothing is reported.

    `problem`: why reports cannot be written, or None. The file is locked, with a page reserved in
    it; a lock file that was removed is created and locked again. Raises `AlreadyRunning`, and
    `StateError` when the folder or the file cannot be used.
    """

    def __init__(
        self, lock: pathlib.Path | None = None, now: Callable[[], float] = time.monotonic
    ) -> None:
        self.problem: str | None = None
        self._file: HeldFile | None = None
        self._now = now
        self._beat = Beat(os.getpid(), boot_id(), "", 0.0, 0.0)
        if lock is not None:
            try:
                self._file = HeldFile(lock, lambda descriptor: _lock(descriptor, lock))
            except OSError as error:
                text = f"[iat] state_dir {lock.parent}: {lock}: {error.strerror}"
                raise StateError(text) from error

    def close(self) -> None:
        """Release the lock."""
        if self._file is not None:
            self._file.close()

    def starting(self, text: str) -> None:
        """Report a start before the first iteration; `text` names the awaited part."""
        self._say(AgentState.STARTING, text)

    def iteration(self, interval_s: float, problem: str | None) -> None:
        """Report the end of an iteration; `problem`: why the history does not record iterations."""
        self._beat = dataclasses.replace(self._beat, interval_s=interval_s)
        self._say(AgentState.RUNNING, problem or "")

    def stopping(self) -> None:
        """Report that the agent has begun to end."""
        self._say(AgentState.STOPPING)

    def stopped(self) -> None:
        """Report an orderly end of the agent."""
        self._say(AgentState.STOPPED)

    def failed(self, text: str) -> None:
        """Report an end by an error: the agent did not start, or could not restore the host."""
        self._say(AgentState.FAILED, text)

    def _say(self, phase: AgentState, text: str = "") -> None:
        if self._file is None:
            return
        now_s = self._now()
        since_s = self._beat.since_s if phase == self._beat.phase else now_s
        self._beat = dataclasses.replace(
            self._beat,
            phase=phase,
            since_s=since_s,
            at_s=now_s,
            text=untrusted.storable(text, TEXT_MAX),
        )
        try:
            self._file.keep()
            os.pwrite(self._file.descriptor, _page(self._beat), 0)
        except OSError as error:
            self.problem = f"agent.lock cannot be written: {error.strerror}"
        except AlreadyRunning as error:
            self.problem = f"agent.lock was removed, and {error}; stop one of the two"
        else:
            self.problem = None


@contextlib.contextmanager
def only_agent(
    lock: pathlib.Path,
    now: Callable[[], float] = time.monotonic,
    words: Callable[[BaseException], str] = str,
) -> Iterator[Heartbeat]:
    """Lock a state directory as its only agent; the folder is created where missing.

    `words` returns the text that `look` shows for an error that ends the agent. Raises
    `AlreadyRunning`, and `StateError` when the folder or the file cannot be used.
    """
    with contextlib.closing(Heartbeat(lock, now)) as heartbeat:
        heartbeat.starting("")
        try:
            yield heartbeat
        except BaseException as error:
            heartbeat.failed(words(error) or type(error).__name__)
            raise
        heartbeat.stopped()


def look(lock: pathlib.Path, now_s: float | None = None, boot: str | None = None) -> AgentNow:
    """Return the state of the agent that uses a lock. Raises `OSError`, but not for a missing file.

    `now_s` and `boot` are the present time and boot of the monotonic clock; defaults are the
    kernel's.
    """
    try:
        descriptor = OwnedFolder(lock.parent).open(lock.name)
    except (FileNotFoundError, NotADirectoryError):
        return AgentNow(AgentState.STOPPED)
    try:
        held = _held(descriptor)
        beat = _said(descriptor)
    except untrusted.Unreadable as error:
        why = readers.HEARTBEAT.unreadable(lock, str(error))
        return AgentNow(AgentState.STARTING if held else AgentState.STOPPED, text=why)
    finally:
        os.close(descriptor)
    if not held:
        return _gone(beat)
    if beat is None or beat.boot_id != (boot_id() if boot is None else boot):
        return AgentNow(AgentState.STARTING)  # the agent holds the lock and has not reported yet
    return _alive(beat, time.monotonic() if now_s is None else now_s)


@contextlib.contextmanager
def living(lock: pathlib.Path, proc: pathlib.Path = pathlib.Path("/proc")) -> Iterator[Living]:
    """Yield the process that holds an agent's lock, as reported by the kernel (proc(5), fdinfo).

    A user without the right to see fdinfo gets the process that the locked file names. This process
    must run as the owner of the folder, who wrote the file. Raises `NoAgent` if no process is seen,
    and `OSError`.
    """
    folder = OwnedFolder(lock.parent)
    try:
        descriptor = folder.open(lock.name)
    except (FileNotFoundError, NotADirectoryError):
        raise NoAgent from None
    with contextlib.ExitStack() as undo:
        undo.callback(os.close, descriptor)
        try:
            beat = _said(descriptor)
        except untrusted.Unreadable as error:
            raise NoAgent(readers.HEARTBEAT.unreadable(lock, str(error))) from error
        if beat is None or beat.pid <= 0:
            raise NoAgent
        try:
            pidfd = os.pidfd_open(beat.pid)
        except ProcessLookupError:
            raise NoAgent from None
        undo.callback(os.close, pidfd)
        process = proc / str(beat.pid)
        try:
            holds = _has_locked(process, os.fstat(descriptor))
        except PermissionError:
            owner = os.stat(lock.parent).st_uid
            holds = os.geteuid() != 0 and _held(descriptor) and _user(process) == owner
        except (FileNotFoundError, ProcessLookupError):  # ended meanwhile
            holds = False
        if not holds:
            raise NoAgent
        yield Living(beat.pid, pidfd)


def _has_locked(process: pathlib.Path, file: os.stat_result) -> bool:
    """Return whether a process has a file open with an agent's lock (proc(5), fdinfo).

    The open file is compared, not the device and inode in fdinfo: on overlayfs and btrfs these
    differ from stat(2).
    """
    for name in os.listdir(process / "fd"):
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            found = os.stat(process / "fd" / name)
            if (found.st_dev, found.st_ino) == (file.st_dev, file.st_ino):
                lines = (process / "fdinfo" / name).read_text(encoding="ascii").splitlines()
                if any(line.startswith("lock:") and "OFDLCK" in line for line in lines):
                    return True
    return False


def _user(process: pathlib.Path) -> int | None:
    """Return the real user of a process (proc(5), status); None after its end."""
    try:
        lines = (process / "status").read_text(encoding="utf-8", errors="replace").splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return next((int(line.split()[1]) for line in lines if line.startswith("Uid:")), None)


def _gone(beat: Beat | None) -> AgentNow:
    if beat is None:
        return AgentNow(AgentState.STOPPED)
    if beat.phase == AgentState.FAILED:
        return AgentNow(AgentState.FAILED, beat.pid, text=beat.text)
    return AgentNow(
        AgentState.STOPPED if beat.phase == AgentState.STOPPED else AgentState.UNCLEAN, beat.pid
    )


def _alive(beat: Beat, now_s: float) -> AgentNow:
    if beat.phase in (AgentState.STARTING, AgentState.STOPPING):
        return AgentNow(AgentState(beat.phase), beat.pid, max(0.0, now_s - beat.since_s), beat.text)
    if beat.phase in (AgentState.STOPPED, AgentState.FAILED):  # about to end, or just begun
        return AgentNow(AgentState.STOPPING, beat.pid, max(0.0, now_s - beat.since_s))
    age_s = max(0.0, now_s - beat.at_s)
    overdue = age_s > max(STALE_LEAST_S, STALE_INTERVALS * beat.interval_s)
    return AgentNow(
        AgentState.STALLED if overdue else AgentState.RUNNING, beat.pid, age_s, beat.text
    )


def _lock(descriptor: int, lock: pathlib.Path) -> None:
    try:
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _whole_file(fcntl.F_WRLCK))
    except (BlockingIOError, PermissionError):  # fcntl(2): EAGAIN or EACCES
        owner = None
        with contextlib.suppress(untrusted.Unreadable):
            owner = _said(descriptor)
        raise AlreadyRunning(
            f"another agent (PID {owner.pid if owner else 'unknown'}) is running with state "
            f"directory {lock.parent}"
        ) from None
    os.posix_fallocate(descriptor, 0, SIZE)


def _whole_file(kind: int) -> bytes:
    """Return a request of fcntl(2) for a lock of the open file, not of the process."""
    return struct.pack(_FLOCK, kind, os.SEEK_SET, 0, 0, 0)


def _held(descriptor: int) -> bool:
    """Tell whether another open file holds the lock; the lock is not touched."""
    answer = fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, _whole_file(fcntl.F_WRLCK))
    return bool(struct.unpack(_FLOCK, answer)[0] != fcntl.F_UNLCK)


def _page(beat: Beat) -> bytes:
    plain = json.dumps(dataclasses.asdict(beat))
    return f"{zlib.crc32(plain.encode()):08x} {plain}".encode().ljust(SIZE - 1) + b"\n"


def _said(descriptor: int) -> Beat | None:
    """Return the agent's last report, or None without a report. Raises `untrusted.Unreadable`."""
    why = ""
    for _ in range(_READS):
        page = os.pread(descriptor, SIZE, 0).strip(_BLANK)
        if not page:
            return None
        checksum, _, plain = page.partition(b" ")
        try:
            if int(checksum, 16) == zlib.crc32(plain):
                return _beat(untrusted.parse_json(plain, depth=readers.HEARTBEAT.depth))
            why = "its checksum is of other content"
        except untrusted.Unreadable as error:
            why = str(error)
        except ValueError:
            why = "it has no checksum"
    raise untrusted.Unreadable(why)


def _beat(plain: Any) -> Beat:
    if not isinstance(plain, dict):
        raise untrusted.Unreadable("it is not an object")
    return Beat(
        pid=untrusted.whole(plain, "pid", 1, _PID_MOST),
        boot_id=untrusted.name(plain, "boot_id"),
        phase=untrusted.name(plain, "phase"),
        since_s=untrusted.number(plain, "since_s", -untrusted.LAST_S, untrusted.LAST_S),
        at_s=untrusted.number(plain, "at_s", -untrusted.LAST_S, untrusted.LAST_S),
        interval_s=untrusted.number(plain, "interval_s", 0, untrusted.LAST_S),
        text=untrusted.name(plain, "text"),
    )
