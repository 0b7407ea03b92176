# SPDX-License-Identifier: Apache-2.0
"""The installed programs, as an operator types them."""

import signal
import subprocess
import unittest

from tests.lab.guest.agents import PC_CPU, AgentCase
from tests.lab.guest.host import BIN, found


class Typed(AgentCase, unittest.TestCase):
    """iat-nova-agent and iat-nova, started anew each time: that takes long in here."""

    def test_what_an_operator_types(self):
        """The programs themselves: killed, restored, restored again, and started anew."""
        with open(self.log, "a") as log:
            agent = subprocess.Popen(
                [BIN / "iat-nova-agent", "--config-file", self.config], stdout=log, stderr=log
            )
        self.addCleanup(agent.wait)
        self.addCleanup(agent.kill)
        self.in_class(PC_CPU)
        busy = self.type_restore()
        self.assertEqual(1, busy.returncode)
        self.assertIn(f"process {agent.pid} writes this host's cache masks", busy.stderr)
        agent.send_signal(signal.SIGKILL)
        agent.wait()
        self.assertNotEqual(self.found, found())
        first, second = self.type_restore(), self.type_restore()
        self.assertEqual((0, 0), (first.returncode, second.returncode), first.stderr)
        self.assertIn("removed /sys/fs/resctrl/iat-nova.1\n", first.stdout)
        self.assertEqual("nothing to restore\n", second.stdout)
        self.assertEqual(self.found, found())

    def type_restore(self):
        """Run ``iat-nova restore``."""
        return subprocess.run(
            [BIN / "iat-nova", "restore", "--config-file", self.config],
            check=False,
            capture_output=True,
            text=True,
        )
