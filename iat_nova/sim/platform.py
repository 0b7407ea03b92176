# SPDX-License-Identifier: Apache-2.0
"""``[iat] hardware = emulated``: the emulated server as the machine of an agent."""

from __future__ import annotations

import time

from iat_nova.conf import ConfigError, Settings
from iat_nova.hardware.machine import Machine
from iat_nova.sim import warm
from iat_nova.sim.reader import load_scenario
from iat_nova.sim.scenario import ScenarioError
from iat_nova.sim.server import EmulatedServer


def open_machine(settings: Settings) -> Machine:
    """Start the emulated server with the scenario of the settings. Raises `ConfigError`."""
    warm.warm()  # here a signal ends it at once; in the first iteration it would wait for all of it
    try:
        scenario = load_scenario(settings.emulated_scenario or "")
        # People look at the history of what runs before their eyes by the time on the wall.
        pace = settings.emulated_pace or None
        server = EmulatedServer(scenario, pace=pace, epoch_s=time.time())
    except ScenarioError as error:
        raise ConfigError(str(error)) from error
    length_s = settings.emulated_seconds or scenario.length_s
    return Machine(server, server, server, server, server.now() + length_s, dca=server)
