# SPDX-License-Identifier: Apache-2.0
"""Nova's ``[libvirt] cpu_power_management``: dedicated CPUs go offline and online with guests.

The order of steps is Nova's (nova/virt/libvirt/driver.py, cpu/api.py): a guest's CPUs come online
before the guest starts, and go offline after the guest has ended; nova-compute takes all dedicated
CPUs offline when nova-compute starts. The strategy ``governor`` writes CPU frequency governors and
takes no CPU offline.
"""

import contextlib
import io
import json
import os
import random
import re
import statistics
import threading
import time
import unittest
from pathlib import Path

from iat_nova.cmd import main
from iat_nova.report import words
from tests.lab.guest.agents import BE, PC, AgentCase
from tests.lab.guest.host import HostCase, found
from tests.lab.guest.machine import TOPOLOGY, plug
from tools import demo_host

REBOOTS = int(os.environ.get("IAT_NOVA_LAB_REBOOTS", "20"))
WITHIN_S = 3.0
RECONCILE_S = 30.0
CPUS = {1: (1, 2), 2: (3,), 5: (5, 6)}  # of each guest
DEDICATED = "1-7"  # all of socket 1
OFFLINE = "domain-offline"
RECORD = Path("/mnt/power.json")
BLAMES = re.compile(r"ERROR|WARNING|conflicting change|refused|degraded")


class Power(AgentCase, unittest.TestCase):
    """Two sockets, the second of which is idle while no guest runs there."""

    guests = (
        demo_host.Guest(1, "near", "m1", PC, CPUS[1], ""),
        demo_host.Guest(2, "batch", "m1", BE, CPUS[2], ""),
        demo_host.Guest(5, "far", "m1", PC, CPUS[5], ""),
    )
    dedicated, shared = DEDICATED, "0"
    maxDiff = None

    def setUp(self):
        HostCase.setUp(self)
        for number in CPUS:
            if self.guest(number).isActive():
                self.guest(number).destroy()
        self.addCleanup(self.power_up, *range(1, 8))
        self.found = found()
        self.log = self.folder / "agent.log"
        self.log.touch()
        # A look without a reason of its own comes late: what is noticed is noticed by itself.
        # Without Open vSwitch the offer is the same before its first answer and after.
        self.config = self.configure(
            reconcile_s=RECONCILE_S, strategy="iat", ovsdb_connection="none"
        )
        self.offered = self.folder / "provider_config/iat-nova.yaml"
        self.offered.parent.mkdir()
        text = self.config.read_text()
        compute = f"[compute]\nprovider_config_location = {self.offered.parent}"
        self.config.write_text(text.replace("[compute]", compute))
        self.arguments = {"config": str(self.config), "log": str(self.log)}
        self.living = set()
        self.addCleanup(self.mend)
        self.waits_s = []

    # ------------------------------------------------------------- what Nova does

    def power_up(self, *cpus):
        for cpu in cpus:
            if cpu not in TOPOLOGY.online():
                plug(cpu, True)
        self.back_s = time.monotonic()

    def power_down(self, *cpus):
        for cpu in cpus:
            if cpu in TOPOLOGY.online():
                plug(cpu, False)

    def boot(self, number):
        self.power_up(*CPUS[number])
        self.guest(number).create()

    def destroy(self, number):
        self.guest(number).destroy()
        self.power_down(*CPUS[number])

    def nova_compute_starts(self):
        self.power_down(*range(1, 8))

    # -------------------------------------------------------------------- looking

    def placed(self, *cpus):
        """The ways of these CPUs' guests are in place; note how long after the CPUs' return."""
        self.in_class(*cpus)
        self.waits_s.append(round(time.monotonic() - self.back_s, 2))

    def offer(self):
        """Return what a file for Placement would say, written by hand now."""
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            status = main.main(["--config-file", str(self.config), "provider-config"])
        self.assertEqual(0, status)
        lines = out.getvalue().splitlines(keepends=True)
        return "".join(line for line in lines if not line.lstrip().startswith("#"))

    def said(self):
        """Return the lines of the log that speak of a fault."""
        return [line for line in self.log.read_text().splitlines() if BLAMES.search(line)]

    def as_wanted(self):
        """No fault was told, no program blamed; waits were short."""
        self.assertEqual([], self.said())
        self.assertLessEqual(statistics.median(self.waits_s), WITHIN_S, self.waits_s)
        # Beside another guest of the lab one may be longer; none waits for a reconcile.
        self.assertLess(max(self.waits_s), RECONCILE_S / 2, self.waits_s)
        self.assertEqual(("enforce", ()), (self.status("mode"), self.status("problems")))

    def noticed(self, text):
        """Wait for the one notice of domains that are offline."""
        self.until(
            lambda: (text,) == words.texts(n for n in self.status("notices") if n.code == OFFLINE),
            text,
            0.2,
        )

    def started(self):
        pid = self.start()
        self.until(lambda: self.status("pid") == pid, "a status", 0.2)
        return pid

    # ---------------------------------------------------------------------- tests

    def test_hard_reboots(self):
        """Back to back at random moments: the guest's ways are in place, nobody is blamed."""
        dice = random.Random(3)
        self.nova_compute_starts()
        pid = self.started()
        for number in CPUS:
            self.boot(number)
        self.placed(1, 2, 3, 5, 6)
        for _ in range(REBOOTS):
            number = dice.choice((1, 5))
            self.destroy(number)
            self.boot(number)
            self.placed(*CPUS[number])
            threading.Event().wait(dice.uniform(0, 1.0))  # the moment is what is random
        RECORD.write_text(json.dumps(self.waits_s[-REBOOTS:]))
        self.as_wanted()
        self.end(pid)
        self.power_up(*range(1, 8))
        self.assertEqual(self.found, found())

    def test_an_idle_socket(self):
        """Offline at the start and at the end, online between: the offer to Placement stays."""
        offered = self.offer()
        self.assertIn("total: 8", offered)
        self.offered.write_text(offered)
        self.nova_compute_starts()
        self.assertEqual(offered, self.offer())
        pid = self.started()
        self.boot(1)
        self.placed(1, 2)
        self.noticed("cache domains whose CPUs have been offline since the start: 1")
        self.boot(5)
        self.placed(5, 6)
        self.destroy(5)
        self.noticed("cache domain 1: all CPUs offline; cache domain skipped")
        self.as_wanted()
        self.assertEqual(8, self.status("placement").offered_ways)
        self.assertEqual(offered, self.offer())
        self.end(pid)
        self.assertEqual([], self.said())
        self.guest(1).destroy()
        self.power_up(*range(1, 8))
        self.assertEqual(0, self.restore())
        self.assertEqual(self.found, found())

    def test_nova_compute_restarted(self):
        """All dedicated CPUs go offline under their guests, without any event of libvirt."""
        pid = self.started()
        for number in (1, 2):
            self.boot(number)
        self.placed(1, 2, 3)
        self.nova_compute_starts()
        began_s = time.monotonic()
        for text in ("CPUs 1-2 of near are offline", "CPU 3 of batch is offline"):
            self.until(lambda text=text: text in self.log.read_text(), text, 0.1)
        self.waits_s.append(round(time.monotonic() - began_s, 2))
        self.power_up(1, 2, 3)
        self.placed(1, 2, 3)
        self.as_wanted()
        self.destroy(1)
        self.destroy(2)
        self.end(pid)
        self.assertEqual([], self.said())
