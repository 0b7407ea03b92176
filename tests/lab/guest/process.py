# SPDX-License-Identifier: Apache-2.0
"""The agent's process on a real kernel: killed, ended, CPUs and guests come and go."""

import os
import random
import threading
import time
import unittest

from iat_nova.hardware.cat.resctrl_fs import ResctrlFs
from tests.lab.guest.agents import COMERS, PC_CPU, AgentCase
from tests.lab.guest.host import found
from tests.lab.guest.machine import plug

KILLS = int(os.environ.get("IAT_NOVA_LAB_KILLS", "10"))
ARRIVALS = int(os.environ.get("IAT_NOVA_LAB_ARRIVALS", "60"))


class Process(AgentCase, unittest.TestCase):
    """One agent after the other."""

    def test_killed_at_random(self):
        """kill -9 at random moments; restore, or the next agent, leaves all as found.

        By turns anywhere from the start to some time at work, and while a guest comes or goes.
        """
        dice = random.Random(1410)
        started = time.monotonic()
        self.end_as_found(self.working())
        a_life_s = time.monotonic() - started
        changed = 0
        for number in range(KILLS):
            if number % 2:
                pid = self.working()
                guest = self.guest(dice.choice(list(COMERS)))
                guest.destroy() if guest.isActive() else guest.create()
                threading.Event().wait(dice.uniform(0.0, 1.0))  # the moment is what is random
            else:
                pid = self.start()
                threading.Event().wait(dice.uniform(0.0, a_life_s))
            self.kill(pid)
            changed += found() != self.found
            if number % 5 == 4:  # nobody restores: the next one does, before anything else
                self.end(self.working())
            else:
                self.assertEqual(0, self.restore(), self.log.read_text())
            self.assertEqual(self.found, found(), f"kill {number}")
            self.assertFalse((self.state / "snapshot.json").exists())
        self.assertGreaterEqual(changed, KILLS // 2)

    def test_processors_come_and_go(self):
        """A CPU that was offline is in its class again, whosever it is."""
        pid = self.working()
        for cpu in (PC_CPU, max(COMERS.values())):
            self.in_class(cpu)
            plug(cpu, False)
            self.iterations(2)  # the loop goes on without it
            plug(cpu, True)
            self.in_class(cpu)
        self.end_as_found(pid)

    def test_arrivals_and_departures(self):
        """Many guests come and go: no group, class or descriptor is left behind."""
        dice = random.Random(200)
        pid = self.working()
        self.in_class(*COMERS.values())
        connected = f"{self.ovs.address}: connected"
        self.until(lambda: connected in self.log.read_text(), "the connection to OVSDB", 0.2)
        groups, descriptors = ResctrlFs().groups(), self.descriptors(pid)
        arrivals = 0
        while arrivals < ARRIVALS:
            who = dice.sample(list(COMERS), dice.randint(3, len(COMERS)))
            for number in who:
                self.guest(number).destroy()
            self.in_class(*(COMERS[number] for number in who), yes=False)
            self.assertLessEqual(set(ResctrlFs().groups()), set(groups))
            for number in reversed(who):
                self.guest(number).create()
            self.in_class(*COMERS.values())
            self.assertEqual(groups, ResctrlFs().groups())
            arrivals += len(who)
        # A file may be open just now; what is leaked is open for ever.
        self.until(lambda: self.descriptors(pid) <= descriptors, "as few descriptors as before")
        self.end_as_found(pid)

    def descriptors(self, pid):
        return len(os.listdir(f"/proc/{pid}/fd"))
