# SPDX-License-Identifier: Apache-2.0
"""What the quick start starts is ended with it."""

import contextlib
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import unittest

from tests.functional.daemons import TestLibvirtd

ROOT = pathlib.Path(__file__).parents[2]

# The agent is at work: a way map with its time.
_AT_WORK = re.compile(r" +\d+\.\d s  ")


def processes_below(pid):
    """Return the ids of all processes that a process has started, and those of these."""
    found = []
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
            for child in map(int, (task / "children").read_text().split()):
                found += [child, *processes_below(child)]
    return found


def command(pid):
    """Return a running process's command line; None when there is no such process."""
    try:
        line = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return line.decode().replace("\0", " ") or None


class QuickstartTest(unittest.TestCase):
    """The demonstration, in a folder of its own."""

    def setUp(self):
        if missing := TestLibvirtd.missing():
            self.skipTest(missing)
        self.folder = self.enterContext(tempfile.TemporaryDirectory())

    def test_a_signal_ends_all_that_was_started(self):
        """SIGTERM leaves no agent, no ovsdb-server and no libvirtd."""
        with subprocess.Popen(
            [sys.executable, "-m", "tools.demo"],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        ) as demo:
            self.assertTrue(any(map(_AT_WORK.match, demo.stdout)))
            started = {pid: command(pid) for pid in processes_below(demo.pid)}
            for name in ("iat-nova-agent", "ovsdb-server", "libvirtd"):
                self.assertIn(name, " ".join(filter(None, started.values())))
            demo.send_signal(signal.SIGTERM)
            demo.communicate()
        self.addCleanup(self.kill, started)
        self.assertEqual(128 + signal.SIGTERM, demo.returncode)
        self.assertEqual(
            [], [line for pid, line in started.items() if line and command(pid) == line]
        )

    def kill(self, started):
        """End what a quick start without this left."""
        for pid, line in started.items():
            if line and command(pid) == line:
                os.kill(pid, signal.SIGKILL)
