# SPDX-License-Identifier: Apache-2.0
"""What the loop asks of the kernel: strace's own count, and the loop's bench on real hardware."""

import json
import os
import re
import shutil
import signal
import subprocess
import unittest

from iat_nova.store.reader import HistoryReader
from tests.lab.guest.agents import AgentCase
from tests.lab.guest.host import BIN, found
from tests.lab.guest.machine import TOPOLOGY

OPENING = (
    "open", "openat", "openat2", "creat", "socket", "socketpair", "accept", "accept4", "dup",
    "dup2", "dup3", "pipe", "pipe2", "eventfd2", "epoll_create1", "timerfd_create", "signalfd4",
    "inotify_init1", "memfd_create", "pidfd_open", "perf_event_open",
)  # fmt: skip
COUNTER = "<anon_inode:[perf_event]>"
ITERATIONS = 8
ONLINE = "/sys/devices/system/cpu/online"


class Calls(AgentCase, unittest.TestCase):
    """Of an agent at work, between two looks at the whole picture."""

    maxDiff = None  # a failure shows all calls

    def setUp(self):
        super().setUp()
        self.config = self.configure(reconcile_s=3600.0, strategy="iat")

    def test_one_call_a_processor_a_poll(self):
        """Each poll reads each CPU's group once, each socket's CHA once, and no more.

        Meanwhile the loop opens no file, socket, counter or anything else that is a descriptor,
        but the list of CPUs that are online. The thread that writes the history, as the owner of
        its folder, opens the way to that folder (O_PATH).
        """
        pid = self.working()
        self.iterations(1)  # the history lags: now it knows of the first masks
        self.iterations(2)  # the first reading of the snapshot that was written before them is over
        threads = self.traced(pid)
        loop = next(calls for calls in threads if any(map(_reading, calls)))
        calls = [call for thread in threads for call in thread]
        reads = [int(call[1]) for call in map(_reading, calls) if call]
        each = len(self.watched()) + len(TOPOLOGY.caches())
        self.assertEqual(each, len(set(reads)))
        self.assertGreaterEqual(len(reads), (ITERATIONS - 1) * each)
        self.assertEqual(reads[each:], reads[:-each], "not each once in every poll")
        others = [call for call in calls if COUNTER in call and not _reading(call)]
        self.assertEqual([], others)
        opened = [call for call in loop if _opened(call)]
        self.assertEqual([], [call for call in opened if f'"{ONLINE}"' not in call])
        way = [f"<{folder}>" for folder in (self.state, *self.state.parents)]
        opened = [call for thread in threads for call in thread if thread != loop and _opened(call)]
        self.assertEqual([], [c for c in opened if "O_PATH" not in c or not c.endswith(tuple(way))])
        self.end_as_found(pid)

    def traced(self, pid):
        """Return the system calls of some iterations of a process, by thread.

        A file a thread (-ff): no call is cut in two where another thread makes one meanwhile.
        """
        self.assertIsNotNone(shutil.which("strace"), "strace is not installed: see bindep.txt")
        trace = self.folder / "trace"
        trace.mkdir()
        wanted = ",".join(("read", "pread64", "readv", "ioctl", "close", "mmap", *OPENING))
        tracer = subprocess.Popen(
            ["strace", "-ff", "-y", "-e", f"trace={wanted}", "-o", trace / "of", "-p", str(pid)],
            stderr=subprocess.PIPE,
            text=True,
        )
        self.addCleanup(tracer.stderr.close)
        self.addCleanup(tracer.wait)
        self.addCleanup(tracer.kill)
        self.assertIn("attached", tracer.stderr.readline())
        self.iterations(ITERATIONS)
        tracer.send_signal(signal.SIGINT)
        tracer.wait()
        threads = [file.read_text().splitlines() for file in sorted(trace.iterdir())]
        self.assertEqual([], [call for calls in threads for call in calls if "resumed>" in call])
        return threads

    def watched(self):
        """Return the CPUs of all tenants."""
        with HistoryReader(self.state / "history.sqlite") as reader:
            inventory = reader.latest_inventory()
        tenants = (one for domain in inventory.domains.values() for one in domain.tenants)
        return {cpu for tenant in tenants for cpu in tenant.cpus}

    def test_bench(self):
        """``iat-nova bench loop --hardware auto`` writes real masks and puts all back."""
        # Under loads that never settle the default strategy stops its trials: nothing is written.
        shown = self.bench("--tenants", "1", "3", "64", "--strategy", "iat")
        self.assertEqual(0, shown.returncode, shown.stderr)
        rows = json.loads(shown.stdout)
        self.assertEqual(
            [(1, "stable"), (1, "unstable"), (3, "stable"), (3, "unstable")],
            [(row["tenants"], row["phase"]) for row in rows],
        )
        self.assertIn("tenants: 64, cores of each: 1: more than the cache domain has", shown.stderr)
        for row in rows:
            self.assertGreater(row["floor_us"], 0, row)
        writes_us = {row["phase"]: row["write_us"] for row in rows if row["tenants"] == 3}
        self.assertGreater(writes_us["unstable"], 10 * writes_us["stable"])
        self.assertEqual(self.found, found())

    def bench(self, *arguments):
        return subprocess.run(
            [
                BIN / "iat-nova", "bench", "loop", "--config-file", self.config, "--hardware",
                "auto", "--cores", "1", "--iterations", "30", "-f", "json", *arguments,
            ],
            check=False,
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )  # fmt: skip


def _reading(call):
    """Match a line of strace that reads a perf counter; its first group is the descriptor."""
    return re.match(rf"read\((\d+){re.escape(COUNTER)}", call)


def _opened(call):
    """Tell whether a line of strace is a call that made a descriptor."""
    name = re.match(r"\w+", call)
    return name is not None and name[0] in OPENING and re.search(r"= \d+(<.*)?$", call)
