# SPDX-License-Identifier: Apache-2.0
"""What a killed ``iat-nova qualify`` left, and the agent that is started next."""

import json
import os
import signal
import unittest
from unittest import mock

from iat_nova.checks.qualify import ddio, mask, resources
from iat_nova.cmd import main as program
from tests.lab.guest.agents import AgentCase
from tests.lab.guest.host import REGISTERS, found
from tests.lab.guest.qualify import ended_by
from tests.proofs import proves

CPUS = "0,7"  # no guest's


@proves("qualify")
class Left(AgentCase, unittest.TestCase):
    """Nobody runs ``iat-nova restore``: the agent finds the snapshot."""

    def test_the_next_agent_removes_its_class_first(self):
        """It saves what qualify had found, not what it left; at its end all is as found."""
        before = self.found_and_killed(mask.TEST.name, at_ddio=False)
        left = {cpu for cpu, number in found()["classes"].items() if number}
        self.assertTrue(left and left <= {0, 7}, found())
        self.found_again(before)
        self.assertEqual({0}, {REGISTERS.pqr_assoc(cpu)[0] for cpu in left})

    def test_the_next_agent_gives_ddio_its_ways_back_first(self):
        """These only the snapshot tells."""
        ways = REGISTERS.ddio_ways()
        before = self.found_and_killed(ddio.TEST.name, at_ddio=True)
        self.assertNotEqual(ways, REGISTERS.ddio_ways())
        self.found_again(before)
        self.assertEqual(ways, REGISTERS.ddio_ways())

    def found_and_killed(self, test, at_ddio):
        """Return what an agent saves; leave what a killed test of qualify leaves."""
        agent = self.working()
        before = self.saved()
        self.end_as_found(agent)
        self.enterContext(mock.patch.object(resources, "IDLE", 2.0))  # as in the tests of qualify
        _, status = ended_by(signal.SIGKILL, lambda: self.qualify(test), at_ddio=at_ddio)
        self.assertEqual(-signal.SIGKILL, os.waitstatus_to_exitcode(status))
        return before

    def found_again(self, before):
        """Start an agent and end it: it has saved the same as the one before."""
        agent = self.working()
        self.assertEqual(before, self.saved())
        self.end_as_found(agent)

    def saved(self):
        return json.loads((self.state / "snapshot.json").read_text())

    def qualify(self, test):
        program.main(
            ["qualify", "--yes", "--cpus", CPUS, "--only", test,
             "--out", str(self.folder), "--config-file", str(self.config)]
        )  # fmt: skip
