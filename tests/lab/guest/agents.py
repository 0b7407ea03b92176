# SPDX-License-Identifier: Apache-2.0
"""What tests of the agent's process share: a host with guests, starting, ending, looking."""

import contextlib
import functools
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from iat_nova.report import words
from iat_nova.store.database import HistoryError
from iat_nova.store.reader import HistoryReader
from tests.lab.guest.host import REGISTERS, HostCase, found
from tests.lab.guest.machine import TOPOLOGY
from tools import demo_host

DEADLINE_S = 120.0
PINNED = {"hw:cpu_policy": "dedicated"}
PC = PINNED | {"iat:priority": "PC", "iat:io": "true"}
BE = PINNED | {"iat:priority": "BE"}
PC_CPU = 4  # on the second socket, where there are two
COMERS = {3: 2, 4: 3, 5: 5, 6: 6}  # guests that may come and go: number -> CPU


class Forker:
    """The other end of `tests.lab.guest.forker`; one is enough for all tests of a guest."""

    def __init__(self):
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.lab.guest.forker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, do, **arguments):
        """Have something done and return the answer."""
        self._process.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())


@functools.cache
def forker():
    """Return the one forker, started when it is needed first."""
    return Forker()


class AgentCase(HostCase):
    """Six guests, two that stay and four that come and go, on eight CPUs.

    With the default one their classes are seven of the machine's eight: others may take one.
    """

    guests = (
        demo_host.Guest(1, "pc", "m1", PC, (PC_CPU,), ""),
        demo_host.Guest(2, "be", "m1", BE, (1,), ""),
        *(demo_host.Guest(n, f"guest{n}", "m1", BE, (cpu,), "") for n, cpu in COMERS.items()),
    )
    dedicated = "1-6"

    def setUp(self):
        super().setUp()
        for number in COMERS:  # an earlier test may have left without some
            if not self.guest(number).isActive():
                self.guest(number).create()
        self.found = found()
        self.log = self.folder / "agent.log"
        self.log.touch()
        # Under `iat` guests have classes of their own from the first layout on.
        self.config = self.configure(reconcile_s=1.0, strategy="iat")
        self.arguments = {"config": str(self.config), "log": str(self.log)}
        self.living = set()
        self.addCleanup(self.mend)

    def mend(self):
        """Let no failure spoil the next test: nobody is left, and nothing of them."""
        if self.living:
            for pid in tuple(self.living):
                self.kill(pid)
            self.restore()

    def guest(self, number):
        """Return a guest's domain."""
        return self.connection.lookupByName(f"instance-{number:08x}")

    # -------------------------------------------------------------------- the agent

    def start(self):
        """Start an agent; return its process id."""
        pid = forker().ask("agent", **self.arguments)
        self.living.add(pid)
        return pid

    def working(self):
        """Start an agent and wait until the host has its classes; return its process id.

        What an agent before it may have left is no sign: this one must have said that it is there,
        which it does after it has put that back.
        """
        pid = self.start()
        self.until(lambda: self.status("pid") == pid, f"a status of process {pid}", 0.2)
        self.in_class(PC_CPU)
        return pid

    def end(self, pid, status=0):
        """End an agent by SIGTERM; it says how that went."""
        self.signal(pid, signal.SIGTERM, status)

    def kill(self, pid):
        """End an agent by SIGKILL."""
        self.signal(pid, signal.SIGKILL, -signal.SIGKILL)

    def signal(self, pid, how, status):
        """Send a signal that ends a process; it ends with that status."""
        self.living.discard(pid)
        os.kill(pid, how)
        self.assertEqual(status, forker().ask("wait", pid=pid), self.log.read_text())

    def restore(self):
        """Run ``iat-nova restore``; return its exit status."""
        return forker().ask("restore", **self.arguments)

    def end_as_found(self, pid):
        """End an agent; everything is as before it."""
        self.end(pid)
        self.assertEqual(self.found, found())

    # --------------------------------------------------------------------- looking

    def until(self, condition, what, look_s=0.02):
        """Wait for a condition, at most DEADLINE_S; looking costs the agent time here."""
        deadline = time.monotonic() + DEADLINE_S
        while time.monotonic() < deadline:
            if condition():
                return
            threading.Event().wait(look_s)
        now = self.doing()
        self.fail(f"not seen within {DEADLINE_S:.0f} s: {what}\n{self.log.read_text()}\n{now}")

    def doing(self):
        """Return what CPUs, classes and the agents' threads are doing; the log gets their stacks.

        A guest of an emulator may stand still itself; this tells such a guest from a faulty agent.
        """
        told = [f"online: {sorted(TOPOLOGY.online())}", f"registers: {REGISTERS.everything()}"]
        for pid in self.living:
            os.kill(pid, signal.SIGUSR1)  # the agent's own: all Python stacks
            for thread in Path(f"/proc/{pid}/task").iterdir():
                for name in ("comm", "wchan", "stack"):
                    with contextlib.suppress(OSError):
                        told.append(f"{thread.name} {name}: {(thread / name).read_text().strip()}")
        kernel = subprocess.run(["dmesg"], capture_output=True, text=True, check=False).stdout
        return "\n".join([*told, kernel[-2000:]])

    def in_class(self, *cpus, yes=True):
        """Wait until CPUs are in classes of ours, or in none."""
        self.until(
            lambda: {REGISTERS.pqr_assoc(cpu)[0] != 0 for cpu in cpus} == {yes},
            f"CPUs {cpus} {'in classes' if yes else 'in no class'} of ours",
        )

    def status(self, field):
        """Return what the agent last said of itself, None before it has said anything."""
        with contextlib.suppress(HistoryError), HistoryReader(self.state / "history.sqlite") as r:
            record = r.status()
            return getattr(record.status, field) if record else None
        return None

    def observes(self, why):
        """Wait until the agent says that it only observes, and why."""
        self.until(lambda: why in self.reasons(), f"{why!r} in the status", 0.2)

    def reasons(self):
        """Return in words why the agent only observes; empty when it may write."""
        return "; ".join(words.texts(self.status("reasons") or ()))

    def iterations(self, count):
        """Wait until the loop has gone round so many times more."""
        first = self._latest()
        self.until(lambda: self._latest() >= first + count, f"{count} iterations", 0.2)

    def _latest(self):
        with contextlib.suppress(HistoryError), HistoryReader(self.state / "history.sqlite") as r:
            latest = r.latest(0)
            return latest.iteration.decision.iteration if latest else 0
        return 0
