# SPDX-License-Identifier: Apache-2.0
"""From a scenario to the engine's arrays."""

import unittest

from iat_nova.experiments.scenarios.scenario import ScenarioError
from iat_nova.experiments.server.plant import Plant
from tests.said import raises
from tests.unit.experiments.sim import scenes

STORES = """\
sampling: 1
workloads:
  store: {profile: redis-a, cpus: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11], nic: nic0}
"""


class TestLines(unittest.TestCase):
    def test_more_lines_than_the_caches_can_tell_apart(self):
        """Twelve stores of 1.9 GB without sampling are refused, and told which sampling does."""
        with raises(self, ScenarioError, "^test: sampling: invalid value 1: expected 2 or more"):
            Plant(scenes.scenario(scenes.HEAD + STORES), 1)
