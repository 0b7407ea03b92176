# SPDX-License-Identifier: Apache-2.0
"""Private libvirt daemons in a folder of their own: for the tests and the quick start.

Neither touches the machine's own libvirt. `TestLibvirtd` serves libvirt's test driver and needs
no rights; `QemuLibvirtd` runs real guests and needs root, for a mount namespace.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from typing import ClassVar

import libvirt

START_S = 30.0
STOP_S = 10.0
_LONGEST_SOCKET = 107  # bytes of sun_path, the final zero not counted


class DaemonError(Exception):
    """The daemon did not start; the text ends with its log."""


@contextlib.contextmanager
def short_folder() -> Iterator[pathlib.Path]:
    """Make a temporary folder whose path leaves room for a socket's name."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="iat", dir="/tmp"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class _Libvirtd:
    """What both daemons share: one child process, its log and its socket."""

    needs: ClassVar[tuple[str, ...]] = ("libvirtd",)

    def __init__(self, folder: str | pathlib.Path) -> None:
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def socket(self) -> pathlib.Path:
        """Where the daemon listens."""
        raise NotImplementedError

    @property
    def uri(self) -> str:
        """What a client connects to."""
        raise NotImplementedError

    @property
    def pid(self) -> int:
        """The running daemon's process id."""
        if self._process is None:
            raise DaemonError("libvirtd does not run")
        return self._process.pid

    @classmethod
    def missing(cls) -> str | None:
        """Tell why this machine cannot run the daemon, None when it can."""
        absent = [name for name in cls.needs if shutil.which(name, path=_path()) is None]
        return f"not installed: {', '.join(absent)}" if absent else None

    def start(self) -> None:
        """Start the daemon and wait until it answers. Raises `DaemonError`."""
        if len(os.fsencode(self.socket)) > _LONGEST_SOCKET:
            raise DaemonError(f"{self.socket} is too long for the name of a socket")
        self.socket.unlink(missing_ok=True)  # of a daemon that was killed
        self._prepare()
        with (self.folder / "libvirtd.log").open("ab") as log:
            self._process = self._spawn(log.fileno())
        deadline = time.monotonic() + START_S
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise DaemonError(f"libvirtd does not answer at {self.uri}:\n{self._log()}")
            time.sleep(0.05)

    def stop(self) -> None:
        """End the daemon in order; guests go on where the driver lets them."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End the daemon as a crash would."""
        self._end(signal.SIGKILL)

    def pause(self) -> None:
        """Let the daemon hang: it keeps its connections and answers nothing."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Let a daemon that hangs go on."""
        os.kill(self.pid, signal.SIGCONT)

    def _answers(self) -> bool:
        if not self.socket.exists():  # asked first, for libvirt prints its errors
            return False
        try:
            libvirt.open(self.uri).close()
        except libvirt.libvirtError:
            return False
        return True

    def _end(self, how: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(how)
        process.send_signal(signal.SIGCONT)
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _log(self) -> str:
        return (self.folder / "libvirtd.log").read_text(errors="replace")[-2000:]

    def _prepare(self) -> None:
        raise NotImplementedError

    def _spawn(self, log: int) -> subprocess.Popen[bytes]:
        raise NotImplementedError


class TestLibvirtd(_Libvirtd):
    """An unprivileged libvirtd whose test driver holds one host; all is lost when it ends.

    Root hands it to `nobody`, since a libvirtd of root would use the machine's own folders.
    """

    __test__ = False

    @property
    def socket(self) -> pathlib.Path:
        """Where the daemon listens."""
        return self.folder / "run/libvirt/libvirt-sock"

    @property
    def uri(self) -> str:
        """The test driver's only host, with a domain `test` that libvirt puts there."""
        return f"test+unix:///default?socket={self.socket}"

    def _prepare(self) -> None:
        self.folder.chmod(0o711)
        for name in ("run", "config", "cache"):
            (self.folder / name).mkdir(exist_ok=True)
            if os.geteuid() == 0:
                nobody = pwd.getpwnam("nobody")
                os.chown(self.folder / name, nobody.pw_uid, nobody.pw_gid)

    def _spawn(self, log: int) -> subprocess.Popen[bytes]:
        environment = {
            "PATH": _path(),
            "HOME": str(self.folder / "config"),
            "XDG_RUNTIME_DIR": str(self.folder / "run"),
            "XDG_CONFIG_HOME": str(self.folder / "config"),
            "XDG_CACHE_HOME": str(self.folder / "cache"),
        }
        nobody = pwd.getpwnam("nobody") if os.geteuid() == 0 else None
        return subprocess.Popen(
            ["libvirtd"],
            env=environment,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            user=nobody.pw_uid if nobody else None,
            group=nobody.pw_gid if nobody else None,
            extra_groups=[] if nobody else None,
        )


_MOUNT = """
for pair in etc:/etc/libvirt run:/run/libvirt lib:/var/lib/libvirt log:/var/log/libvirt; do
    mkdir -p "${pair#*:}"
    mount --bind "$FOLDER/${pair%%:*}" "${pair#*:}"
done
mkdir -p /var/cache/libvirt
mount --bind "$CACHE" /var/cache/libvirt
exec "$PROGRAM" -p "$FOLDER/libvirtd.pid"
"""

_QEMU_CONF = """
user = "root"
group = "root"
security_driver = "none"
stdio_handler = "file"
cgroup_controllers = [ ]
"""


class QemuLibvirtd(_Libvirtd):
    """A real libvirtd that runs real QEMU guests by software emulation. Needs root.

    Each folder libvirtd knows is one of `folder`, in a mount namespace of its own. Its first
    question to QEMU takes some 5 s; the answers stay in `cache`, a folder that further daemons
    may use. `stop` and `kill` leave guests running: end them first.
    """

    program: ClassVar[str] = "libvirtd"
    needs: ClassVar[tuple[str, ...]] = ("libvirtd", "unshare", "qemu-system-x86_64")

    def __init__(self, folder: str | pathlib.Path, cache: str | pathlib.Path | None = None) -> None:
        super().__init__(folder)
        self.cache = self.folder / "cache" if cache is None else pathlib.Path(cache)

    @property
    def socket(self) -> pathlib.Path:
        """Where the daemon listens."""
        return self.folder / "run/libvirt-sock"

    @property
    def uri(self) -> str:
        """The system instance of the private daemon."""
        return f"qemu+unix:///system?socket={self.socket}"

    @classmethod
    def missing(cls) -> str | None:
        """Tell why this machine cannot run the daemon, None when it can."""
        if os.geteuid() != 0:
            return "a real libvirtd with QEMU guests needs root"
        if reason := super().missing():
            return reason
        mounts = subprocess.run(  # refused below a chroot(2) to a folder that is no mount
            ["unshare", "--mount", "true"], capture_output=True, text=True, check=False
        )
        return mounts.stderr.strip() or None

    def _prepare(self) -> None:
        for name in ("etc", "run", "lib", "log"):
            (self.folder / name).mkdir(exist_ok=True)
        self.cache.mkdir(exist_ok=True)
        (self.folder / "etc/qemu.conf").write_text(_QEMU_CONF)

    def _spawn(self, log: int) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            ["unshare", "--mount", "sh", "-ec", _MOUNT],
            env={
                "PATH": _path(),
                "FOLDER": str(self.folder),
                "CACHE": str(self.cache),
                "PROGRAM": self.program,
                "LC_ALL": "C.UTF-8",
            },
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )


class Virtqemud(QemuLibvirtd):
    """The modular daemon of QEMU guests, as Fedora and RHEL run it; Debian has none."""

    program = "virtqemud"
    needs = ("virtqemud", "unshare", "qemu-system-x86_64")

    @property
    def socket(self) -> pathlib.Path:
        """Where the daemon listens."""
        return self.folder / "run/virtqemud-sock"


def _path() -> str:
    return os.environ.get("PATH", "") + os.pathsep + "/usr/sbin:/sbin"
