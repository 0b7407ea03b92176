# SPDX-License-Identifier: Apache-2.0
"""The quick start: what it shows, and that its end ends all that it started."""

import contextlib
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import unittest

from iat_nova.experiments.runs.run import run
from tests.functional.daemons import TestLibvirtd

ROOT = pathlib.Path(__file__).parents[2]

# The agent is at work: masks with their time.
_AT_WORK = re.compile(r" +\d+\.\d  [#.]")


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
        """SIGTERM leaves no agent, no ovsdb-server, no libvirtd and no simulation."""
        process = subprocess.Popen(
            [sys.executable, "-m", "tools.demo"],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONFAULTHANDLER": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.addCleanup(process.stdout.close)
        self.addCleanup(self.kill, process)
        self.assertTrue(any(map(_AT_WORK.match, process.stdout)))
        started = {pid: command(pid) for pid in processes_below(process.pid)}
        for name in ("iat-nova-agent", "ovsdb-server", "libvirtd", "simulate run"):
            self.assertIn(name, " ".join(filter(None, started.values())))
        process.send_signal(signal.SIGTERM)
        process.communicate()
        self.assertEqual(128 + signal.SIGTERM, process.returncode)
        self.assertEqual(
            [], [line for pid, line in started.items() if line and command(pid) == line]
        )

    def kill(self, process):
        """End the processes that a quick start has left; one that hangs says where it stands."""
        if process.poll() is None:
            for pid in (process.pid, *processes_below(process.pid)):
                print(pid, command(pid), file=sys.__stderr__)
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGABRT)  # Python writes the stacks of all threads
            process.wait()
            for log in pathlib.Path(self.folder).glob("quickstart-run/*.log"):
                print(log.read_text(), file=sys.__stderr__)
        with contextlib.suppress(ProcessLookupError):  # nothing is left in its group
            os.killpg(process.pid, signal.SIGKILL)


class MinuteTest(unittest.TestCase):
    """What the quick start shows: its load under the agent's strategy, and without the agent."""

    def test_ddio_goes_back_and_critical_guests_gain(self):
        """The burst brings DDIO more ways, its end takes ways back; web and db gain."""
        ours, theirs = (run("quickstart", one, seconds=50.0) for one in (None, "unmanaged"))
        ways = [decision.layout.ddio.count for decision in ours.decisions]
        self.assertEqual((2, 6), (ways[11], max(ways[12:30])))
        self.assertLess(ways[-1], 6)
        gain = {
            one.name: one.work_per_s / other.work_per_s
            for one, other in zip(ours.workloads, theirs.workloads, strict=True)
        }
        self.assertGreater(min(gain["web"], gain["db"]), 1.15)
        self.assertGreater(gain["batch"], 0.85)
