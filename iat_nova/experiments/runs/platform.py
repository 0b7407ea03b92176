# SPDX-License-Identifier: Apache-2.0
"""``[iat] hardware = emulated``: the emulated server as the machine of an agent."""

from __future__ import annotations

import json
import logging
import time

from iat_nova.common.owned_folder import OwnedFolder
from iat_nova.conf import ConfigError, Settings
from iat_nova.experiments.runs.performance import workload_result
from iat_nova.experiments.scenarios.reader import load_scenario
from iat_nova.experiments.scenarios.scenario import Scenario, ScenarioError
from iat_nova.experiments.server.server import EmulatedServer
from iat_nova.hardware.host.machine import Machine
from iat_nova.model.message import as_message
from iat_nova.store import records

LOG = logging.getLogger(__name__)

RESULTS = "emulated.json"
"""File in the state directory: the emulated seconds, and the results of each workload until then.

``workloads`` has the form of ``iat-nova simulate run -f json``.
"""


class _Server(EmulatedServer):
    """The machine of an agent, which writes the results of the workloads at its end."""

    def __init__(self, scenario: Scenario, settings: Settings) -> None:
        # Operators read the history of a run in progress by wall-clock time.
        super().__init__(scenario, pace=settings.emulated_pace or None, epoch_s=time.time())
        self._folder = OwnedFolder(settings.state_dir)

    def close(self) -> None:
        """Stop watching, and write the results."""
        super().close()
        seconds = self.now()
        if seconds:
            workloads = [workload_result(*one, seconds) for one in self.metrics().items()]
            results = {"seconds": seconds, "workloads": records.unstructure(workloads)}
            try:
                self._folder.replace(RESULTS, json.dumps(results))
            except OSError as error:
                LOG.warning("results of the workloads not written: %s", error)


def open_machine(settings: Settings) -> Machine:
    """Start the emulated server with the scenario of the settings. Raises `ConfigError`."""
    try:
        scenario = load_scenario(settings.emulated_scenario or "")
        server = _Server(scenario, settings)
    except ScenarioError as error:
        raise ConfigError(as_message(error)) from error
    length_s = settings.emulated_seconds or scenario.length_s
    return Machine(server, server, server, server, server.now() + length_s, dca=server)
