# SPDX-License-Identifier: Apache-2.0
"""Occupancy and memory traffic as the agent reads them, and as ``pqos -m`` shows the same."""

import csv
import subprocess
import tempfile
import threading
import time
from pathlib import Path

from iat_nova.hardware.counters.monitor import offered
from tests.lab.guest import monitoring
from tests.lab.guest.machine import mount, unmount
from tests.lab.registers import RMID_UNIT
from tests.proofs import proves

OCCUPIED, MOVED = 48, 160  # in units of the counters: 3 MiB, 10 MiB
DEADLINE_S = 60.0


@proves("occupancy and traffic")
class AgainstPqos(monitoring.TwoTenants):
    """Every RMID counts the same, so that it does not matter which one somebody takes."""

    def setUp(self):
        super().setUp()
        self.rmids = offered(self.fs).rmids
        self.feed(0)
        self.addCleanup(self.feed, 0, occupied=0)

    def feed(self, moved, occupied=OCCUPIED):
        for rmid in range(self.rmids):
            monitoring.REGISTERS.set_rmid(rmid, occupied, moved, moved)

    def test_resctrl(self):
        """pqos through resctrl, as the agent."""
        self.compare("os")

    def test_registers(self):
        """pqos reads the registers itself."""
        self.compare("msr")

    def compare(self, interface):
        """Feed the agent and pqos one after the other: they say the same."""
        tenant = self.tenants[0]
        self.watch(tenant)
        before = self.monitor.read()[0, tenant.id]
        self.feed(MOVED)
        after = self.monitor.read()[0, tenant.id]
        self.monitor.close()
        self.resctrl.restore(self.resctrl.save())
        self.feed(0)
        if interface == "msr":
            unmount()
        try:
            kib, mib = self.of_pqos(interface, tenant.cpus[0])
        finally:
            mount()
        self.assertEqual(OCCUPIED * RMID_UNIT, after.occupancy_bytes)
        self.assertEqual(after.occupancy_bytes / 1024, kib)
        self.assertEqual(MOVED * RMID_UNIT, after.memory_bytes - before.memory_bytes)
        self.assertAlmostEqual((after.memory_bytes - before.memory_bytes) / (1 << 20), mib, 1)

    def of_pqos(self, interface, cpu):
        """Return the KiB of the last line, and the MiB moved: each line has those of a second."""
        with tempfile.TemporaryDirectory(dir="/run") as folder:
            path = Path(folder) / "lines.csv"
            pqos = subprocess.Popen(
                ["pqos", f"--iface={interface}", "-m", f"llc:{cpu};mbt:{cpu}",
                 "-i", "10", "-t", "6", "-u", "csv", "-o", path],
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            )  # fmt: skip
            try:
                self.until_it_counts(path, pqos)
                self.feed(MOVED)
                said, _ = pqos.communicate(timeout=DEADLINE_S)
            finally:
                pqos.kill()
                pqos.wait()
            text = path.read_text()
        rows = list(csv.DictReader(text.splitlines()))
        self.assertIn("MBT[MB/s]", rows[0], said)
        return float(rows[-1]["LLC[KB]"]), sum(float(row["MBT[MB/s]"]) for row in rows)

    def until_it_counts(self, path, pqos):
        """Wait for its first line: it has read what there was before."""
        deadline = time.monotonic() + DEADLINE_S
        while not path.exists() or path.read_text().count("\n") < 2:
            if time.monotonic() > deadline or pqos.poll() is not None:
                self.fail(f"pqos counts nothing: {pqos.communicate(timeout=1)[0]}")
            threading.Event().wait(0.05)
