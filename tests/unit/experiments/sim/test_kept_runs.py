# SPDX-License-Identifier: Apache-2.0
"""Runs of a comparison that was stopped."""

import dataclasses
import pathlib
import tempfile
import unittest
from unittest import mock

from iat_nova.experiments.compare import compare
from iat_nova.experiments.runs import sources
from iat_nova.experiments.scenarios.reader import read_scenario
from tests.unit.experiments.sim import in_process

TEXT = """\
length: 1s
compression: 1%
guests:
  - {name: instance-00000001, uuid: 1, extra_specs: {"iat:priority": PC}, cpus: [0]}
  - {name: instance-00000002, uuid: 2, extra_specs: {"iat:priority": BE}, cpus: [1]}
workloads:
  a/b: {profile: xmem, cpus: [0], working_set: 1MiB}
  be: {profile: xmem, cpus: [1], working_set: 4MiB}
""".replace("uuid: ", "uuid: 00000000-c03e-4000-8000-00000000000")


class KeptRunsTest(unittest.TestCase):
    def setUp(self):
        self.scenario = read_scenario(TEXT, "test", "test.yaml")
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.made = self.enterContext(mock.patch.object(compare, "_run", wraps=compare._run))

    def compare(self, scenario=None):
        with in_process.executor() as executor:
            return compare.compare(
                scenario or self.scenario,
                ["unmanaged", "pollute-buffer without ddio-ways"],
                [1],
                kept_in=self.folder,
                executor=executor,
            )

    def test_a_stopped_comparison_makes_what_is_missing_alone(self):
        """What is kept gives the very same rows; a damaged file counts as missing."""
        first = self.compare()
        self.assertEqual(3, self.made.call_count)
        names = ["alone-0.json", "pollute-buffer-without-ddio-ways-1.json", "unmanaged-1.json"]
        kept = sorted((self.folder / "test").iterdir())
        self.assertEqual(names, [path.name for path in kept])
        self.assertEqual(first, self.compare())
        self.assertEqual(3, self.made.call_count)
        kept[0].unlink()
        kept[1].write_text(kept[1].read_text()[:50])
        self.assertEqual(first, self.compare())
        self.assertEqual(5, self.made.call_count)

    def test_another_scenario_or_version_begins_anew(self):
        """Neither a changed load nor changed code takes what was kept before."""
        self.compare()
        workload = dataclasses.replace(self.scenario.workloads[0], duty=0.5)
        workloads = (workload, *self.scenario.workloads[1:])
        self.compare(dataclasses.replace(self.scenario, workloads=workloads))
        self.assertEqual(6, self.made.call_count)
        with mock.patch.object(sources, "digest", return_value="another"):
            self.compare()
        self.assertEqual(9, self.made.call_count)
