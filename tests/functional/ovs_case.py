# SPDX-License-Identifier: Apache-2.0
"""What the tests of the Open vSwitch inventory share."""

import os
import pathlib
import tempfile
import threading
import time
import unittest

from iat_nova.inventory.ovs import OvsSource
from tests.functional.ovs_daemons import OvsDaemons

DEADLINE_S = 20.0


class OvsTestCase(unittest.TestCase):
    """Private daemons in a temporary folder and a source that follows them."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="ovs")
        self.addCleanup(folder.cleanup)
        self.daemons = OvsDaemons(folder.name)
        self.addCleanup(self.daemons.stop)
        self.proc_root = self.daemons.folder / "proc"
        self.proc_root.mkdir()
        self.hinted = threading.Event()
        self.hints = 0

    def hint(self):
        self.hints += 1
        self.hinted.set()

    def make_source(self, address=None, **options):
        """Return a source for the private database; it sees what `see_vswitchd` has put there."""
        options = {"rundir": self.daemons.folder, "proc_root": self.proc_root} | options
        options = {"timeout_s": 5.0, "retry_s": 0.1} | options
        return OvsSource(address or self.daemons.address, **options)

    def start_source(self, address=None, **options):
        """Follow the private database from now on."""
        self.source = self.make_source(address, **options)
        self.addCleanup(self.source.close)
        self.source.start(self.hint)

    def see_vswitchd(self):
        """Let the source see the private ovs-vswitchd's process, and no other one."""
        pid = str(self.daemons.pid("ovs-vswitchd"))
        os.symlink(f"/proc/{pid}", self.proc_root / pid)

    def until(self, wanted):
        """Look at each hint until `wanted(switch)` holds; return that picture."""
        deadline = time.monotonic() + DEADLINE_S
        while True:
            self.hinted.clear()
            switch = self.source.switch()
            if wanted(switch):
                return switch
            if not self.hinted.wait(max(deadline - time.monotonic(), 0)):
                self.fail(f"still {switch}, {self.source.warnings}")


def affinity_of_pmd_threads(pid):
    """Return the CPUs on which the kernel lets the PMD threads of a process run."""
    cpus = set()
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        if (task / "comm").read_text().startswith("pmd-"):
            cpus |= os.sched_getaffinity(int(task.name))
    return tuple(sorted(cpus))
