# SPDX-License-Identifier: Apache-2.0
"""One controller and one compute host of a real Nova on this machine, and the agent beside it.

Real: Keystone, nova-api, nova-scheduler, nova-conductor, nova-compute, Placement, RabbitMQ,
MariaDB, libvirt, QEMU (by emulation), Open vSwitch with DPDK; nothing of them is patched. Stubs:
Glance, Neutron (`stubs.py`). Absent: Cinder. The agent is the real process over the emulated
server.

All daemons run in network, process and mount namespaces of their own (`up.sh`), so no port or
interface of the machine is taken, and they end with the pipe they read from, whatever happens.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import pathlib
import select
import shutil
import signal
import string
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

from tests.functional import huge_pages, ovs_daemons
from tests.functional.daemons import short_folder
from tests.nova.api import AUTH_URL, LOG_IN, PASSWORD, Api
from tests.openstack.nova_venv import PACKAGES, VENV_VARIABLE, nova_venv, with_plugin

HERE = pathlib.Path(__file__).parent
BIN = pathlib.Path(sys.executable).parent

# Limits for a busy machine: an idle one needs a tenth.
START_S = 540.0
DEADLINE_S = 180.0
METRICS = 9180  # the port of the agent's metrics; the second host's has the next one
HUGE_PAGES_MB = 320  # DPDK's 128, a guest's 128 and a margin

_CLONE_NEWNET = 0x40000000
_PROGRAMS = (
    "libvirtd", "virsh", "qemu-system-x86_64", "mariadbd", "mariadb", "mariadb-install-db", "epmd",
    "rabbitmqctl", "ip", "unshare", "ovsdb-server", "ovs-vswitchd",
)  # fmt: skip

T = TypeVar("T")


class CloudError(AssertionError):
    """The cloud does not work; the text ends with its logs."""


def why_not() -> str | None:
    """Tell why this machine cannot run a Nova, None when it can."""
    if os.geteuid() != 0:
        return "a real Nova with QEMU guests needs root"
    if len(os.sched_getaffinity(0)) < 2:
        return "a dedicated and a shared CPU make two; this machine has one"
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    absent = [program for program in _PROGRAMS if shutil.which(program, path=path) is None]
    if absent:
        return f"not installed: {', '.join(absent)}; see bindep.txt"
    probe = ["unshare", "--net", "--pid", "--mount", "--fork", "--mount-proc", "true"]
    done = subprocess.run(probe, capture_output=True, text=True, check=False)
    return f"namespaces are not allowed here: {done.stderr.strip()}" if done.returncode else None


def until(condition: Callable[[], T], what: str, deadline_s: float = DEADLINE_S) -> T:
    """Ask until the answer is true and return it. Raises `CloudError`."""
    deadline = time.monotonic() + deadline_s
    pause = threading.Event()
    while not (answer := condition()):
        if time.monotonic() > deadline:
            raise CloudError(f"not seen within {deadline_s:.0f} s: {what}")
        pause.wait(0.05)
    return answer


def configure(folder: pathlib.Path, values: Mapping[str, str]) -> None:
    """Write the configuration of a host's services."""
    (folder / "etc").mkdir(exist_ok=True)
    for source in (HERE / "conf").iterdir():
        text = string.Template(source.read_text()).safe_substitute(values)
        (folder / "etc" / source.name).write_text(text)


@contextlib.contextmanager
def agent(folder: pathlib.Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run the agent of a host with Nova's own nova.conf; SIGTERM ends it."""
    command = [BIN / "iat-nova-agent", "--config-file", folder / "etc/nova.conf"]
    with (folder / "log/agent.log").open("ab") as log:
        process = subprocess.Popen(command, stderr=log, stdin=subprocess.DEVNULL)
    try:
        yield process
        process.send_signal(signal.SIGTERM)
        process.wait(DEADLINE_S)
    finally:
        process.kill()
        process.wait()


def iat_nova(folder: pathlib.Path, *arguments: str) -> str:
    """Run the operator's command with a host's nova.conf; return what it prints."""
    done = subprocess.run(
        [BIN / "iat-nova", "--config-file", folder / "etc/nova.conf", *arguments],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    if done.returncode:
        raise CloudError(f"iat-nova {' '.join(arguments)}: {done.stderr}")
    return done.stdout


class Script:
    """A host's script in process and mount namespaces of its own; nothing outlives it.

    It says "ready" when its services run, then starts and stops nova-compute.
    """

    def __init__(
        self, name: str, folder: pathlib.Path, environment: Mapping[str, str], *namespaces: str
    ) -> None:
        self._folder = folder
        shared = ["--pid", "--mount", "--fork", "--kill-child", "--mount-proc"]
        with (folder / "up.log").open("ab") as errors:
            self._process = subprocess.Popen(
                ["unshare", *namespaces, *shared, str(HERE / name)],
                env={"PATH": os.environ.get("PATH", ""), **environment},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
            )
        self.pid = self._process.pid

    def wait(self) -> None:
        """Wait for its word. Raises `CloudError`."""
        ready = b"ready\n"
        said = self._words(ready)
        if ready not in said:
            log = (self._folder / "up.log").read_text(errors="replace")
            outputs = "".join(
                f"--- {path.name}\n{path.read_text(errors='replace')[-1500:]}"
                for path in sorted(self._folder.glob("log/*.out"))
            )
            raise CloudError(f"the host did not start: {said.decode()}{log}\n{outputs}")

    def order(self, order: str) -> bool:
        """Have nova-compute started or stopped, or only ask; tell whether its process runs."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{order}\n".encode())
        self._process.stdin.flush()
        return b"runs" in self._words(b"\n")

    def end(self) -> None:
        """End the script; process 1 of the namespace goes with it, and all others with that."""
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            stream.close()
        self._process.kill()
        self._process.wait()

    def _words(self, last: bytes) -> bytes:
        """Return what the script says until it says the last word, ends, or time is up."""
        said = b""
        stream = self._process.stdout
        assert stream is not None
        deadline = time.monotonic() + START_S
        while not said.endswith(last):
            rest_s = deadline - time.monotonic()
            if rest_s <= 0 or not select.select([stream], [], [], rest_s)[0]:
                return said + b"\ntime is up\n"
            if not (more := os.read(stream.fileno(), 4096)):
                return said
            said += more
        return said


class Cloud:
    """A running cloud; `start` it once, `close` ends it and leaves nothing.

    `dedicated` and `shared` are the CPUs Nova may use; Open vSwitch's PMD threads go onto the
    shared one when `pmd` asks for them. `no_dpdk` tells why there is no DPDK. `scenario`: a file of
    `conf`, the emulated machine beneath the first host's agent.
    """

    def __init__(self, scenario: str = "scenario.yaml") -> None:
        self._scenario = scenario
        self._stack = contextlib.ExitStack()
        self.shared, self.dedicated = sorted(os.sched_getaffinity(0))[:2]
        self.no_dpdk = ovs_daemons.why_no_dpdk()
        self.api = Api()

    def start(self) -> None:
        """Start all but nova-compute and the agent. Raises `CloudError`, `SkipTest`."""
        self.venv = venv = nova_venv()
        for package in ("placement", "keystone", "openstackclient", "osc_placement"):
            if not list(venv.glob(f"lib/python3*/site-packages/{package}")):
                raise CloudError(f"{venv} ({VENV_VARIABLE}) lacks {package}: {PACKAGES}")
        self.folder = self._stack.enter_context(short_folder())
        self.state = self.folder / "iat"
        self.uri = f"qemu+unix:///system?socket={self.folder}/lv/run/libvirt-sock"
        if self.no_dpdk is None:
            try:
                self._stack.enter_context(huge_pages.reserve(HUGE_PAGES_MB))
            except huge_pages.HugePagesError as error:
                self.no_dpdk = str(error)
        values = {
            "DIR": str(self.folder),
            "HOST": "compute1",
            "INSTANCES": f"{self.folder}/state/instances",
            "OVS": f"{self.folder}/ovs",
            "POWER": "false",
            "STRATEGY": "cpu_state",
            "NOVA": str(venv),
            # What nova-compute imports and a controller does not need.
            "PYTHON": str(with_plugin(venv, "libvirt-python")),
            "LIBVIRT_URI": self.uri,
            "SOCKETS": str(self.folder / "at"),
            "ADDRESS": "127.0.0.1",
            "METRICS": str(METRICS),
            "SCENARIO": self._scenario,
            "AUTH_URL": AUTH_URL,
            "PASSWORD": PASSWORD,
            "HUGE": "" if self.no_dpdk else f"{self.folder}/huge",
            "HUGE_MOUNTS": "" if self.no_dpdk else f'"{self.folder}/huge"',  # libvirt's list
        }
        self.values = values | {"DEDICATED": str(self.dedicated), "SHARED": str(self.shared)}
        self.name_socket(values["ADDRESS"], self.folder)
        configure(self.folder, self.values)
        shutil.copy(venv / "etc/nova/api-paste.ini", self.folder / "etc")
        self.script = Script("up.sh", self.folder, self.values, "--net", "--uts")
        self._stack.callback(self.script.end)
        self.script.wait()
        self._stack.enter_context(self._network())
        self.api.log_in()

    def name_socket(self, address: str, folder: pathlib.Path) -> None:
        """Let hosts find the libvirt of a host by its address, to migrate guests to it."""
        names = self.folder / "at"
        names.mkdir(exist_ok=True)
        (names / address).symlink_to(folder / "lv/run/libvirt-sock")

    def close(self) -> None:
        """End everything."""
        self._stack.close()

    def start_compute(self) -> None:
        """Start nova-compute and wait until the scheduler may use it."""
        self.script.order("start")
        try:
            until(lambda: self.api.nova("GET", "/os-hypervisors")["hypervisors"], "nova-compute")
            until(self._in_placement, "nova-compute has told Placement of the host")
        except CloudError as error:
            raise CloudError(f"{error}\n{self.log('nova-compute.log')}") from error

    def restart_compute(self, *, reports: bool = True) -> None:
        """Do as ``systemctl restart nova-compute``, and wait until it reports that it is there."""
        self.script.order("stop")
        before = self._reported()
        self.script.order("start")
        if reports:
            until(lambda: self._reported() != before, "nova-compute reports")

    def _reported(self) -> object:
        """Return when nova-compute reported last. For a minute Nova does not know of its end."""
        (one,) = self.api.nova("GET", "/os-services?binary=nova-compute")["services"]
        return one["updated_at"]

    def _in_placement(self) -> bool:
        """Tell whether the host's traits, which Nova writes after its inventory, are there."""
        providers = self.api.placement("/resource_providers")["resource_providers"]
        return any(
            self.api.placement(f"/resource_providers/{one['uuid']}/traits")["traits"]
            for one in providers
        )

    def iat_nova(self, *arguments: str) -> str:
        """Run the operator's command on the host; return what it prints."""
        return iat_nova(self.folder, *arguments)

    def openstack(
        self, command: str, typed: str = "", *, may_fail: bool = False
    ) -> subprocess.CompletedProcess[str]:
        """Have a shell run a command of the ``openstack`` client, as Keystone's administrator."""
        done = subprocess.run(
            ["bash", "-c", command],
            input=typed,
            env={
                "PATH": f"{self.venv}/bin:{os.environ.get('PATH', '')}",
                "HOME": str(self.folder),
                "PYTHONWARNINGS": "ignore",
                **LOG_IN,
            },
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )
        if done.returncode and not may_fail:
            raise CloudError(f"{command}: {done.stdout}{done.stderr}")
        return done

    @contextlib.contextmanager
    def pmd(self) -> Iterator[None]:
        """Have the PMD threads, if any, on the shared CPU."""
        key = "pmd-cpu-mask"
        self._vsctl("set", "Open_vSwitch", ".", f"other_config:{key}={hex(1 << self.shared)}")
        try:
            yield
        finally:
            self._vsctl("remove", "Open_vSwitch", ".", "other_config", key)

    def log(self, name: str, most: int = 8000) -> str:
        """Return the end of a log."""
        path = self.folder / "log" / name
        return path.read_text(errors="replace")[-most:] if path.exists() else f"no {path}"

    def _vsctl(self, *arguments: str) -> None:
        command = ["ovs-vsctl", "--timeout=20", f"--db=unix:{self.folder}/ovs/db.sock", *arguments]
        subprocess.run(command, check=True, capture_output=True)  # has done it when it ends

    @contextlib.contextmanager
    def _network(self) -> Iterator[None]:
        """Let this thread, and processes it starts, reach the cloud's network."""
        with open("/proc/thread-self/ns/net") as ours:
            with open(f"/proc/{self.script.pid}/ns/net") as theirs:
                _enter(theirs.fileno())
            try:
                yield
            finally:
                _enter(ours.fileno())


def _enter(namespace: int) -> None:
    """Call setns(2), which Python has from 3.12 on."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(namespace, _CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns")
