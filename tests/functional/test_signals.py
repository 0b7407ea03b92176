# SPDX-License-Identifier: Apache-2.0
"""Signals to an agent that cannot start yet: another process compiles the emulated server."""

import contextlib
import fcntl
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from iat_nova.store import heartbeat

BIN = pathlib.Path(sys.executable).parent
DEADLINE_S = 20.0


class StartTest(unittest.TestCase):
    """An agent of the emulated server that waits while another process compiles the engine."""

    def setUp(self) -> None:
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.hold_the_engine()
        config = self.folder / "nova.conf"
        config.write_text(
            "[iat]\nhardware = emulated\nemulated_scenario = quickstart\n"
            f"state_dir = {self.folder / 'state'}\n"
        )
        self.log = self.folder / "log"
        with self.log.open("w") as log:
            self.agent = subprocess.Popen(
                [BIN / "iat-nova-agent", "--config-file", config],
                stderr=log,
                env={
                    **os.environ,
                    "XDG_CACHE_HOME": str(self.folder),
                    "IAT_NOVA_ENGINE_FLAGS": "-O3",  # compiled, whatever is installed
                },
            )
        self.addCleanup(self.agent.wait)
        self.addCleanup(self.agent.kill)
        self.until(self.waits, "the agent waits for the engine")

    def hold_the_engine(self) -> None:
        """Be the process that compiles: hold the lock of the folder."""
        cache = self.folder / "iat-nova"
        cache.mkdir(mode=0o700)
        lock = os.open(cache, os.O_RDONLY)
        self.addCleanup(os.close, lock)
        fcntl.flock(lock, fcntl.LOCK_EX)

    def waits(self) -> bool:
        """Whether the kernel has the agent wait for a lock (proc_locks(5))."""
        lines = pathlib.Path("/proc/locks").read_text().splitlines()
        return any("->" in line and str(self.agent.pid) in line.split() for line in lines)

    def until(self, seen, what: str) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while not seen():
            if self.agent.poll() is not None or time.monotonic() > deadline:
                self.fail(f"not seen: {what}; log: {self.log.read_text()}")
            time.sleep(0.05)

    def state(self) -> heartbeat.AgentState:
        return heartbeat.look(self.folder / "state" / "agent.lock").state

    def end(self, number: signal.Signals) -> None:
        """Send a signal; the agent ends at once, in order, and says so."""
        self.assertEqual(heartbeat.AgentState.STARTING, self.state())
        self.agent.send_signal(number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.agent.wait(DEADLINE_S)
        self.assertEqual(0, self.agent.returncode, self.log.read_text())
        self.assertEqual(heartbeat.AgentState.STOPPED, self.state())
        self.assertIn(f"ended by {number.name} before it had started", self.log.read_text())

    def test_where_it_stands_and_its_end(self) -> None:
        """SIGUSR1 writes each thread's stack to the log and ends nothing; SIGTERM ends it."""
        self.agent.send_signal(signal.SIGUSR1)
        self.until(lambda: "in _built" in self.log.read_text(), "the stack of the main thread")
        self.assertRegex(self.log.read_text(), r"[Tt]hread 0x\w+.*\(most recent call first\)")
        self.end(signal.SIGTERM)

    def test_ctrl_c(self) -> None:
        """SIGINT does the same."""
        self.end(signal.SIGINT)
