# SPDX-License-Identifier: Apache-2.0
"""Private Open vSwitch daemons in a folder of their own: for the tests and the quick start.

Nothing of the machine's own Open vSwitch is touched: sockets, databases, pid files and logs lie
in the given folder, and ovs-vswitchd gets a network namespace of its own where that is allowed.
"""

from __future__ import annotations

import os
import pathlib
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable

from tests.functional import huge_pages

SCHEMA = pathlib.Path("/usr/share/openvswitch/vswitch.ovsschema")
VSWITCHD_DPDK = pathlib.Path("/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk")
START_S = 20.0


class DaemonError(Exception):
    """A daemon did not start, or refused a command; the text ends with its log."""


class OvsDaemons:
    """One ovsdb-server and, if wanted, one ovs-vswitchd, in `folder`.

    Keep the folder's path short: socket names are limited to 108 characters.
    """

    def __init__(self, folder: str | pathlib.Path) -> None:
        self.folder = pathlib.Path(folder)
        self.socket = self.folder / "db.sock"
        self.address = f"unix:{self.socket}"
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def control(self) -> pathlib.Path | None:
        """The control socket of the running ovs-vswitchd, None before it is there."""
        pattern = f"ovs-vswitchd*.{self.pid('ovs-vswitchd')}.ctl"
        return next(self.folder.glob(pattern), None)

    def create_database(self, schema: pathlib.Path = SCHEMA) -> None:
        """Make an empty database, in place of the one that may be there."""
        database = self.folder / "conf.db"
        database.unlink(missing_ok=True)
        self._run("ovsdb-tool", "create", str(database), str(schema))

    def start_ovsdb(self, *remotes: str) -> None:
        """Start ovsdb-server on `socket` (and on `remotes`), with a new database if need be."""
        if not (self.folder / "conf.db").exists():
            self.create_database()
        listen = [f"--remote={remote}" for remote in (f"punix:{self.socket}", *remotes)]
        control = self.folder / "ovsdb.ctl"
        self._start(
            "ovsdb-server",
            "ovsdb-server",
            str(self.folder / "conf.db"),
            *listen,
            f"--unixctl={control}",
        )
        self._until(lambda: _accepts(self.socket) and _accepts(control), "ovsdb-server")

    def start_vswitchd(self, *options: str, program: str = "ovs-vswitchd") -> None:
        """Start ovs-vswitchd; it acts once the database has its row (`vsctl("init")`)."""
        isolate = ("unshare", "--net") if os.geteuid() == 0 else ()
        self._start(
            "ovs-vswitchd",
            *isolate,
            program,
            self.address,
            f"--pidfile={self.folder / 'ovs-vswitchd.pid'}",
            *options,
        )
        self._until(lambda: self.control is not None, "ovs-vswitchd")

    def start_dpdk(self, pmd_cpu_mask: str | None, *, memory_mb: int = 128) -> None:
        """Start ovs-vswitchd with DPDK, on pages that are there already (`huge_pages.reserve`)."""
        settings = {
            "dpdk-init": "true",
            "dpdk-socket-mem": str(memory_mb),
            "dpdk-extra": "--no-pci --in-memory",
            # Idle PMD threads sleep, so that tests do not burn whole CPUs. Open vSwitch
            # 3.1 knows the first name, later releases the second.
            "pmd-maxsleep": "500",
            "pmd-sleep-max": "500",
        }
        if pmd_cpu_mask is not None:
            settings["pmd-cpu-mask"] = pmd_cpu_mask
        pairs = (f"other_config:{key}={value}" for key, value in settings.items())
        self.vsctl("--no-wait", "set", "Open_vSwitch", ".", *pairs)
        self.start_vswitchd(program=str(VSWITCHD_DPDK))

    def vsctl(self, *arguments: str) -> str:
        """Run ovs-vsctl on this database; without ``--no-wait`` it waits for ovs-vswitchd."""
        return self._run("ovs-vsctl", "--timeout=20", f"--db={self.address}", *arguments)

    def appctl(self, *arguments: str) -> str:
        """Ask ovs-vswitchd."""
        return self._run("ovs-appctl", "--timeout=20", f"--target={self.control}", *arguments)

    def pid(self, name: str) -> int:
        """Return the process of ``ovsdb-server`` or ``ovs-vswitchd``."""
        return self._processes[name].pid

    def kill(self, name: str, signal_number: int = signal.SIGKILL) -> None:
        """End one daemon and wait until it has gone."""
        process = self._processes.pop(name)
        process.send_signal(signal_number)
        process.wait(START_S)

    def stop(self) -> None:
        """End all daemons, ovs-vswitchd first; the folder stays."""
        for name in reversed(list(self._processes)):
            process = self._processes.pop(name)
            process.terminate()
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(START_S)

    def _environment(self) -> dict[str, str]:
        folders = ("OVS_RUNDIR", "OVS_DBDIR", "OVS_SYSCONFDIR", "OVS_LOGDIR")
        # The daemons lie in sbin, which an ordinary user's PATH lacks.
        path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
        return os.environ | dict.fromkeys(folders, str(self.folder)) | {"PATH": path}

    def _run(self, *command: str) -> str:
        done = subprocess.run(
            command, env=self._environment(), capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise DaemonError(f"{' '.join(command)}: {done.stderr.strip()}")
        return done.stdout

    def _start(self, name: str, *command: str) -> None:
        # A killed run leaves no daemon, and with it no memory.
        bound = ("setpriv", "--pdeathsig", "KILL") if shutil.which("setpriv") else ()
        with open(self.folder / f"{name}.log", "ab") as log:
            self._processes[name] = subprocess.Popen(
                [*bound, *command],
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _until(self, ready: Callable[[], bool], name: str) -> None:
        deadline = time.monotonic() + START_S
        while not ready():
            process = self._processes[name]
            if process.poll() is not None or time.monotonic() > deadline:
                log = (self.folder / f"{name}.log").read_text(errors="replace")[-2000:]
                raise DaemonError(f"{name} did not start in {self.folder}:\n{log}")
            time.sleep(0.01)


def _accepts(path: pathlib.Path) -> bool:
    """Tell whether somebody listens: a daemon that was killed leaves its socket behind."""
    with socket.socket(socket.AF_UNIX) as stream:
        return stream.connect_ex(str(path)) == 0


def why_no_ovsdb() -> str | None:
    """Tell why ovsdb-server cannot be run here; None: it can."""
    return _why_not("ovsdb-server", "ovsdb-tool", "ovs-vsctl")


def why_no_vswitchd() -> str | None:
    """Tell why ovs-vswitchd cannot be run here; None: it can."""
    if os.geteuid() != 0:
        return "ovs-vswitchd needs root for its network devices"
    return why_no_ovsdb() or _why_not("ovs-vswitchd", "ovs-appctl", "unshare")


def why_no_dpdk() -> str | None:
    """Tell why OVS-DPDK cannot be run here, but for huge pages; None: it can."""
    if not VSWITCHD_DPDK.exists():
        return f"{VSWITCHD_DPDK} is missing; install openvswitch-switch-dpdk"
    if not huge_pages.NUMBER.exists():
        return "this kernel has no huge pages of 2 MB"
    return why_no_vswitchd()


def _why_not(*programs: str) -> str | None:
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    missing = [program for program in programs if shutil.which(program, path=path) is None]
    if missing:
        return f"{', '.join(missing)} not found; install openvswitch-switch"
    return None if SCHEMA.exists() else f"{SCHEMA} is missing; install openvswitch-common"
