# SPDX-License-Identifier: Apache-2.0
"""The agent in a loop that is closed across this kernel: the other side feeds the counters."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import unittest

from iat_nova.store.database import HistoryError
from iat_nova.store.reader import HistoryReader
from tests.lab.guest.host import HostCase, described, found
from tests.proofs import proves

DEADLINE_S = 0.8 * float(os.environ.get("IAT_NOVA_LAB_TIMEOUT_S", "600"))  # of the guest's time


@proves("the loop")
class Loop(HostCase, unittest.TestCase):
    """One scenario from its start to its end."""

    @classmethod
    def setUpClass(cls):
        cls.told = described()
        cls.guests, cls.switch = cls.told["guests"], cls.told["switch"]
        cls.dedicated = cls.told["dedicated"]
        super().setUpClass()

    def test_the_scenario(self):
        """The agent goes through it, ends and leaves the machine as it was found."""
        before = found()
        policy = self.folder / "policy.yaml"
        policy.write_text(self.told["policy"])
        config = self.configure(policy_file=policy, **self.told["options"])
        agent = subprocess.Popen(
            [sys.executable, "-m", "tests.lab.guest.fed_clock", "--config-file", config],
            stderr=subprocess.PIPE,
            text=True,
        )
        self.addCleanup(agent.stderr.close)
        self.addCleanup(agent.wait)
        self.addCleanup(agent.kill)
        self.wait_for(self.told["seconds"], agent)
        self.end(agent, config)
        for path in self.state.glob("history.sqlite*"):
            shutil.copy(path, "/mnt")
        self.assertEqual(before, found())
        self.assertFalse((self.state / "snapshot.json").exists())

    def end(self, agent, config):
        """Have it end by SIGTERM."""
        agent.send_signal(signal.SIGTERM)
        _, log = agent.communicate(timeout=60)
        with open("/mnt/agent.log", "w") as file:
            file.write(log)
        self.assertEqual(0, agent.returncode, log)

    def wait_for(self, seconds, agent):
        """Wait until that second of the scenario has been decided."""
        deadline = time.monotonic() + DEADLINE_S
        while time.monotonic() < deadline and agent.poll() is None:
            history = self.state / "history.sqlite"
            with contextlib.suppress(HistoryError), HistoryReader(history) as reader:
                latest = reader.latest(0)
                if latest is not None and latest.iteration.at_s >= seconds:
                    return
            threading.Event().wait(1.0)  # looking costs the agent some of this slow machine
        agent.kill()
        self.fail(f"second {seconds} was not reached: {agent.communicate()[1]}")
