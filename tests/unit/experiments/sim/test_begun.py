# SPDX-License-Identifier: Apache-2.0
"""Comparisons whose runs begin before the comparison before them ends."""

import dataclasses
import unittest
from concurrent.futures import Executor, Future

from iat_nova.experiments.compare import compare
from iat_nova.experiments.runs import parallel
from iat_nova.experiments.scenarios.reader import read_scenario

TEXT = """\
length: 1s
workloads:
  one: {profile: xmem, cpus: [0], working_set: 1MiB}
"""


class _Waiting(Executor):
    """Notes the scenarios of the runs, and finishes none."""

    def __init__(self):
        self.names = []

    def submit(self, function, job):
        self.names.append(job.scenario.name)
        return Future()


class BegunTest(unittest.TestCase):
    def test_the_next_scenario_begins_before_the_last_runs_of_this_one_end(self):
        """A process that has nothing left to do here goes on there; no scenario more is begun."""
        scenario, waiting = read_scenario(TEXT, "a", "test.yaml"), _Waiting()
        begun = parallel.one_ahead(
            compare.begin(
                dataclasses.replace(scenario, name=name), ["baseline"], [1], executor=waiting
            )
            for name in "abc"
        )
        self.assertEqual("a", next(begun).scenario.name)
        self.assertEqual(["a", "a", "b", "b"], waiting.names)
        self.assertEqual(["b", "c"], [one.scenario.name for one in begun])
