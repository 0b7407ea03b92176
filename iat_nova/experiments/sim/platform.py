# SPDX-License-Identifier: Apache-2.0
"""``[iat] hardware = emulated``: the emulated server as the machine of an agent."""

from __future__ import annotations

import time

from iat_nova.conf import ConfigError, Settings
from iat_nova.experiments.sim import warm
from iat_nova.experiments.sim.reader import load_scenario
from iat_nova.experiments.sim.scenario import ScenarioError
from iat_nova.experiments.sim.server import EmulatedServer
from iat_nova.hardware.host.machine import Machine
from iat_nova.model.message import as_message


def open_machine(settings: Settings) -> Machine:
    """Start the emulated server with the scenario of the settings. Raises `ConfigError`."""
    warm.warm()  # a signal ends the compilation at once here, but not in the first iteration
    try:
        scenario = load_scenario(settings.emulated_scenario or "")
        # Operators read the history of a run in progress by wall-clock time.
        pace = settings.emulated_pace or None
        server = EmulatedServer(scenario, pace=pace, epoch_s=time.time())
    except ScenarioError as error:
        raise ConfigError(as_message(error)) from error
    length_s = settings.emulated_seconds or scenario.length_s
    return Machine(server, server, server, server, server.now() + length_s, dca=server)
