# SPDX-License-Identifier: Apache-2.0
"""The agent's process on a real kernel: killed, ended, and in trouble with others."""

import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
import time
import unittest
from pathlib import Path

from iat_nova import assembly, conf
from iat_nova.hardware.resctrl_fs import DEFAULT_ROOT
from iat_nova.history import HistoryReader
from iat_nova.history_db import HistoryError
from tests.lab.guest.host import REGISTERS, HostCase, found
from tests.lab.guest.machine import plug
from tools import demo_host

KILLS = int(os.environ.get("IAT_NOVA_LAB_KILLS", "20"))
ARRIVALS = int(os.environ.get("IAT_NOVA_LAB_ARRIVALS", "200"))
DEADLINE_S = 60.0
PINNED = {"hw:cpu_policy": "dedicated"}


class Process(HostCase, unittest.TestCase):
    """Two guests that stay and one that comes and goes."""

    guests = (
        demo_host.Guest(1, "pc", "m1", PINNED | {"iat:priority": "PC"}, (1,), ""),
        demo_host.Guest(2, "be", "m1", PINNED | {"iat:priority": "BE"}, (2,), ""),
        demo_host.Guest(3, "guest", "m1", PINNED | {"iat:priority": "BE"}, (3,), ""),
    )
    dedicated = "1-3"

    def setUp(self):
        super().setUp()
        self.found = found()
        self.log = self.folder / "agent.log"
        self.log.touch()
        self.config = self.configure(reconcile_s=1.0)
        self.forker = subprocess.Popen(
            [sys.executable, "-m", "tests.lab.guest.forker", self.config, self.log],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.addCleanup(self.forker.wait)
        self.addCleanup(self.forker.stdout.close)
        self.addCleanup(self.forker.stdin.close)

    def start(self):
        """Start an agent; return its process id."""
        self.forker.stdin.write("\n")
        self.forker.stdin.flush()
        return int(self.forker.stdout.readline())

    def end(self, pid, how=signal.SIGTERM):
        """End an agent and wait until it has gone."""
        os.kill(pid, how)
        self.until(lambda: not Path(f"/proc/{pid}").exists(), f"the end of {pid}")

    def until(self, condition, what):
        deadline = time.monotonic() + DEADLINE_S
        while time.monotonic() < deadline:
            if condition():
                return
            threading.Event().wait(0.02)
        self.fail(f"not seen within {DEADLINE_S:.0f} s: {what}\n{self.log.read_text()}")

    def in_class(self, cpu, yes=True):
        self.until(
            lambda: (REGISTERS.pqr_assoc(cpu)[0] != 0) is yes,
            f"processor {cpu} {'in' if yes else 'in no'} class of ours",
        )

    def reason(self):
        """Return why the agent says that it only observes."""
        with contextlib.suppress(HistoryError), HistoryReader(self.state / "history.sqlite") as r:
            status = r.status()
            return status.status.reason or "" if status else ""
        return ""

    def test_killed_at_random(self):
        """kill -9 at random moments; restore, or the next agent's end, leaves all as found."""
        dice = random.Random(1410)
        changed = 0
        for number in range(KILLS):
            pid = self.start()
            if number % 2:
                self.in_class(1)
            threading.Event().wait(dice.uniform(0.0, 2.0))  # the moment is what is random here
            self.end(pid, signal.SIGKILL)
            changed += found() != self.found
            if number % 5 == 4:  # nobody restores: the next one does, before anything else
                pid = self.start()
                self.in_class(2)
                self.end(pid)
            else:
                assembly.restore(conf.load([self.config]))
            self.assertEqual(self.found, found(), f"kill {number}")
        self.assertGreaterEqual(changed, KILLS // 2)
        self.assertEqual((), assembly.restore(conf.load([self.config])))

    def test_a_foreign_group(self):
        """While somebody else has a group the agent gives its own back and says why."""
        pid = self.start()
        self.in_class(1)
        foreign = DEFAULT_ROOT / "foreign"
        foreign.mkdir()
        self.addCleanup(lambda: foreign.exists() and foreign.rmdir())
        self.in_class(1, False)
        self.until(lambda: "foreign" in self.reason(), "the reason in the status")
        self.assertEqual(("foreign",), found()["groups"])
        foreign.rmdir()
        self.in_class(1)
        self.end(pid)
        self.assertEqual(self.found, found())

    def test_a_processor_comes_back(self):
        """A processor that was off-line is in its class again."""
        pid = self.start()
        self.in_class(2)
        plug(2, False)
        plug(2, True)
        self.in_class(2)
        self.end(pid)
        self.assertEqual(self.found, found())

    def test_arrivals_and_departures(self):
        """Many guests come and go: no group, class or descriptor is left behind."""
        pid = self.start()
        self.in_class(3)
        domain = self.connection.lookupByName("instance-00000003")
        counts = []
        for _ in range(ARRIVALS):
            domain.destroy()
            self.in_class(3, False)
            counts.append((len(found()["groups"]), len(os.listdir(f"/proc/{pid}/fd"))))
            domain.create()
            self.in_class(3)
        self.assertEqual(1, len({groups for groups, _ in counts[1:]}))
        self.assertLessEqual(counts[-1][1], counts[1][1])
        self.end(pid)
        self.assertEqual(self.found, found())
