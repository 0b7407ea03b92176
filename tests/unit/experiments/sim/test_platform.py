# SPDX-License-Identifier: Apache-2.0
"""The emulated server as an agent's machine: what it leaves in the state directory."""

import dataclasses
import json
import pathlib
import tempfile
import threading
import unittest

from iat_nova import conf
from iat_nova.experiments.runs import platform
from tests.unit.experiments.sim import scenes

TEXT = (
    scenes.HEAD + "compression: 1%\n" + scenes.FORWARDER.format(ring=256, rate="4Gb/s", packet=1024)
)


class PlatformTest(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        (self.folder / "test.yaml").write_text(TEXT, encoding="ascii")
        self.settings = dataclasses.replace(
            conf.load([]),
            state_dir=self.folder,
            emulated_scenario=str(self.folder / "test.yaml"),
            emulated_pace=0.0,
        )

    def test_results(self) -> None:
        """The results have the rates of each workload until the end of the counters."""
        machine = platform.open_machine(self.settings)
        machine.clock.wait(threading.Event(), 0.5)
        machine.counters.close()
        found = json.loads((self.folder / platform.RESULTS).read_text(encoding="ascii"))
        self.assertEqual(0.5, found["seconds"])
        workload = next(one for one in found["workloads"] if one["name"] == "fwd")
        self.assertAlmostEqual(4 * 1024 / 1044, workload["gbps"], delta=0.1)

    def test_no_place_for_results(self) -> None:
        """Without the folder, the end of the counters logs a warning and raises nothing."""
        settings = dataclasses.replace(self.settings, state_dir=self.folder / "test.yaml")
        machine = platform.open_machine(settings)
        machine.clock.wait(threading.Event(), 0.1)
        with self.assertLogs(platform.LOG, "WARNING"):
            machine.counters.close()
