# SPDX-License-Identifier: Apache-2.0
"""What a killed ``iat-nova qualify`` left, and the agent that is started next."""

import json
import os
import signal
import unittest
from unittest import mock

from iat_nova.cmd import main as program
from iat_nova.qualify import host, mask
from tests.lab.guest.agents import AgentCase
from tests.lab.guest.host import REGISTERS, found
from tests.lab.guest.qualify import ended_by
from tests.proofs import proves

CPUS = "0,7"  # no guest's


@proves("qualify")
class Left(AgentCase, unittest.TestCase):
    """Nobody runs ``iat-nova restore``: the agent finds the snapshot."""

    def test_the_next_agent_puts_all_back_first(self):
        """It saves what qualify had found, not what it left; at its end all is as found."""
        agent = self.working()
        before = self.saved()
        self.end_as_found(agent)
        self.enterContext(mock.patch.object(host, "IDLE", 2.0))  # as in the tests of qualify
        _, status = ended_by(signal.SIGKILL, self.qualify)
        self.assertEqual(-signal.SIGKILL, os.waitstatus_to_exitcode(status))
        left = {cpu for cpu, number in found()["classes"].items() if number}
        self.assertTrue(left and left <= {0, 7}, found())
        agent = self.working()
        self.assertEqual(before, self.saved())
        self.assertEqual({0}, {REGISTERS.pqr_assoc(cpu)[0] for cpu in left})
        self.end_as_found(agent)

    def saved(self):
        return json.loads((self.state / "snapshot.json").read_text())

    def qualify(self):
        program.main(
            ["qualify", "--yes", "--cpus", CPUS, "--only", mask.TEST.name,
             "--out", str(self.folder), "--config-file", str(self.config)]
        )  # fmt: skip
