# SPDX-License-Identifier: Apache-2.0
"""The quick start: a real libvirtd, a real ovsdb-server, the real agent, an emulated machine.

`python -m tools.demo` from a checkout; ``./quickstart`` installs first. What is worth keeping lies
in ``quickstart-run``, sockets in a short folder of their own, because their names are limited. The
same seconds without the agent are simulated meanwhile; the last lines have the gain of each guest.
Nothing of the machine's own libvirt or Open vSwitch is touched, and all daemons are ended.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import sys
import time

import libvirt

from iat_nova.store.database import HistoryError
from iat_nova.store.reader import HistoryReader
from iat_nova.store.records import Iteration
from tests.functional.daemons import TestLibvirtd, short_folder
from tests.functional.ovs_daemons import OvsDaemons
from tools import demo_gain, demo_host

RUN = pathlib.Path("quickstart-run")
# Less than `pmd.KEPT_S`: no ovs-vswitchd runs here, and after that time the agent would give the
# switch's CPUs to the host.
SECONDS = 50
# The results of the workloads: what the agent's emulated server writes, and the run without agent.
RESULTS, WITHOUT = "emulated.json", "without-agent.json"
BIN = pathlib.Path(sys.executable).parent
# A critical guest with I/O, another without, and a best-effort guest that streams through memory.
SHOWN = ("web", "db", "batch")


class _Ending:
    """The first signal that ends the demonstration, and the processes that it ends at once.

    The handler raises nothing: an exception inside `subprocess` may leave a lock that no wait gets.
    """

    def __init__(self) -> None:
        self.signal: int | None = None
        self._processes: list[subprocess.Popen[bytes]] = []

    def take(self, process: subprocess.Popen[bytes]) -> None:
        """Let a signal end a process, also a signal that has come."""
        self._processes.append(process)
        if self.signal is not None:
            process.terminate()

    def handle(self, number: int, frame: object) -> None:
        """Note the signal, and end the processes; the main flow goes on to its end."""
        self.signal = self.signal or number
        for process in self._processes:
            process.terminate()


def main() -> int:
    """Run the demonstration; the exit status is 1 when the agent did not end well."""
    ending = _Ending()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, ending.handle)
    try:
        status = _demonstrate(ending)
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    return status if ending.signal is None else 128 + ending.signal


def _demonstrate(ending: _Ending) -> int:
    history = ("history.sqlite", "history.sqlite-wal", "history.sqlite-shm")
    for name in (*history, "pause.json", "report.html", RESULTS, WITHOUT):
        (RUN / name).unlink(missing_ok=True)
    for name in ("sys", "holds"):
        shutil.rmtree(RUN / name, ignore_errors=True)
    RUN.mkdir(exist_ok=True)
    demo_host.write_sysfs(RUN / "sys")
    with contextlib.ExitStack() as stack:
        _say("starting a private ovsdb-server: bridge br-int, a 100 Gb/s NIC, a port a guest")
        ovs = _start_ovs(stack)
        _say("starting a private libvirtd with libvirt's test driver, defining five guests")
        hypervisor = _start_libvirt(stack)
        config = _write_config(hypervisor, ovs)
        _say(f"starting iat-nova-agent on the emulated server for {SECONDS} emulated seconds")
        print("    at 12 s a burst of packets reaches web, at 30 s it ends\n")
        without = _start_without_agent(stack)
        ending.take(without)
        status = _run_agent(config, ending)
        if status == 0 and ending.signal is None:
            _show_results()
            _show_gain(without, ending)
    return status


def _start_without_agent(stack: contextlib.ExitStack) -> subprocess.Popen[bytes]:
    """Simulate the same seconds without the agent, in the background: the same load and seed."""
    command = [str(BIN / "iat-nova"), "simulate", "run", "quickstart", "--strategy", "unmanaged",
               "--seconds", str(SECONDS), "-f", "json"]  # fmt: skip
    output = stack.enter_context((RUN / WITHOUT).open("w"))
    process = subprocess.Popen(
        ["nice", *command], stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.DEVNULL
    )
    stack.callback(process.wait)
    stack.callback(process.terminate)
    return process


def _start_ovs(stack: contextlib.ExitStack) -> OvsDaemons:
    ovs = OvsDaemons(stack.enter_context(short_folder()))
    stack.callback(ovs.stop)
    ovs.start_ovsdb()
    ovs.vsctl("--no-wait", "init")
    for command in demo_host.switch_commands():
        ovs.vsctl("--no-wait", *shlex.split(command))
    return ovs


def _start_libvirt(stack: contextlib.ExitStack) -> TestLibvirtd:
    daemon = TestLibvirtd(stack.enter_context(short_folder()))
    stack.callback(daemon.stop)
    daemon.start()
    # The test driver forgets its host when its last client leaves: this one stays.
    connection = stack.enter_context(contextlib.closing(libvirt.open(daemon.uri)))
    connection.lookupByName("test").destroy()  # the one libvirt puts there
    for guest in demo_host.GUESTS:
        connection.defineXML(demo_host.domain_xml(guest)).create()
    return daemon


def _write_config(hypervisor: TestLibvirtd, ovs: OvsDaemons) -> pathlib.Path:
    path = RUN / "nova.conf"
    path.write_text(
        f"""# Written by the quick start: what an operator puts into nova.conf.
[compute]
cpu_dedicated_set = {demo_host.DEDICATED}
cpu_shared_set = {demo_host.SHARED}

[iat]
mode = enforce
hardware = emulated
emulated_scenario = quickstart
emulated_seconds = {SECONDS}
libvirt_uri = {hypervisor.uri}
ovsdb_connection = {ovs.address}
ovs_rundir = {ovs.folder}
sysfs_root = {(RUN / "sys").resolve()}
state_dir = {RUN.resolve()}
"""
    )
    return path


def _run_agent(config: pathlib.Path, ending: _Ending) -> int:
    """Run the agent and show the way map meanwhile; return the agent's exit status."""
    log = RUN / "agent.log"
    command = [str(BIN / "iat-nova-agent"), "--config-file", str(config)]
    with log.open("w") as errors, subprocess.Popen(command, stderr=errors) as agent:
        try:
            ending.take(agent)
            terminal = sys.stdin.isatty() and sys.stdout.isatty()
            if terminal and os.environ.get("TERM", "dumb") != "dumb":
                _top_until_it_ends(agent)
            else:
                _follow_until_it_ends(agent)
            status = agent.wait()
        except KeyboardInterrupt:
            _say(f"stopped; the agent's log is {log}")
            raise
        finally:
            agent.terminate()
            agent.wait()
    if ending.signal is not None:
        _say(f"stopped; the agent's log is {log}")
    elif status:
        print(f"the agent ended with status {status}; its log, {log}:", file=sys.stderr)
        print(log.read_text(), file=sys.stderr)
    return status


def _top_until_it_ends(agent: subprocess.Popen[bytes]) -> None:
    """Show `iat-nova top` on the terminal as long as the agent runs; quitting it ends the agent."""
    with subprocess.Popen([BIN / "iat-nova", "--state-dir", RUN, "top"]) as top:
        try:
            while agent.poll() is None and top.poll() is None:
                time.sleep(0.1)
        finally:
            top.terminate()
    agent.terminate()


def _follow_until_it_ends(agent: subprocess.Popen[bytes]) -> None:
    """Print a line whenever ways of a shown guest or of DDIO changed: for logs and pipes."""
    print("   seconds  " + "".join(f"{name:<13}" for name in SHOWN) + "DDIO", flush=True)
    shown = None
    while agent.poll() is None:
        time.sleep(0.5)
        with contextlib.suppress(HistoryError), HistoryReader(RUN / "history.sqlite") as reader:
            latest = reader.latest(0)
            if latest is None or (line := _line(reader, latest.iteration)) == shown:
                continue
            shown = line
            print(f"  {latest.iteration.at_s:8.1f}  {line}", flush=True)


def _line(reader: HistoryReader, iteration: Iteration) -> str:
    """Draw the ways that the shown guests and DDIO may fill, way 0 first."""
    inventory = reader.inventory(iteration.inventory_id).domains[iteration.domain]
    layout = iteration.decision.layout
    ids = {inventory.names.get(tenant.id): tenant.id for tenant in inventory.tenants}
    masks = [(layout.mask_of(ids[name]) or 0 if name in ids else 0, "#") for name in SHOWN]
    ways = range(inventory.domain.ways)
    return "  ".join(
        "".join(sign if mask >> way & 1 else "." for way in ways)
        for mask, sign in (*masks, (layout.ddio, "~"))
    )


def _show_gain(without: subprocess.Popen[bytes], ending: _Ending) -> None:
    """End with what each guest gained over the same seconds without the agent."""
    if without.poll() is None:
        _say("waiting for the run without the agent")
    status = without.wait()
    if ending.signal is not None:
        return
    if status != 0:
        raise SystemExit(f"the run without the agent ended with status {status}")
    guests = demo_host.GUESTS
    critical = [one.name for one in guests if one.extra_specs.get("iat:priority") == "PC"]
    rest = [one.name for one in guests if one.name not in critical]
    texts = ((RUN / name).read_text() for name in (RESULTS, WITHOUT))
    if (lines := demo_gain.lines(*texts, critical, rest)) is None:
        _say("stopped early: no comparison with a run without the agent")
    else:
        _say(f"measured: work of {SECONDS} s against the same {SECONDS} s without the agent")
        print(*(f"    {line}" for line in lines), sep="\n")


def _show_results() -> None:
    """Leave the report and show what an operator would ask next."""
    state = ["--state-dir", str(RUN)]
    _iat_nova(*state, "report", "-o", str(RUN / "report.html"))
    _say("tenants, some columns:  iat-nova tenants")
    _iat_nova(*state, "tenants", "-c", "name", "-c", "priority", "-c", "io", "-c", "cpus",
              "-c", "model", "-c", "ways", "-c", "mask")  # fmt: skip
    _say("what was decided:  quickstart-run/agent.log")
    print((RUN / "agent.log").read_text())
    _say("why:  iat-nova explain")
    _iat_nova(*state, "explain")
    print(f"""
Open {RUN / "report.html"} in a browser.  Ask further, for instance:

    .venv/bin/iat-nova --state-dir {RUN} status
    .venv/bin/iat-nova --state-dir {RUN} explain -f json
    .venv/bin/iat-nova --help
""")


def _iat_nova(*arguments: str) -> None:
    # Status 3 says that the agent has ended, which it has.
    done = subprocess.run([BIN / "iat-nova", *arguments], stderr=subprocess.DEVNULL, check=False)
    if done.returncode not in (0, 3):
        raise SystemExit(f"iat-nova {' '.join(arguments)}: exit status {done.returncode}")


def _say(text: str) -> None:
    print(f"==> {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
