# SPDX-License-Identifier: Apache-2.0
"""simulate run as a person types it."""

import json
import pathlib
import tempfile

from tests.unit.cmd.test_cli import CliCase

# One guest, whose packets leave within the step in which they came.
TEXT = """\
length: 3s
compression: 1%
nics:
  nic0: {address: "0000:3b:00.0", speed: 40Gb/s}
guests:
  - name: instance-00000001
    uuid: 00000001-5117-4000-8000-000000000001
    cpus: [0, 1]
    attachments: [{kind: vf, device: "0000:3b:02.0", nic: nic0}]
workloads:
  fwd: {profile: testpmd, cpus: [0, 1], nic: nic0}
traffic:
  fwd: {to: fwd, rate: 1Gb/s, packet: 512B}
"""


class TestSimulateRun(CliCase):
    def simulate(self, *arguments):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "short.yaml"
            path.write_text(TEXT)
            status, out, err = self.run_it("simulate", "run", str(path), *arguments)
        self.assertEqual(0, status, err)
        return out

    def test_latency(self):
        """A person reads a latency far below the step of time, too, not that it is 0."""
        row = next(line for line in self.simulate().splitlines() if "fwd" in line)
        latency_us = float(row.split(" us")[0].split()[-1])
        self.assertGreater(latency_us, 0.05)
        self.assertLess(latency_us, 5.0)

    def test_data_tell_the_resolution(self):
        """A program finds the step beside the latency."""
        record = json.loads(self.simulate("-f", "json"))
        self.assertEqual(5.0, record["step_us"])
        self.assertLess(record["workloads"][0]["latency_us"], record["step_us"])


class TestSimulateList(CliCase):
    def test_what_ships(self):
        """Each scenario has a row with its title and its file, to be copied."""
        status, out, err = self.run_it("simulate", "list", "-f", "json")
        self.assertEqual(0, status, err)
        rows = {row["scenario"]: row for row in json.loads(out)}
        self.assertGreaterEqual(len(rows), 11)
        self.assertTrue(pathlib.Path(rows["leaky-dma"]["file"]).exists())
        self.assertIn("Leaky DMA", rows["leaky-dma"]["title"])


class TestAdvise(CliCase):
    def test_what_the_agent_found(self):
        """The page names the device, what it needs and what would fit; JSON has the numbers."""
        with tempfile.TemporaryDirectory() as folder:
            kept = pathlib.Path(folder) / "state"
            path = pathlib.Path(folder) / "short.yaml"
            path.write_text(TEXT)
            self.run_it("simulate", "run", str(path), "--keep", str(kept), "--seconds", "1")
            asked = ("--state-dir", str(kept), "advise", "--guest-ring", "4096", "--no-estimate")
            status, page, err = self.run_it(*asked)
            self.assertEqual(0, status, err)
            record = json.loads(self.run_it(*asked, "-f", "json")[1])
        self.assertIn("0000:3b:02.0", page)
        self.assertIn("It does not fit: 12.2 MiB", page)
        self.assertIn("rings of 512", page)
        (domain,) = record["domains"]
        self.assertEqual(2 * 4096 * (24 * 64 + 32), domain["footprint_bytes"])
        self.assertEqual(["10 DDIO ways", "rings of 512"], [c["what"] for c in domain["choices"]])
